"""Groups each aircraft's flights into sessions: session windows per tail number; see `spark_jobs/common/`.

A session is a sequence of flights of one tail number with at most eight hours between two flights; it ends eight hours
after its last flight. Under `--output`: `sessions/batch=N/`, the sessions that micro-batch N closed, each once and
final: tailnum, session_start, session_end, flights, miles, delay_minutes (the sum; early departures count negative),
worst_delay.

A session is closed when the watermark passes its end; sessions still open at the end of a run stay in the checkpoint,
and a later run with newer flights writes them.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common import events, options, outputs, queries

NEEDS_SPARK = "3.5"
GAP = "8 hours"
RESULTS = outputs.Results("aircraft_days", "sessions/", ("tailnum", "session_start"), "tailnum")


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the sessions of `records`. Cancelled flights, and flights without a tail number, belong to none."""
    flights = events.on_time_once(events.flights(records), watermark)
    return (
        flights.where("NOT cancelled AND tailnum IS NOT NULL")
        .groupBy(F.session_window("event_time", GAP).alias("session"), "tailnum")
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.sum("distance").alias("miles"),
            F.sum("dep_delay").alias("delay_minutes"),
            F.max("dep_delay").alias("worst_delay"),
        )
        .select(
            "tailnum",
            F.col("session.start").alias("session_start"),
            F.col("session.end").alias("session_end"),
            *("flights", "miles", "delay_minutes", "worst_delay"),
        )
    )


def run(spark: SparkSession, records: DataFrame, arguments: argparse.Namespace) -> dict[str, int]:
    """Run the query until the input is drained, and return its counts of flights."""
    rows, write = transform(records, arguments.watermark), outputs.sink(arguments, RESULTS)
    counts = queries.run_query(spark, rows, RESULTS.job, "append", arguments, write)
    return counts | queries.quarantine(spark, records, arguments)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    return options.parse(
        options.parser("aircraft_days", "What each aircraft did in a row."), argv, to_stream=True
    )


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return queries.run_stream_job("aircraft_days", run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
