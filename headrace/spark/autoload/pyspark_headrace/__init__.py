"""Registers `format("kinesis")` with Spark, so that a job does not have to.

Spark looks on the PYTHONPATH that spark-submit was started with for modules whose names begin with `pyspark_` and
registers their `DefaultSource`. The zip of `headrace.spark.package` has this module at its root, and may be on that
path. With `--py-files` alone it is not on the path, and the job registers the source itself.
"""

from headrace.spark.source import KinesisDataSource as DefaultSource

__all__ = ["DefaultSource"]
