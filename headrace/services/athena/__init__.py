"""Athena: queries over the tables of Glue's catalogue run in DuckDB, each in its own process; moto keeps the rest."""
