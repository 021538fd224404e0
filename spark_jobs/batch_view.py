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

from spark_jobs.common import events, options, queries, views

NEEDS_SPARK = "3.5"


def transform(records: DataFrame, cut: str) -> DataFrame:
    """Return the view of the flights in `records` (rows with `data`) before `cut`; each flight counts once."""
    flights = events.flights(records).dropDuplicates(["event_id"])
    return views.view(flights.where(views.before(cut)))


def archive(spark: SparkSession, folder: str) -> DataFrame:
    """Return the archive's lines in the form of a stream's records."""
    return spark.read.text(folder).select(F.col("value").cast("binary").alias("data"))


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, int]:
    """Write the view, and return the number of its keys."""
    rows = transform(archive(spark, arguments.archive), arguments.before)
    rows.coalesce(1).write.mode("overwrite").parquet(arguments.output)
    return {"rows": spark.read.schema(views.VIEW_SCHEMA).parquet(arguments.output).count()}


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    parser = argparse.ArgumentParser(prog="batch_view.py", description="The batch layer's view.")
    parser.add_argument("--archive", required=True, help="s3:// URI of JSON lines")
    parser.add_argument("--before", required=True, type=options.moment, help="the cut, an ISO time")
    parser.add_argument("--output", required=True, help="s3:// URI of the view")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return queries.run_job("batch_view", lambda spark: run(spark, arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
