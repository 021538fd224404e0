"""Runs a job's streaming query until its input is drained, and returns its counts."""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.common import batches, events
from spark_jobs.common.totals import IN_STATE, LATE, Totals


def start(
    spark: SparkSession, rows: DataFrame, name: str, mode: str, checkpoint: str, sink: batches.Sink
) -> StreamingQuery:
    """Start a query that ends when its input is drained."""
    # Spark would add a micro-batch without input, only to advance its state: the next run does that too.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", value=False)
    return (
        rows.writeStream.queryName(name)
        .outputMode(mode)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )


def drain(
    spark: SparkSession, rows: DataFrame, name: str, mode: str, checkpoint: str, sink: batches.Sink
) -> tuple[Totals, str]:
    """Run a query until its input is drained; return the totals of all its micro-batches, and its run id."""
    totals = Totals()
    spark.streams.addListener(totals)
    try:
        query = start(spark, rows, name, mode, checkpoint, sink)
        query.awaitTermination()
        totals.wait(str(query.runId))
    finally:
        spark.streams.removeListener(totals)
    return totals, str(query.runId)


def run_query(
    spark: SparkSession,
    rows: DataFrame,
    name: str,
    mode: str,
    arguments: argparse.Namespace,
    sink: batches.Sink,
    observations: tuple[str, ...] = (events.OBSERVATION,),
    *,
    waits: bool = False,
) -> dict[str, int]:
    """Run a job's query until its input is drained, and return its counts of events over all micro-batches.

    With `waits`, also the number of rows that its state holds in the end.
    """
    totals, run = drain(spark, rows, name, mode, arguments.checkpoint, sink)
    read, unreadable = (
        sum(totals.of(run, observation, what) for observation in observations)
        for what in ("read", "unreadable")
    )
    state = {IN_STATE: totals.in_state(run)} if waits else {}
    return {"read": read, "unreadable": unreadable, LATE: totals.late(run), **state}


def quarantine(
    spark: SparkSession,
    records: DataFrame,
    arguments: argparse.Namespace,
    schema: str = events.FLIGHT_SCHEMA,
    required: tuple[str, ...] = events.FLIGHT_REQUIRED,
    part: str = "",
) -> dict[str, int]:
    """Write the unreadable records under `--quarantine`, and return this run's number of them; {} without that option.

    A job with several streams has a subfolder, `part`, for each, such as `weather`.
    """
    if arguments.quarantine is None:
        return {}
    rows = events.unreadable(records, schema, required).observe(
        "quarantine", F.count(F.lit(1)).alias("rows")
    )
    folder = f"{part}/" if part else ""
    totals, run = drain(
        spark,
        rows,
        "quarantine",
        "append",
        f"{arguments.checkpoint}quarantine/{folder}",
        batches.into(f"{arguments.quarantine}{folder}"),
    )
    return {f"quarantined {part}".rstrip(): totals.of(run, "quarantine", "rows")}
