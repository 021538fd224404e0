"""A layer."""
