"""The Spark jobs on the flights: each file here is one job, and `common/` holds what the jobs share."""
