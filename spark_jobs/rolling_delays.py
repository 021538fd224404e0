"""Computes delays by airport over the last hour, every 15 minutes: hopping windows; see `spark_jobs/common/`.

Under `--output`: the table `windows/`, the current state of every window: window_start, window_end, origin, departures,
delayed (15 minutes or more), mean_delay and max_delay (minutes; null if no flight departed). In a stream, the windows
that each micro-batch changed.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.common import events, outputs
from spark_jobs.common.job import Job

NEEDS_SPARK = "3.5"
WINDOW, SLIDE = "1 hour", "15 minutes"
DELAYED_MINUTES = 15
KEY = ("window_start", "origin")
RESULTS = outputs.Results(
    "rolling_delays", "windows/", KEY, "window_start", "origin", corrects=True
)


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the hopping windows of `records`; a flight counts in the four windows around its time unless cancelled."""
    flights = events.flights_once(records, watermark)
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


JOB = Job(RESULTS.job, "Delays by airport, rolling.", transform, results=RESULTS)


if __name__ == "__main__":
    sys.exit(JOB.main())
