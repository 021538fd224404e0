"""The views of the batch, the speed and the serving layer: departures by day and airport, as sums.

A view has one row for each key (day, a UTC date, and origin) with flights, cancellations, departures and delay_minutes.
Each number is a sum, so the views of disjoint sets of flights add up to the view of all flights. Therefore
Batch(old) + Stream(new) = Batch(all). The *cut*, an event time, divides the flights: the batch view has the flights
before it, the speed view the flights from it on; a flight is in exactly one of the two whenever it arrives.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common.day_tables import DayTable, day_of

KEY = ("day", "origin")
NUMBERS = ("flights", "cancellations", "departures", "delay_minutes")
VIEW_SCHEMA = (
    "day DATE, origin STRING, flights BIGINT, cancellations BIGINT, departures BIGINT, "
    "delay_minutes BIGINT"
)


def view(flights: DataFrame) -> DataFrame:
    """Return the view of `flights` (events.flights' columns, each flight once)."""
    departed = ~F.col("cancelled")
    return flights.groupBy(day_of("event_time").alias("day"), "origin").agg(
        F.count(F.lit(1)).alias("flights"),
        F.count_if("cancelled").alias("cancellations"),
        F.count_if(departed).alias("departures"),
        F.coalesce(F.sum(F.when(departed, F.col("dep_delay"))), F.lit(0)).alias("delay_minutes"),
    )


def added(views: DataFrame) -> DataFrame:
    """Return the sum of several views' rows."""
    return views.groupBy(*KEY).agg(*(F.sum(name).alias(name) for name in NUMBERS))


def table_of(spark: SparkSession, folder: str, checkpoint: str | None = None) -> DayTable:
    """Return the table of a view under `folder`; the query that writes it gives its checkpoint."""
    return DayTable(spark, folder, VIEW_SCHEMA, added, checkpoint)


def before(cut: str) -> Column:
    """Return whether a flight belongs to the batch view; `cut` is an ISO time with its zone."""
    return F.col("event_time") < F.lit(cut).cast("timestamp")
