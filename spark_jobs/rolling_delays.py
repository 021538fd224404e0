"""Computes delays by airport over the last hour, every 15 minutes: hopping windows; see `spark_jobs/common/`.

Under `--output`: `updates/batch=N/`, the windows that micro-batch N changed, and `windows/`, the current state of every
window, written at the end of the run: window_start, window_end, origin, departures, delayed (15 minutes or more),
mean_delay and max_delay (minutes; null if no flight departed). In a stream, only the updates.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common import batches, events, options, outputs, queries

NEEDS_SPARK = "3.5"
WINDOW, SLIDE = "1 hour", "15 minutes"
DELAYED_MINUTES = 15
KEY = ("window_start", "origin")
RESULTS = outputs.Results("rolling_delays", "updates/", KEY, "origin", corrects=True)


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the hopping windows of `records`; a flight counts in the four windows around its time unless cancelled."""
    flights = events.on_time_once(events.flights(records), watermark)
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
    """Run the query until the input is drained, write `windows/`, and return its counts of flights."""
    rows, write = transform(records, arguments.watermark), outputs.sink(arguments, RESULTS)
    counts = queries.run_query(spark, rows, RESULTS.job, "update", arguments, write)
    if outputs.stream_of(arguments.output) is None:
        updates, windows = (
            f"{arguments.output}{folder}" for folder in (RESULTS.folder, "windows/")
        )
        batches.publish(spark, updates, windows, KEY)
    return counts | queries.quarantine(spark, records, arguments)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    return options.parse(
        options.parser("rolling_delays", "Delays by airport, rolling."), argv, to_stream=True
    )


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return queries.run_stream_job("rolling_delays", run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
