"""The serving layer: adds the batch view and the speed view; see `spark_jobs/common/views.py`.

    spark-submit --py-files s3://.../spark_jobs.zip s3://.../serve.py --batch s3://bucket/views/batch/
        --speed s3://bucket/views/speed/ --output s3://bucket/views/served/

It reads the current views, and replaces its output.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession

from spark_jobs import speed_view
from spark_jobs.common import queries, views

NEEDS_SPARK = "3.5"


def transform(batch: DataFrame, speed: DataFrame) -> DataFrame:
    """Return the sum of both views, which must have the same cut."""
    return views.added(batch.unionByName(speed))


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, int]:
    """Write the sum of the views, and return the number of its keys."""
    batch = spark.read.schema(views.VIEW_SCHEMA).parquet(arguments.batch)
    speed = speed_view.read_view(spark, arguments.speed.rstrip("/") + "/")
    rows = transform(batch, speed).coalesce(1).sortWithinPartitions(*views.KEY)
    rows.write.mode("overwrite").parquet(arguments.output)
    return {"rows": spark.read.schema(views.VIEW_SCHEMA).parquet(arguments.output).count()}


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    parser = argparse.ArgumentParser(prog="serve.py", description="The serving layer's table.")
    for name in ("batch", "speed", "output"):
        parser.add_argument(f"--{name}", required=True, help="s3:// URI")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return queries.run_job("serve", lambda spark: run(spark, arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
