"""Stores moto's state: a snapshot of each service, rows for what piles up, a journal for what fits neither."""
