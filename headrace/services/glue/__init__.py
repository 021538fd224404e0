"""Glue's catalog, on moto's."""
