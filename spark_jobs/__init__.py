"""The Spark jobs on the flights: each file here is one job, and `common/` holds their shared code."""
