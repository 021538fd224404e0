"""Delays by airport over the last hour, anew every quarter: hopping windows; see `spark_jobs/common.py`.

Under `--output`: `updates/batch=N/`, the windows that micro-batch N changed, and `windows/`, every window as it stands,
made at the end of the run: window_start, window_end, origin, departures, delayed (15 minutes or more),
mean_delay and max_delay (minutes; null where no flight departed).
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import common

WINDOW, SLIDE = "1 hour", "15 minutes"
DELAYED_MINUTES = 15
KEY = ("window_start", "origin")


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the hopping windows of `records`; one counts in the four that hold its time. No cancelled one does."""
    flights = common.on_time_once(common.flights(records), watermark)
    return (
        flights.where("NOT cancelled AND dep_delay IS NOT NULL")
        .groupBy(F.window("event_time", WINDOW, SLIDE).alias("window"), "origin")
        .agg(
            F.count(F.lit(1)).alias("departures"),
            F.count_if(F.col("dep_delay") >= DELAYED_MINUTES).alias("delayed"),
            F.avg("dep_delay").alias("mean_delay"),
            F.max("dep_delay").alias("max_delay"),
        )
        .select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            *("origin", "departures", "delayed", "mean_delay", "max_delay"),
        )
    )


def run(spark: SparkSession, records: DataFrame, arguments: argparse.Namespace) -> dict[str, int]:
    """Run the query until the input is drained, publish, and return what happened, in flights."""
    updates = f"{arguments.output}updates/"
    query = common.start(
        spark,
        transform(records, arguments.watermark),
        "rolling_delays",
        "update",
        arguments.checkpoint,
        common.batches_into(updates),
    )
    query.awaitTermination()
    common.publish(spark, updates, f"{arguments.output}windows/", KEY)
    quarantined = common.quarantine(spark, records, arguments)
    return common.with_quarantine(common.summary(query.recentProgress), quarantined)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    return common.parse(common.parser("rolling_delays", "Delays by airport, rolling."), argv)


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return common.run_job(
        "rolling_delays",
        lambda spark: run(spark, common.source(spark, arguments, arguments.stream), arguments),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
