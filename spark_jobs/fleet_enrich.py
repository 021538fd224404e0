"""Joins flights with the aircraft register: a stream joined with a table that changes while the query runs.

The register is a Parquet folder, `--planes`, with tailnum, year, manufacturer, model and seats; another program
replaces it or adds to it. The job reads it again for each micro-batch, so a flight is joined with the register's
state at its micro-batch's run; a flight of an unknown aircraft has nulls. Under `--output`: the table `flights/`.

A micro-batch that is repeated after a crash may see a newer register: each flight is written exactly once, with its
aircraft from the first attempt that the table took. See `spark_jobs/common/`.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common import batches, outputs
from spark_jobs.common.job import Job

NEEDS_SPARK = "3.5"
PLANES_SCHEMA = "tailnum STRING, year INT, manufacturer STRING, model STRING, seats INT"
RESULTS = outputs.Results("fleet_enrich", "flights/", ("event_id",), "event_time", "origin")


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


def enrich(spark: SparkSession, arguments: argparse.Namespace) -> batches.Sink:
    """Return what writes a micro-batch's flights with the register's state at that moment."""
    write = outputs.sink(spark, arguments, RESULTS)
    return lambda flights, batch_id: write(
        transform(flights, register(spark, arguments.planes)), batch_id
    )


JOB = Job(
    RESULTS.job,
    "Flights with what is known of their aircraft.",
    results=RESULTS,
    sink=enrich,
    options={"--planes": {"required": True, "help": "s3:// URI of the register, Parquet"}},
)


if __name__ == "__main__":
    sys.exit(JOB.main())
