"""Joins flights with the aircraft register: a stream joined with a table that changes while the query runs.

The register is a Parquet folder, `--planes`, with tailnum, year, manufacturer, model and seats; another program
replaces it or adds to it. The job reads it again for each micro-batch, so a flight is joined with the register's
state at its micro-batch's run; a flight of an unknown aircraft has nulls. Under `--output`: `flights/batch=N/`.

A micro-batch that is repeated after a crash replaces its files, and may see a newer register: each flight is
written exactly once, with its aircraft from the last attempt. See `spark_jobs/common/`.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common import events, options, outputs, queries

NEEDS_SPARK = "3.5"
PLANES_SCHEMA = "tailnum STRING, year INT, manufacturer STRING, model STRING, seats INT"
RESULTS = outputs.Results("fleet_enrich", "flights/", ("event_id",), "origin")


def transform(flights: DataFrame, planes: DataFrame) -> DataFrame:
    """Return `flights` (events.flights' columns) with plane_year, plane_manufacturer, plane_model and plane_seats.

    If the register has several rows of an aircraft, the newest one counts, then the greatest by its values.
    """
    details = ("year", "manufacturer", "model", "seats")
    one = planes.groupBy("tailnum").agg(F.max(F.struct(*details)).alias("plane"))
    named = [F.col(f"plane.{name}").alias(f"plane_{name}") for name in details]
    # A small table: broadcast to every executor, so that the stream is not shuffled.
    return flights.join(F.broadcast(one.select("tailnum", *named)), "tailnum", "left")


def register(spark: SparkSession, folder: str) -> DataFrame:
    """Return the register's current state."""
    return spark.read.schema(PLANES_SCHEMA).parquet(folder)


def run(spark: SparkSession, records: DataFrame, arguments: argparse.Namespace) -> dict[str, int]:
    """Run the query until the input is drained, and return its counts of flights."""
    write = outputs.sink(arguments, RESULTS)

    def enrich(flights: DataFrame, batch_id: int) -> None:
        write(transform(flights, register(spark, arguments.planes)), batch_id)

    flights = events.on_time_once(events.flights(records), arguments.watermark)
    counts = queries.run_query(spark, flights, RESULTS.job, "append", arguments, enrich)
    return counts | queries.quarantine(spark, records, arguments)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    parser = options.parser("fleet_enrich", "Flights with what is known of their aircraft.")
    parser.add_argument("--planes", required=True, help="s3:// URI of the register, Parquet")
    return options.parse(parser, argv, to_stream=True)


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return queries.run_stream_job("fleet_enrich", run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
