"""Runs jobs that `headrace sql compile` writes on files in place of streams, and the fold of the same records."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace.sql.avro import avro_decoder, avro_encoder
from headrace.sql.fold import Fold, Record
from headrace.sql.plan import QueryPlan, Script
from headrace.sql.pyspark_job import compile_script
from headrace.sql.records import sequence_number
from scripts.spark_matrix import environment_of
from tests.spark_jobs import sql_on_files
from tests.support.java import FOR_FEW_ROWS

FILES = pa.schema([
    ("data", pa.binary()), ("streamName", pa.string()), ("partitionKey", pa.string()), ("sequenceNumber", pa.string()),
    ("approximateArrivalTimestamp", pa.timestamp("us", tz="UTC")),
])  # fmt: skip
Records = Sequence[tuple[str, str, Any]]
FLOAT = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


@pytest.fixture
def sql_settings(spark: SparkSession) -> Iterator[None]:
    """Give back the session as the other tests have it."""
    no_data = "spark.sql.streaming.noDataMicroBatches.enabled"
    kept_progress = "spark.sql.streaming.numRecentProgressUpdates"
    names = (
        "spark.sql.ansi.enabled",
        "spark.sql.session.timeZone",
        *FOR_FEW_ROWS,
        no_data,
        kept_progress,
    )
    before = {name: str(spark.conf.get(name)) for name in names}
    # As tests of other jobs leave it: the compiled job sets what it needs itself.
    spark.conf.set(no_data, False)
    # A job counts in all micro-batches, not in the last hundred that Spark keeps.
    spark.conf.set(kept_progress, 1)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def interpret(spark: SparkSession) -> None:
    """Let Spark interpret queries of a few rows until `sql_settings` ends: to compile one costs more than to run it."""
    for name, value in FOR_FEW_ROWS.items():
        spark.conf.set(name, value)


def arrival_of(index: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=index)


def write_job(script: Script, batches: Sequence[Records], folder: Path) -> None:
    """Write the compiled job, and its micro-batches: a file of each stream for each batch, an empty one too."""
    (folder / "job.py").write_text(compile_script(script, "A test."), encoding="utf-8")
    index = 0
    streams = {stream for batch in batches for stream, _, _ in batch}
    for number, batch in enumerate(batches):
        rows: dict[str, list[Any]] = {stream: [] for stream in streams}
        for stream, key, value in batch:
            data = value if isinstance(value, (str, bytes)) else json.dumps(value)
            arrival = arrival_of(index)
            data = data if isinstance(data, bytes) else data.encode()
            sequence = sequence_number(index % 3, index)
            rows[stream].append((data, stream, key, sequence, arrival))
            index += 1
        for stream, of_stream in rows.items():
            file = folder / "in" / stream / f"{number:04}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            # By Spark each file would be a job of its own.
            columns = zip(*of_stream, strict=True) if of_stream else ((),) * len(FILES)
            pq.write_table(pa.table(list(map(list, columns)), schema=FILES), file)
            os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))


def run_job(
    script: Script,
    batches: Sequence[Records],
    folder: Path,
    *,
    keeps_views: bool = True,
    together: bool = False,
) -> Callable[..., list[dict[str, Any]]]:
    """Run the compiled job, a micro-batch for each batch; return what reads a stream's rows."""
    write_job(script, batches, folder)
    sql_on_files.run(folder, keeps_views=keeps_views, together=together)
    return reader_of(folder)


def run_job_on(
    minor: str, script: Script, batches: Sequence[Records], folder: Path
) -> Callable[..., list[dict[str, Any]]]:
    """Do the same with another version of Spark, in a process of its own."""
    write_job(script, batches, folder)
    environment = environment_of(minor)
    subprocess.run(
        [environment.interpreter, sql_on_files.__file__, str(folder)],
        env={**os.environ, "PYSPARK_PYTHON": str(environment.interpreter), "SPARK_LOCAL_IP": "127.0.0.1"},
        check=True,
    )  # fmt: skip
    return reader_of(folder)


def reader_of(folder: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return what reads the rows that a job has written into a stream, in this order."""

    def read(stream: str, schemas: Sequence[tuple[str, str]] = ()) -> list[dict[str, Any]]:
        load = avro_decoder(dict(schemas)) if schemas else json.loads
        records = sql_on_files.records_of(folder, stream)
        values = [(load(data) or {}) | {"_key": key} for data, key in records]
        return [{k: v for k, v in value.items() if k != "_event_id"} for value in values]

    return read


def fold_of(script: Script, batches: Sequence[Records]) -> Fold:
    """Return the fold of micro-batches, without its end: Spark too closes what a later row closes."""
    fold = Fold(script)
    index = 0
    for batch in batches:
        records: list[tuple[str, Record]] = []
        for stream, key, value in batch:
            number = sequence_number(index % 3, index)
            records.append((stream, Record(value, key, arrival_of(index), number)))
            # A line of an object is no record.
            index += not stream.startswith("s3://")
        fold.take_batch(records)
    fold.settle()
    return fold


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows as texts, numbers to 12 digits: Java's logarithms differ from Python's in the last one."""
    texts = (json.dumps(row, sort_keys=True) for row in rows)
    return sorted(FLOAT.sub(lambda number: f"{float(number[0]):.12g}", text) for text in texts)


def differences(
    script: Script, fold: Fold, read: Callable[..., list[dict[str, Any]]]
) -> dict[str, Any]:
    """Return by query the rows that only the job has, and those that only the fold has."""
    result: dict[str, Any] = {}
    for query in script.queries:
        assert query.target is not None
        if script.is_internal(query.target):
            # Its rows are those of the query that reads it.
            continue
        rows = [
            ({} if row.deleted else row.columns) | {"_key": row.key or "-"}
            for row in fold.results[query.name]
        ]
        if query.target.schemas:
            schemas = dict(query.target.schemas)
            encode, decode = avro_encoder(schemas[""]), avro_decoder(schemas)
            rows = [decode(encode(row)) | {"_key": row["_key"]} for row in rows]
        read_rows = read(query.target.stream or query.target.name, query.target.schemas)
        of_job, of_fold = in_order(read_rows), in_order(rows)
        if query.late and query.corrects():
            # What its rows in time come by may be fewer micro-batches, which have fewer corrections.
            of_job, of_fold = _latest(read_rows, query), _latest(rows, query)
        if of_job != of_fold:
            result[query.name] = (
                [row for row in of_job if row not in of_fold],
                [row for row in of_fold if row not in of_job],
            )
        elif query.target.is_table and _latest(read_rows, query) != _latest(rows, query):
            result[query.name] = "a key's changes are in another order"
    return result


def _latest(rows: list[dict[str, Any]], query: QueryPlan) -> list[str]:
    """Return the last row of each key, and of each window of it."""
    if query.corrects_sessions():
        # A session's key has its bounds; of one that was never shown there is no tombstone.
        return in_order(
            [row for row in {row["_key"]: row for row in rows}.values() if len(row) > 1]
        )
    return in_order(list({(row["_key"], row.get("WINDOWSTART")): row for row in rows}.values()))
