"""Verifies signatures, and knows keys, sessions and the services' names."""
