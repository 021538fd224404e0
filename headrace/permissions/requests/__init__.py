"""Which actions and resources a request stands for, service by service; `accesses.py` above puts them together."""
