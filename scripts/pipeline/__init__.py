"""The stages of `make run`: their work on a cloud, their checks, and the summary of the results."""
