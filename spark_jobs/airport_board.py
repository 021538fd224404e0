"""The latest state of every airport, as a table that a stream keeps: upserts by batch, compacted now and then.

Under `--output`:

- `deltas/batch=N/`: what micro-batch N adds to each airport. Writing replaces the folder: a repetition changes nothing.
- `base/upto=N/`: the table as of micro-batch N, whole: what compaction made of the base before and the deltas since.

The table is the newest whole base (one with `_SUCCESS`) and the deltas after it: `table()`. Every `--compact-every`
micro-batches a new base is written; then the base and the deltas that it holds are deleted. A compaction that dies
half way leaves the old base and its deltas, or the new one and some that it already holds, which are passed over by
their number: no delta is counted twice, none is lost. A micro-batch that a base already holds is not written again.

Columns: origin; departures, cancellations (so far); event_id, event_time, dest, dep_delay: of the latest flight by
event time. See `spark_jobs/common/`.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common import events, options, queries

NEEDS_SPARK = "3.5"
LATEST = ("event_time", "event_id", "dest", "dep_delay")
BOARD_SCHEMA = (
    "origin STRING, departures BIGINT, cancellations BIGINT, event_time TIMESTAMP, "
    "event_id STRING, dest STRING, dep_delay INT"
)


def transform(flights: DataFrame) -> DataFrame:
    """Return what `flights` (events.flights' columns) add to each airport, with the table's columns."""
    cancelled = F.col("cancelled").cast("long")
    return combined(
        flights.select(
            "origin", (1 - cancelled).alias("departures"), cancelled.alias("cancellations"), *LATEST
        )
    )


def combined(boards: DataFrame) -> DataFrame:
    """Return one row an airport of `boards`, rows of the table: counts added up, the latest flight of all."""
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
    """The table's files under `folder`. One query at a time writes."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._folder = spark, folder

    def base(self) -> int:
        """Return the micro-batch that the newest whole base is up to; -1 without one."""
        return max(self._whole(f"{self._folder}base/", "upto="), default=-1)

    def deltas(self) -> list[int]:
        """Return the numbers of the micro-batches whose deltas are whole, ascending."""
        return sorted(self._whole(f"{self._folder}deltas/", "batch="))

    def table(self) -> DataFrame:
        """Return the table as it stands: one row an airport."""
        base = self.base()
        paths = [f"{self._folder}deltas/batch={n}/" for n in self.deltas() if n > base]
        if base >= 0:
            paths.append(f"{self._folder}base/upto={base}/")
        if not paths:
            return self._spark.createDataFrame([], BOARD_SCHEMA)
        # Each folder is given by its own path, so that its name becomes no column.
        return combined(self._spark.read.schema(BOARD_SCHEMA).parquet(*paths))

    def upsert(self, board: DataFrame, batch_id: int) -> None:
        """Add the rows of micro-batch `batch_id`; a repetition changes nothing."""
        if batch_id > self.base():
            path = f"{self._folder}deltas/batch={batch_id}/"
            board.coalesce(1).write.mode("overwrite").parquet(path)

    def compact(self, batch_id: int) -> None:
        """Make a base up to `batch_id`, the newest micro-batch, and delete what it holds."""
        if batch_id > self.base():
            path = f"{self._folder}base/upto={batch_id}/"
            self.table().coalesce(1).write.mode("overwrite").parquet(path)
        self.clean()

    def clean(self) -> None:
        """Delete the deltas and bases that the newest base holds."""
        base = self.base()
        for number in self._numbers(f"{self._folder}deltas/", "batch="):
            if number <= base:
                self._delete(f"{self._folder}deltas/batch={number}/")
        for number in self._numbers(f"{self._folder}base/", "upto="):
            if number < base:
                self._delete(f"{self._folder}base/upto={number}/")

    def _whole(self, folder: str, prefix: str) -> list[int]:
        return [
            number
            for number in self._numbers(folder, prefix)
            if self._exists(f"{folder}{prefix}{number}/_SUCCESS")
        ]

    def _numbers(self, folder: str, prefix: str) -> list[int]:
        if not self._exists(folder):
            return []
        system, path = self._file(folder)
        names = [status.getPath().getName() for status in system.listStatus(path)]
        return [int(name[len(prefix) :]) for name in names if name.startswith(prefix)]

    def _exists(self, uri: str) -> bool:
        system, path = self._file(uri)
        return bool(system.exists(path))

    def _delete(self, uri: str) -> None:
        system, path = self._file(uri)
        system.delete(path, True)

    def _file(self, uri: str) -> tuple[Any, Any]:
        """Return Hadoop's file system and path of `uri`: the one that Spark itself writes with."""
        # pyspark does not describe its gateway to the JVM.
        context: Any = self._spark.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(uri)  # noqa: SLF001 - there is no public door
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path  # noqa: SLF001


def run(spark: SparkSession, records: DataFrame, arguments: argparse.Namespace) -> dict[str, int]:
    """Run the query until the input is drained, and return what happened, in flights."""
    board = Board(spark, arguments.output)

    def upsert(flights: DataFrame, batch_id: int) -> None:
        board.upsert(transform(flights), batch_id)
        if (batch_id + 1) % arguments.compact_every == 0:
            board.compact(batch_id)

    flights = events.on_time_once(events.flights(records), arguments.watermark)
    counts = queries.run_query(spark, flights, "airport_board", "append", arguments, upsert)
    return counts | queries.quarantine(spark, records, arguments)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments."""
    parser = options.parser("airport_board", "The latest state of every airport.")
    parser.add_argument("--compact-every", type=int, default=10, help="micro-batches")
    arguments = options.parse(parser, argv)
    if arguments.compact_every < 1:
        parser.error("--compact-every is at least 1")
    return arguments


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    return queries.run_stream_job("airport_board", run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
