"""Groups each device's readings into sessions: session windows per device; see `spark_jobs/common/`.

A session is a sequence of readings of one device with at most five minutes between two readings, by the device's own
clock; it ends five minutes after its last reading. Under `--output`: the table `sessions/` of closed sessions, each
once and final: device, session_start, session_end, readings, mean_celsius, max_celsius.

Sessions that are open at the end of a run wait in the checkpoint (the run says how many), and a later run with newer
readings writes them.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.common import events, outputs
from spark_jobs.common.job import Job, Source

NEEDS_SPARK = "3.5"
GAP = "5 minutes"
SCHEMA = "device STRING, seq INT, event_time TIMESTAMP, celsius DOUBLE"
REQUIRED = ("device", "seq", "event_time", "celsius")
RESULTS = outputs.Results(
    "device_sessions", "sessions/", ("device", "session_start"), "session_start", "device"
)


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the sessions of `records`. A reading that came twice counts once."""
    readings = events.readable_events(records, SCHEMA, REQUIRED, events.OBSERVATION)
    once = events.on_time_once(readings, watermark, ("device", "seq"))
    return (
        once.groupBy(F.session_window("event_time", GAP).alias("session"), "device")
        .agg(
            F.count(F.lit(1)).alias("readings"),
            F.avg("celsius").alias("mean_celsius"),
            F.max("celsius").alias("max_celsius"),
        )
        .select(
            "device",
            F.col("session.start").alias("session_start"),
            F.col("session.end").alias("session_end"),
            *("readings", "mean_celsius", "max_celsius"),
        )
    )


JOB = Job(
    RESULTS.job,
    "When each device was there, and how warm.",
    transform,
    results=RESULTS,
    sources=(Source(schema=SCHEMA, required=REQUIRED),),
    waits=True,
)


if __name__ == "__main__":
    sys.exit(JOB.main())
