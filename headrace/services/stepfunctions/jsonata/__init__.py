"""Evaluates JSONata in child processes."""
