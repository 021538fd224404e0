"""The Redshift Data API: SQL on clusters and workgroups without a connection."""
