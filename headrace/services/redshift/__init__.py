"""Redshift: clusters, each a PostgreSQL."""
