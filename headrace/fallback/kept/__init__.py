"""Stores moto's state: a snapshot of each service, rows for collections that grow, a journal for what fits neither."""
