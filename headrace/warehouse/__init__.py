"""Redshift's clusters: a PostgreSQL for each in the data directory, Redshift's SQL and COPY on it. Extra `redshift`."""
