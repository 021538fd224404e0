"""Computes departures per hour and airport from the enriched flights in Kinesis; see `spark_jobs/common/`.

    spark-submit --conf spark.sql.shuffle.partitions=2 --py-files s3://.../spark_jobs.zip s3://.../departures.py
        --stream flights-enriched --region us-east-1
        --output s3://bucket/departures/ --checkpoint s3://bucket/checkpoints/departures/

On EMR, `--source-format` with its name (and `--jars` with its jar) selects EMR's bundled connector; the options
are the same. Each run continues where the last one stopped, and ends when the stream is drained; with `--trigger "10
seconds"` it runs on. Under `--output` is the table `windows/`: for each window and airport its row after the last
micro-batch that changed it (in a stream, every such row). A micro-batch adds the rows that it changed, at once: one
that is repeated after a crash changes nothing twice (`spark_jobs/common/day_tables.py`).

Why the job does not append each window once the watermark has closed it: a run that drains its input and ends would
never write its last windows, since no later flight moves the watermark past them. Here a window is written as soon
as it has a flight, and corrected until it is closed; so the table always accounts for every flight read.

**Lateness.** A flight is dropped if it comes at least *two micro-batches* after flights that are more than
`--watermark` younger (Spark applies the watermark at the start of the previous batch). The shards of a stream drain at
different speeds, and a carrier's flights are all in one shard: divided into many micro-batches, a replayed year is soon
weeks further in one shard than in another. So a run takes the whole backlog as one micro-batch, inside which nothing is
late, and waits for Kinesis's allowance of 2 MiB per second and shard. The watermark, two days by default, is for live
events; with a small `--max-records-per-shard` or with EMR's connector give one as wide as the history
(`--watermark "400 days"`): it costs the state of as many windows and event ids. The job prints how many flights it
dropped; it never drops one silently.

The output belongs to its checkpoint: to start again from the beginning, delete both, or name others.

A flight written twice (see `lambdas/enrich`) is counted once: the state keeps its `event_id` as long as its window.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.common import events, outputs
from spark_jobs.common.job import Job, Source

NEEDS_SPARK = "3.5"
WINDOW = "1 hour"
SCHEMA = "event_id STRING, event_time TIMESTAMP, origin STRING, dep_delay INT, cancelled BOOLEAN"
REQUIRED = ("event_id", "event_time", "origin", "cancelled")
KEY = ("window_start", "origin")
RESULTS = outputs.Results("departures", "windows/", KEY, "window_start", "origin", corrects=True)


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the hourly windows of `records`, a Kinesis source's rows with the event in `data` (bytes, JSON).

    Columns: window_start, window_end (timestamps), origin, departures, cancellations (counts),
    mean_delay, p95_delay (minutes; of the flights that departed; null without any). The percentile is exact, with
    linear interpolation between neighbours. Rows that are not flight events are left out; the observation `events`
    counts all rows as `read` and these as `unreadable`. Works on a batch too, where the watermark has no effect.
    """
    departed = ~F.col("cancelled")
    delay = F.when(departed, F.col("dep_delay"))
    flights = events.readable_events(records, SCHEMA, REQUIRED, events.OBSERVATION)
    return (
        events.on_time_once(flights, watermark)
        .groupBy(F.window("event_time", WINDOW).alias("window"), "origin")
        .agg(
            F.count_if(departed).alias("departures"),
            F.count_if("cancelled").alias("cancellations"),
            F.avg(delay).alias("mean_delay"),
            F.percentile(delay, 0.95).alias("p95_delay"),
        )
        .select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            *("origin", "departures", "cancellations", "mean_delay", "p95_delay"),
        )
    )


JOB = Job(
    RESULTS.job,
    "Departures an hour by airport.",
    transform,
    results=RESULTS,
    sources=(Source(schema=SCHEMA, required=REQUIRED),),
)


if __name__ == "__main__":
    sys.exit(JOB.main())
