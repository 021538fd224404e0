"""Keeps a table of every airport's latest state from a stream: upserts by micro-batch, with periodic compaction.

Under `--output`:

- `deltas/batch=N/`: micro-batch N's additions to each airport. Writing replaces the folder: a repetition changes
  nothing.
- `base/upto=N/`: the whole table as of micro-batch N: compaction makes it from the base before and the later deltas.

The table is the newest complete base (one with `_SUCCESS`) and the deltas after it: `table()`. Every `--compact-every`
micro-batches the job writes a new base; then it deletes the older base and the deltas that the new one contains. A
compaction that dies half way leaves the old base and its deltas, or the new base and some deltas that it already
contains; readers skip these by their number: no delta counts twice, none is lost. A micro-batch that a base already
contains is not written again.

Columns: origin; departures, cancellations (so far); event_id, event_time, dest, dep_delay: of the latest flight by
event time. See `spark_jobs/common/`.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common import batches, options
from spark_jobs.common.files import Files
from spark_jobs.common.job import Job

NEEDS_SPARK = "3.5"
LATEST = ("event_time", "event_id", "dest", "dep_delay")
BOARD_SCHEMA = (
    "origin STRING, departures BIGINT, cancellations BIGINT, event_time TIMESTAMP, "
    "event_id STRING, dest STRING, dep_delay INT"
)


def transform(flights: DataFrame) -> DataFrame:
    """Return the additions of `flights` (events.flights' columns) to each airport, with the table's columns."""
    cancelled = F.col("cancelled").cast("long")
    return combined(
        flights.select(
            "origin", (1 - cancelled).alias("departures"), cancelled.alias("cancellations"), *LATEST
        )
    )


def combined(boards: DataFrame) -> DataFrame:
    """Return one row for each airport from `boards`, rows of the table: summed counts, and the latest flight."""
    return (
        boards.groupBy("origin")
        .agg(
            F.sum("departures").alias("departures"),
            F.sum("cancellations").alias("cancellations"),
            F.max(F.struct(*LATEST)).alias("latest"),
        )
        .select("origin", "departures", "cancellations", "latest.*")
    )


class Board:
    """The table's files under `folder`. Only one query writes at a time."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._folder, self._files = spark, folder, Files(spark)

    def base(self) -> int:
        """Return the last micro-batch of the newest complete base; -1 without one."""
        return max(self._whole(f"{self._folder}base/", "upto="), default=-1)

    def deltas(self) -> list[int]:
        """Return the numbers of the micro-batches with complete deltas, ascending."""
        return sorted(self._whole(f"{self._folder}deltas/", "batch="))

    def table(self) -> DataFrame:
        """Return the current table: one row for each airport."""
        base = self.base()
        paths = [f"{self._folder}deltas/batch={n}/" for n in self.deltas() if n > base]
        if base >= 0:
            paths.append(f"{self._folder}base/upto={base}/")
        if not paths:
            return self._spark.createDataFrame([], BOARD_SCHEMA)
        # Read each folder by its own path, so that its name does not become a column.
        return combined(self._spark.read.schema(BOARD_SCHEMA).parquet(*paths))

    def upsert(self, board: DataFrame, batch_id: int) -> None:
        """Add the rows of micro-batch `batch_id`; a repetition changes nothing."""
        if batch_id > self.base():
            path = f"{self._folder}deltas/batch={batch_id}/"
            board.coalesce(1).write.mode("overwrite").parquet(path)

    def compact(self, batch_id: int) -> None:
        """Make a base up to `batch_id`, the newest micro-batch, and delete the files that it contains."""
        if batch_id > self.base():
            path = f"{self._folder}base/upto={batch_id}/"
            self.table().coalesce(1).write.mode("overwrite").parquet(path)
        self.clean()

    def clean(self) -> None:
        """Delete the deltas and bases that the newest base contains."""
        base = self.base()
        for number in self._numbers(f"{self._folder}deltas/", "batch="):
            if number <= base:
                self._files.delete(f"{self._folder}deltas/batch={number}/")
        for number in self._numbers(f"{self._folder}base/", "upto="):
            if number < base:
                self._files.delete(f"{self._folder}base/upto={number}/")

    def _whole(self, folder: str, prefix: str) -> list[int]:
        return [
            number
            for number in self._numbers(folder, prefix)
            if self._files.exists(f"{folder}{prefix}{number}/_SUCCESS")
        ]

    def _numbers(self, folder: str, prefix: str) -> list[int]:
        names = self._files.names(folder)
        return [int(name[len(prefix) :]) for name in names if name.startswith(prefix)]


def upsert(spark: SparkSession, arguments: argparse.Namespace) -> batches.Sink:
    """Return what adds a micro-batch's flights to the table, and compacts it when that is due."""
    board = Board(spark, arguments.output)

    def write(flights: DataFrame, batch_id: int) -> None:
        board.upsert(transform(flights), batch_id)
        if (batch_id + 1) % arguments.compact_every == 0:
            board.compact(batch_id)

    return write


JOB = Job(
    "airport_board",
    "The latest state of every airport.",
    sink=upsert,
    options={"--compact-every": {"type": options.positive, "default": 10, "help": "micro-batches"}},
)


if __name__ == "__main__":
    sys.exit(JOB.main())
