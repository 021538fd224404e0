"""Keeps the latest row of each key of a stream of changes (`headrace cdc`), with tombstones; see `spark_jobs/common/`.

Under `--output`, which belongs to the checkpoint:

- `batch=N/`: the latest of each key as of micro-batch N, a line each: table, key, row (JSON), is_deleted, lsn, place
  (of the change, in the database's log) and time_ms (of its folding).
- `manifest.json`: names N and its files, and each shard's last record. It is replaced last, in one request: a kill
  leaves the old table or the new one, and a micro-batch that it already names is not folded again.

With `--output iceberg://DATABASE/TABLE` both are in an Iceberg table of Glue's catalogue instead: a micro-batch's files
are the table's, and the manifest is in the snapshot's summary (`spark_jobs/common/iceberg.py`).

The files are those of `headrace compact`, and `headrace compact STREAM OUTPUT --rebuild TABLE` reads them and what the
stream has since. A key's lines are folded by one task, one key after another: only one key is in memory. The fold goes
by each change's place in the log, so that repeated and old events change nothing.

A record that is no event of `headrace cdc` fails the run, unless `--quarantine` takes it: a missing change would leave
a wrong row.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Optional, cast

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headrace.cdc.events import CaptureError, Compaction, Line, Position, read_event
from spark_jobs.common import options, queries
from spark_jobs.common.day_tables import DayTable
from spark_jobs.common.files import Files, query_id
from spark_jobs.common.iceberg import LINES, IcebergOutput, read_lines
from spark_jobs.common.job import Job

NEEDS_SPARK = "3.5"
_PARSED = "table STRING, key STRING, lsn BIGINT, place BIGINT, data BINARY, reason STRING, shard STRING, number STRING"
_LINES_AT_ONCE = 1000
_HOUR_MS = 3_600_000
# A key of a table, with its stored line's values (`row` to `time_ms`), or with an event's bytes (`data`).
_Row = tuple[str, str, Optional[str], Optional[bool], int, int, Optional[int], Optional[bytes]]


@dataclass
class Counts:
    """What one run has read."""

    read: int = 0
    unreadable: int = 0


def parse(records: DataFrame, keys: Mapping[str, tuple[str, ...]]) -> DataFrame:
    """Return a line for each record: its change's table, key and position, or the reason why it is none.

    A truncation has no key; what changes no row has neither table nor reason.
    """
    places = [
        F.col(name) if name in records.columns else F.lit(None).cast("string").alias(name)
        for name in ("shardId", "sequenceNumber")
    ]

    def run(frames: Iterable[Any]) -> Iterator[Any]:
        compaction = Compaction(keys)
        schema = pa.schema([(n, pa.string()) for n in ("table", "key")]
                           + [(n, pa.int64()) for n in ("lsn", "place")]
                           + [("data", pa.binary())]
                           + [(n, pa.string()) for n in ("reason", "shard", "number")])  # fmt: skip
        for frame in frames:
            columns = zip(*(column.to_pylist() for column in frame.columns))
            rows = [
                (*_place(compaction, data, key), shard, number)
                for data, key, shard, number in columns
            ]
            yield _frame(rows, schema)

    return records.select("data", "partitionKey", *places).mapInArrow(run, _PARSED)


def _place(compaction: Compaction, data: bytes | None, partition_key: str) -> tuple[Any, ...]:
    try:
        event = read_event(data or b"")
        if event is None:
            return None, None, None, None, None, None
        key = None if event.op == "t" else compaction.key_of(event, partition_key)
    except CaptureError as error:
        return None, None, None, None, data, str(error)
    return event.table, key, *event.position, data, None


def fold(
    state: DataFrame,
    events: DataFrame,
    truncated: Mapping[str, Position],
    now_ms: int,
    keep_ms: int,
) -> DataFrame:
    """Return the table after the events, from the table before; tombstones older than `keep_ms` are gone."""
    rows = state.withColumn("data", F.lit(None).cast("binary")).unionByName(
        events.select(
            *("table", "key", "lsn", "place", "data"),
            F.lit(None).cast("string").alias("row"),
            F.lit(None).cast("boolean").alias("is_deleted"),
            F.lit(None).cast("bigint").alias("time_ms"),
        )
    )

    def run(frames: Iterable[Any]) -> Iterator[Any]:
        yield from _framed(_folded(_rows(frames), truncated, now_ms, keep_ms))

    # A key's stored line comes before the events.
    by_key = rows.repartition("table", "key").sortWithinPartitions("table", "key", "lsn", "place")
    return by_key.mapInArrow(run, LINES)


def _rows(frames: Iterable[Any]) -> Iterator[_Row]:
    for frame in frames:
        yield from zip(*(column.to_pylist() for column in frame.columns))


def _folded(
    rows: Iterable[_Row], truncated: Mapping[str, Position], now_ms: int, keep_ms: int
) -> Iterator[Line]:
    for (table, key), group in groupby(rows, key=lambda row: row[:2]):
        compaction = Compaction()
        # Events of one place, which came twice, may come before the stored line.
        lines = sorted(group, key=lambda row: row[7] is not None)
        stored = [cast("Line", row[:7]) for row in lines if row[7] is None]
        compaction.restore(stored, {})
        if table in truncated:
            compaction.truncate(table, truncated[table], now_ms)
        for row in lines[len(stored) :]:
            event = read_event(row[7] or b"")
            # Of a key: no other events are here.
            if event is not None:
                compaction.fold(event, key, now_ms)
        compaction.forget_tombstones(now_ms - keep_ms)
        yield from compaction.lines()


def _framed(lines: Iterator[Line]) -> Iterator[Any]:
    types = (pa.string(), pa.string(), pa.string(), pa.bool_(), pa.int64(), pa.int64(), pa.int64())
    schema = pa.schema(list(zip(Compaction.COLUMNS, types)))
    rows: list[Line] = []
    for line in lines:
        rows.append(line)
        if len(rows) == _LINES_AT_ONCE:
            yield _frame(rows, schema)
            rows = []
    yield _frame(rows, schema)


def _frame(rows: list[Any], schema: Any) -> Any:
    columns = list(zip(*rows)) or [()] * len(schema)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Folder:
    """The output as a folder: `manifest.json` and the files that it names. Only one query writes at a time."""

    empty = "an empty folder"

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._files, self.place = spark, Files(spark), folder

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest, or None when there is none."""
        content = self._files.read(f"{self.place}manifest.json")
        return None if content is None else json.loads(content)

    def rows(self, manifest: Mapping[str, Any]) -> DataFrame:
        """Return the rows of a manifest."""
        paths = [f"{self.place}{name}" for name in manifest["files"]]
        return read_lines(self._spark, paths)

    def put(self, rows: DataFrame, manifest: dict[str, Any]) -> None:
        """Replace the table by a micro-batch's."""
        folder, batch = f"batch={manifest['batch']}/", manifest["batch"]
        rows.write.mode("overwrite").parquet(f"{self.place}{folder}")
        names = self._files.names(f"{self.place}{folder}")
        files = sorted(f"{folder}{name}" for name in names if name.endswith(".parquet"))
        self.note({**manifest, "files": files})
        # A reader may still be at the one before.
        for name in self._files.names(self.place):
            if name.startswith("batch=") and int(name[6:]) < batch - 1:
                self._files.delete(f"{self.place}{name}")

    def note(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest alone."""
        self._files.write(f"{self.place}manifest.json", json.dumps(manifest).encode())


class Table:
    """The job's output. Only one query writes at a time."""

    def __init__(self, spark: SparkSession, arguments: argparse.Namespace, begin_ms: int) -> None:
        self._spark, self._arguments, self._begin_ms = spark, arguments, begin_ms
        self._files = Files(spark)
        self.counts = Counts()
        self._output: Folder | IcebergOutput
        if arguments.table is not None:
            database, name = arguments.table
            self._output = IcebergOutput(spark, database, name, arguments.region)
        else:
            self._output = Folder(spark, arguments.output)

    def check(self) -> None:
        """Raise ValueError when the output is another checkpoint's, or another program's."""
        manifest = self._output.manifest()
        # That of headrace compact names no checkpoint.
        if manifest is not None and manifest.get("checkpoint", "") != self._checkpoint_id():
            raise ValueError(
                f"{self._output.place} does not belong to the checkpoint {self._arguments.checkpoint}: give its own, or"
                f" {self._output.empty} with an empty checkpoint."
            )

    def _checkpoint_id(self) -> str | None:
        return query_id(self._files, self._arguments.checkpoint)

    def take(self, records: DataFrame, batch_id: int) -> None:
        """Fold a micro-batch into the table; one that is already there is passed over. Raises ValueError."""
        manifest = self._output.manifest()
        manifest = manifest or {"batch": -1, "files": [], "offsets": {}, "truncated": {}}
        if manifest["batch"] == batch_id:
            return
        if manifest["batch"] != batch_id - 1:
            raise ValueError(
                f"{self._output.place} is at micro-batch {manifest['batch']}, and the checkpoint is at {batch_id}:"
                f" something has replaced one of them; begin with {self._output.empty} and an empty checkpoint."
            )
        parsed = parse(records, self._arguments.keys).persist()
        try:
            facts = _facts(parsed)
            self._set_aside(parsed, facts, batch_id)
            self._store(parsed, facts, manifest, batch_id)
        finally:
            parsed.unpersist()

    def _set_aside(self, parsed: DataFrame, facts: list[Row], batch_id: int) -> None:
        self.counts.read += sum(row["read"] for row in facts)
        unreadable = sum(row["unreadable"] for row in facts)
        if unreadable and self._arguments.quarantine is None:
            reason = min(row["reason"] for row in facts if row["reason"])
            raise ValueError(f"{reason} --quarantine would set it aside.")
        if unreadable:
            rows = parsed.where("reason IS NOT NULL").select("reason", "data", "shard", "number")
            place, checkpoint = self._arguments.quarantine, self._arguments.checkpoint
            table = DayTable(self._spark, place, checkpoint=checkpoint)
            table.add(rows.withColumn("day", F.current_date()), batch_id)
        self.counts.unreadable += unreadable

    def _store(
        self, parsed: DataFrame, facts: list[Row], manifest: Mapping[str, Any], batch_id: int
    ) -> None:
        truncated = {table: tuple(place) for table, place in manifest["truncated"].items()}
        for row in facts:
            table = row["truncated"]
            if table is not None:
                truncated[table] = max(tuple(row["place"]), truncated.get(table, (0, 0)))
        state = self._output.rows(manifest)
        keep_ms = self._arguments.keep_tombstones * _HOUR_MS
        rows = fold(state, parsed.where("key IS NOT NULL"), truncated, self._begin_ms, keep_ms)
        self._output.put(rows, {
            "batch": batch_id,
            "checkpoint": self._checkpoint_id(),
            "stream": self._arguments.stream,
            "offsets": {**manifest["offsets"], **_offsets(facts)},
            "truncated": truncated,
            "time_ms": self._begin_ms,
        })  # fmt: skip

    def finish(self) -> int:
        """Note that everything up to the run's begin is there; return the number of live rows."""
        manifest = self._output.manifest()
        if manifest is None:
            return 0
        self._output.note({**manifest, "time_ms": self._begin_ms})
        return self._output.rows(manifest).where("NOT is_deleted").count()


def _facts(parsed: DataFrame) -> list[Row]:
    """Return, by shard and truncated table, how much was read, and what came last."""
    truncated = F.when(F.col("key").isNull(), F.col("table")).alias("truncated")
    return (
        parsed.groupBy("shard", truncated)
        .agg(
            F.count(F.lit(1)).alias("read"),
            F.count("reason").alias("unreadable"),
            F.min("reason").alias("reason"),
            F.max(F.struct(F.length("number"), "number"))["number"].alias("number"),
            F.max(F.struct("lsn", "place")).alias("place"),
        )
        .collect()
    )


def _offsets(facts: list[Row]) -> dict[str, str]:
    """Return each shard's last sequence number; none with EMR's own connector, which names no shards."""
    numbers: dict[str, str] = {}
    for row in facts:
        if row["shard"] is not None:
            last = numbers.get(row["shard"], "")
            numbers[row["shard"]] = max(last, row["number"], key=lambda n: (len(n), n))
    return numbers


@dataclass(frozen=True)
class CompactJob(Job):
    """The job: its table is not made of independent micro-batches, as other jobs' are."""

    options: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {
            "--key": {
                "action": "append", "dest": "keys", "default": [], "metavar": "TABLE=COLUMN,..",
                "help": "the key of a table's rows; default: the partition key",
            },
            "--keep-tombstones": {
                "type": options.positive, "default": 48, "metavar": "HOURS",
                "help": "twice the stream's retention: an event may be put again for so long",
            },
        }
    )  # fmt: skip

    def parse(self, argv: Any) -> argparse.Namespace:
        """Parse a step's arguments; exits with a sentence for invalid ones."""
        arguments = super().parse(argv)
        if arguments.trigger != options.DRAIN:
            # The manifest says until when the table has everything: until a run's begin.
            sys.exit("compact takes what the stream holds, and ends: it has no other --trigger.")
        scheme, _, rest = arguments.output.rstrip("/").partition("://")
        arguments.table = None
        if scheme == "iceberg":
            arguments.table = tuple(rest.split("/"))
            if len(arguments.table) != 2 or not all(arguments.table):
                sys.exit(
                    f"--output is a folder or iceberg://DATABASE/TABLE, not {arguments.output!r}."
                )
        keys: dict[str, tuple[str, ...]] = {}
        for option in arguments.keys:
            table, _, names = option.partition("=")
            if not table or not names or table in keys:
                sys.exit(f"--key is TABLE=COLUMN,.. once for a table, not {option!r}.")
            keys[table] = tuple(names.split(","))
        arguments.keys = keys
        return arguments

    def run(
        self, spark: SparkSession, arguments: argparse.Namespace, *records: DataFrame
    ) -> dict[str, int]:
        """Fold what the stream has since the checkpoint; return counts. Raises ValueError, StreamingQueryException."""
        now = spark.range(1).select(F.unix_millis(F.current_timestamp()))
        table = Table(spark, arguments, now.collect()[0][0])
        table.check()
        queries.start(
            spark, records[0], self.name, "append", arguments, table.take
        ).awaitTermination()
        rows = table.finish()
        return {"read": table.counts.read, "unreadable": table.counts.unreadable, "rows": rows}


JOB = CompactJob("compact", "The latest row of each key of a stream of changes.")


if __name__ == "__main__":
    sys.exit(JOB.main())
