"""The speed layer: updates the view of the flights after a cut from a stream; see `spark_jobs/common/views.py`.

Under `--output`: `deltas/batch=N/`, micro-batch N's additions; the view is their sum, `read_view()`. Without `--since`
all flights count, which makes a Kappa architecture: `replay.py`. `common/events.py` defines late flights; the cut does
not make a flight late.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.common import batches, events, options, queries, views

NEEDS_SPARK = "3.5"


def transform(records: DataFrame, since: str | None, watermark: str) -> DataFrame:
    """Return the flights of `records` that the view counts: those from `since` on, without late and repeated ones."""
    flights = events.on_time_once(events.flights(records), watermark)
    return flights if since is None else flights.where(~views.before(since))


def read_view(spark: SparkSession, folder: str) -> DataFrame:
    """Return the view under `folder`, the speed layer's output; empty before its first micro-batch."""
    deltas = batches.read(spark, f"{folder}deltas/")
    return spark.createDataFrame([], views.VIEW_SCHEMA) if deltas is None else views.added(deltas)


def run(spark: SparkSession, records: DataFrame, arguments: argparse.Namespace) -> dict[str, int]:
    """Run the query until the input is drained, and return its counts of flights."""
    write = batches.into(f"{arguments.output}deltas/")
    counts = queries.run_query(
        spark,
        transform(records, arguments.since, arguments.watermark),
        "speed_view",
        "append",
        arguments,
        lambda flights, batch_id: write(views.view(flights), batch_id),
    )
    return counts | queries.quarantine(spark, records, arguments)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    parser = options.parser("speed_view", "The speed layer's view.")
    parser.add_argument(
        "--since", type=options.moment, help="the cut, an ISO time; by default all flights count"
    )
    return options.parse(parser, argv)


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return queries.run_stream_job("speed_view", run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
