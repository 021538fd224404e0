"""Joins each departure with the weather of its hour: a join of two streams; see `spark_jobs/common/`.

A flight is joined with its airport's report from at most an hour before its time. Under `--output`: `batch=N/`
in `joined/`, each flight once: event_id, event_time, origin, dep_delay, weather_time, temp, wind_speed, precip,
visib. A flight with a report is written with the first micro-batch that has both; a flight without one is written with
nulls when the watermark has passed it, since then no report can come. The watermark is the smaller of both streams'.

A report is `{"event_id", "event_time", "origin", "temp", "wind_speed", "precip", "visib"}`, in the stream
`--weather-stream`: hourly, with the time at which its hour begins; a missing measurement is null. Records that are not
flights are quarantined in `flights/`, records that are not reports in `weather/`.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common import events, kinesis, options, outputs, queries

NEEDS_SPARK = "3.5"
WEATHER_SCHEMA = (
    "event_id STRING, event_time TIMESTAMP, origin STRING, temp DOUBLE, wind_speed DOUBLE, "
    "precip DOUBLE, visib DOUBLE"
)
WEATHER_REQUIRED = ("event_id", "event_time", "origin")
WEATHER_OBSERVATION = "reports"
RESULTS = outputs.Results("weather_delays", "joined/", ("event_id",), "origin")
# The condition on the hour alone would compare every flight with every report of its airport: so join by hours first.
HOUR_US = 3_600_000_000
JOINED = (
    "w.origin = f.origin AND w.hour = f.hour AND f.event_time >= w.weather_time"
    " AND f.event_time < w.weather_time + INTERVAL 1 HOUR"
)


def transform(flights: DataFrame, weather: DataFrame, watermark: str) -> DataFrame:
    """Return the flights of the Kinesis rows `flights`, each with its report from the rows `weather`, or with nulls."""
    left = events.on_time_once(events.flights(flights), watermark)
    reports = events.readable_events(weather, WEATHER_SCHEMA, WEATHER_REQUIRED, WEATHER_OBSERVATION)
    right = events.on_time_once(reports, watermark).withColumnRenamed("event_time", "weather_time")
    # A report on the hour covers that hour, any other report covers parts of two hours.
    since, until = (
        f"floor((unix_micros(weather_time) + {n}) / {HOUR_US})" for n in (0, HOUR_US - 1)
    )
    hours = right.withColumn("hour", F.expr(f"explode(sequence({since}, {until}))"))
    return (
        left.select("event_id", "event_time", "origin", "dep_delay")
        .withColumn("hour", F.expr(f"floor(unix_micros(event_time) / {HOUR_US})"))
        .alias("f")
        .join(hours.drop("event_id").alias("w"), F.expr(JOINED), "leftOuter")
        .select("f.*", "w.weather_time", "w.temp", "w.wind_speed", "w.precip", "w.visib")
        .drop("hour")
    )


def run(
    spark: SparkSession, flights: DataFrame, weather: DataFrame, arguments: argparse.Namespace
) -> dict[str, int]:
    """Run the query until both inputs are drained, and return its counts of flights and reports."""
    counts = queries.run_query(
        spark,
        transform(flights, weather, arguments.watermark),
        RESULTS.job,
        "append",
        arguments,
        outputs.sink(arguments, RESULTS),
        (events.OBSERVATION, WEATHER_OBSERVATION),
    )
    schema, required = WEATHER_SCHEMA, WEATHER_REQUIRED
    return (
        counts
        | queries.quarantine(spark, flights, arguments, part="flights")
        | queries.quarantine(spark, weather, arguments, schema, required, part="weather")
    )


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    parser = options.parser("weather_delays", "Each departure with the weather of its hour.")
    parser.add_argument("--weather-stream", required=True)
    return options.parse(parser, argv, to_stream=True)


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return queries.run_job(
        "weather_delays",
        lambda spark: run(
            spark,
            kinesis.source(spark, arguments, arguments.stream),
            kinesis.source(spark, arguments, arguments.weather_stream),
            arguments,
        ),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
