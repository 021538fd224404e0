"""Injects faults that users ask for: throttles, errors, delays."""
