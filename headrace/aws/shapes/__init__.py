"""TypedDicts of the owned services, generated from botocore's models."""
