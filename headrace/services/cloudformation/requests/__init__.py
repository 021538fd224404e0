"""Reads and checks the requests of stack operations."""
