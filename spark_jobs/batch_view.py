"""The batch layer: computes the view of all archived flights before a cut; see `spark_jobs/common/views.py`.

    spark-submit --py-files s3://.../spark_jobs.zip s3://.../batch_view.py --archive s3://bucket/flights/ \
        --before 2013-02-01T00:00:00Z --output s3://bucket/views/batch/

The archive is JSON lines, one flight a line. The output is replaced.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common import events, options, views
from spark_jobs.common.job import TableJob

NEEDS_SPARK = "3.5"


def transform(records: DataFrame, cut: str) -> DataFrame:
    """Return the view of the flights in `records` (rows with `data`) before `cut`; each flight counts once."""
    flights = events.flights(records).dropDuplicates(["event_id"])
    return views.view(flights.where(views.before(cut)))


def archive(spark: SparkSession, folder: str) -> DataFrame:
    """Return the archive's lines in the form of a stream's records."""
    return spark.read.text(folder).select(F.col("value").cast("binary").alias("data"))


def table(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """Return the view of the archive, in one file."""
    return transform(archive(spark, arguments.archive), arguments.before).coalesce(1)


JOB = TableJob(
    "batch_view",
    "The batch layer's view.",
    table,
    views.VIEW_SCHEMA,
    options={
        "--archive": {"required": True, "help": "s3:// URI of JSON lines"},
        "--before": {"required": True, "type": options.moment, "help": "the cut, an ISO time"},
        "--output": {"required": True, "help": "s3:// URI of the view"},
    },
)


if __name__ == "__main__":
    sys.exit(JOB.main())
