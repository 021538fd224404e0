"""The serving layer: adds the batch view and the speed view; see `spark_jobs/common/views.py`.

    spark-submit --py-files s3://.../spark_jobs.zip s3://.../serve.py --batch s3://bucket/views/batch/
        --speed s3://bucket/views/speed/ --output s3://bucket/views/served/

It reads the current views, and replaces its output.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.common import views
from spark_jobs.common.job import TableJob

NEEDS_SPARK = "3.5"


def transform(batch: DataFrame, speed: DataFrame) -> DataFrame:
    """Return the sum of both views, which must have the same cut."""
    return views.added(batch.unionByName(speed))


def table(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """Return the sum of the views, sorted and in one file."""
    batch, speed = (
        views.table_of(spark, folder.rstrip("/") + "/").read()
        for folder in (arguments.batch, arguments.speed)
    )
    return transform(batch, speed).coalesce(1).sortWithinPartitions(*views.KEY)


JOB = TableJob(
    "serve",
    "The serving layer's table.",
    table,
    views.VIEW_SCHEMA,
    options={
        f"--{name}": {"required": True, "help": "s3:// URI"}
        for name in ("batch", "speed", "output")
    },
)


if __name__ == "__main__":
    sys.exit(JOB.main())
