"""Joins each departure with the weather of its hour: a join of two streams; see `spark_jobs/common/`.

A flight is joined with its airport's report from at most an hour before its time. Under `--output`: the table
`joined/`, each flight once: event_id, event_time, origin, dep_delay, weather_time, temp, wind_speed, precip,
visib. A flight with a report is written with the first micro-batch that has both; a flight without one is written with
nulls when the watermark has passed it, since then no report can come. The watermark is the smaller of both streams'.

A report is `{"event_id", "event_time", "origin", "temp", "wind_speed", "precip", "visib"}`, in the stream
`--weather-stream`: hourly, with the time at which its hour begins; a missing measurement is null. Records that are not
flights are quarantined in `flights/`, records that are not reports in `weather/`. A run ends with the number of rows
that wait in the state: the flights and reports that the watermark has not passed.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.common import events, outputs
from spark_jobs.common.job import Job, Source

NEEDS_SPARK = "3.5"
WEATHER_SCHEMA = (
    "event_id STRING, event_time TIMESTAMP, origin STRING, temp DOUBLE, wind_speed DOUBLE, "
    "precip DOUBLE, visib DOUBLE"
)
WEATHER_REQUIRED = ("event_id", "event_time", "origin")
WEATHER_OBSERVATION = "reports"
RESULTS = outputs.Results("weather_delays", "joined/", ("event_id",), "event_time", "origin")
# The condition on the hour alone would compare every flight with every report of its airport: so join by hours first.
HOUR_US = 3_600_000_000
JOINED = (
    "w.origin = f.origin AND w.hour = f.hour AND f.event_time >= w.weather_time"
    " AND f.event_time < w.weather_time + INTERVAL 1 HOUR"
)


def transform(flights: DataFrame, weather: DataFrame, watermark: str) -> DataFrame:
    """Return the flights of the Kinesis rows `flights`, each with its report from the rows `weather`, or with nulls."""
    left = events.flights_once(flights, watermark)
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


REPORTS = Source(
    "weather_stream", WEATHER_SCHEMA, WEATHER_REQUIRED, WEATHER_OBSERVATION, "weather/"
)
JOB = Job(
    RESULTS.job,
    "Each departure with the weather of its hour.",
    transform,
    results=RESULTS,
    options={"--weather-stream": {"required": True}},
    sources=(Source(part="flights/"), REPORTS),
    waits=True,
)


if __name__ == "__main__":
    sys.exit(JOB.main())
