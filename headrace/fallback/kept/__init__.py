"""How moto's state lasts: a snapshot of each service, rows for what piles up, a journal for what can be neither."""
