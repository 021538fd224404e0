"""Walls: Linux namespaces around processes that run other people's programs or statements. Knows no service."""
