"""Stores moto's state: a snapshot of each service, rows for growing collections, a journal for the rest."""
