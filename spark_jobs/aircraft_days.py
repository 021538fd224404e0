"""Groups each aircraft's flights into sessions: session windows per tail number; see `spark_jobs/common/`.

A session is a sequence of flights of one tail number with at most eight hours between two flights; it ends eight hours
after its last flight. Under `--output`: the table `sessions/` of closed sessions, each once and final: tailnum,
session_start, session_end, flights, miles, delay_minutes (the sum; early departures count negative), worst_delay.

A session is closed when the watermark passes its end; sessions still open at the end of a run wait in the checkpoint
(the run says how many), and a later run with newer flights writes them.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.common import events, outputs
from spark_jobs.common.job import Job

NEEDS_SPARK = "3.5"
GAP = "8 hours"
RESULTS = outputs.Results(
    "aircraft_days", "sessions/", ("tailnum", "session_start"), "session_start", "tailnum"
)


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the sessions of `records`. Cancelled flights, and flights without a tail number, belong to none."""
    flights = events.flights_once(records, watermark)
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


JOB = Job(RESULTS.job, "What each aircraft did in a row.", transform, results=RESULTS, waits=True)


if __name__ == "__main__":
    sys.exit(JOB.main())
