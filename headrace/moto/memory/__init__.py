"""Reads moto's state for other parts of headrace."""
