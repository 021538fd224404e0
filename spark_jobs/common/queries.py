"""Starts a job's streaming query, which reads its streams once: for its results and for the quarantine."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.common import batches, events
from spark_jobs.common.day_tables import DayTable, day_of
from spark_jobs.common.options import DRAIN
from spark_jobs.common.totals import LATE, WAITING, Totals, keep_packages

# The column of a query's rows that has an unreadable record; null for a result.
_BAD = "_bad"


@dataclass(frozen=True)
class Quarantine:
    """Takes the unreadable records of a job's streams in the query of its results, in the same micro-batches.

    Attributes:
        parts: each stream's subfolder of `--quarantine`, such as `weather/`; "" for a job with one stream.
    """

    parts: tuple[str, ...]

    def with_results(self, results: DataFrame, bad: Sequence[DataFrame]) -> DataFrame:
        """Return a query's rows: `results`, and each stream's unreadable records, see `unreadable`."""
        marked = [
            rows.select(F.struct(F.lit(part).alias("part"), *rows.columns).alias(_BAD))
            for part, rows in zip(self.parts, bad)
        ]
        return reduce(
            lambda rows, more: rows.unionByName(more, allowMissingColumns=True), [results, *marked]
        )

    def sink(
        self, spark: SparkSession, arguments: argparse.Namespace, results: batches.Sink
    ) -> batches.Sink:
        """Return what writes a micro-batch: its unreadable records to their tables, then its results by `results`."""

        def write(rows: DataFrame, batch_id: int) -> None:
            rows.persist()
            try:
                bad = rows.where(F.col(_BAD).isNotNull()).select(f"{_BAD}.*")
                for part in self.parts:
                    own = bad.where(F.col("part") == part).drop("part")
                    _table(spark, arguments, part, own).add(own, batch_id)
                # Last: from here on the micro-batch is done.
                results(rows.where(F.col(_BAD).isNull()).drop(_BAD), batch_id)
            finally:
                rows.unpersist()

        return write


def read_once(records: DataFrame) -> DataFrame:
    """Return a stream's `records` so that several parts of one query read them, but the source is read once.

    Spark computes equal exchanges once; this one has all columns, so that no part narrows its own.
    """
    return records.repartition(*records.columns)


def observation_of(part: str) -> str:
    """Return the name under which a query counts the unreadable records of a part."""
    return f"quarantined {part.rstrip('/')}".rstrip()


def unreadable(
    records: DataFrame, schema: str, required: tuple[str, ...], part: str = ""
) -> DataFrame:
    """Return the unreadable `records`, counted: their day, `reason`, and the source's columns with `data` untouched."""
    arrived = F.current_timestamp()
    if events.ARRIVAL in records.columns:
        arrived = F.coalesce(events.ARRIVAL, arrived)
    # The count stands between the exchange and the filter, which Spark would else push below it.
    return (
        events.with_reason(records, schema, required)
        .observe(observation_of(part), F.count("reason").alias("rows"))
        .where(F.col("reason").isNotNull())
        .select(day_of(arrived).alias("day"), "reason", *records.columns)
    )


def start(
    spark: SparkSession,
    rows: DataFrame,
    name: str,
    mode: str,
    arguments: argparse.Namespace,
    sink: batches.Sink,
) -> StreamingQuery:
    """Start a query with `--trigger`."""
    drains = arguments.trigger == DRAIN
    # Spark would add a micro-batch without input, only to advance its state: the next run of a job does that too.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", value=not drains)
    trigger = {"availableNow": True} if drains else {"processingTime": arguments.trigger}
    return (
        rows.writeStream.queryName(name)
        .outputMode(mode)
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(**trigger)
        .foreachBatch(sink)
        .start()
    )


def run_query(
    spark: SparkSession,
    rows: DataFrame,
    name: str,
    mode: str,
    arguments: argparse.Namespace,
    sink: batches.Sink,
    observations: tuple[str, ...] = (events.OBSERVATION,),
    parts: tuple[str, ...] = (),
    *,
    waits: bool = False,
) -> dict[str, int]:
    """Run a job's query to its end, and return its counts of events over all micro-batches.

    With `waits`, also the number of rows that wait in its state in the end; with `parts`, those of the quarantine.
    """
    totals = Totals()
    keep_packages(spark)
    spark.streams.addListener(totals)
    try:
        query = start(spark, rows, name, mode, arguments, sink)
        query.awaitTermination()
        run = str(query.runId)
        totals.wait(run)
    finally:
        spark.streams.removeListener(totals)
    counts = {
        what: sum(totals.of(run, observation, what) for observation in observations)
        for what in ("read", "unreadable")
    }
    counts[LATE] = totals.late(run)
    if waits:
        counts[WAITING] = totals.waiting(run)
    return counts | {
        observation_of(part): totals.of(run, observation_of(part), "rows") for part in parts
    }


def _table(
    spark: SparkSession, arguments: argparse.Namespace, part: str, rows: DataFrame
) -> DayTable:
    folder = f"{arguments.quarantine}{part}"
    return DayTable(spark, folder, rows.schema, checkpoint=arguments.checkpoint)
