"""Makes `format("kinesis")` known to Spark without a word in the job.

Spark looks on the Python path for modules whose names begin with `pyspark_` and registers their `DefaultSource`. On EMR
put this package at the root of the zip that `--py-files` names (see `headrace.spark.package`).
"""

from headrace.spark.source import KinesisDataSource as DefaultSource

__all__ = ["DefaultSource"]
