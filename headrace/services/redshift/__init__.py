"""Redshift: clusters run as PostgreSQL servers, with Redshift's SQL and COPY. Needs the extra `redshift`."""
