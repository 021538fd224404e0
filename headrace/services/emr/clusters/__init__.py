"""One cluster: the worker that takes it through its states, its bootstrap actions, metrics and instance ids."""
