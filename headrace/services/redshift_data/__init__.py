"""The Redshift Data API: runs SQL on clusters and workgroups for clients that hold no connection."""
