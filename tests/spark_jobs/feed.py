"""Streams for jobs, cut into micro-batches that a test decides, and flights that come late."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from scripts import reference
from tests.support.flights import Event, flights, late

__all__ = ["Event", "Feed", "arguments", "cut", "flights", "late", "stream", "table"]

SCHEMA = "data BINARY, partitionKey STRING"


def cut(events: list[Event], size: int) -> list[list[Event]]:
    return [events[start : start + size] for start in range(0, len(events), size)]


class Feed:
    """A stream that grows: each `put` is a micro-batch of its own."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder, self._count = spark, folder, 0
        folder.mkdir(parents=True)

    def put(self, events: Sequence[Event | bytes], key: str = "origin") -> None:
        data = [e if isinstance(e, bytes) else json.dumps(e).encode() for e in events]
        keys = ["" if isinstance(e, bytes) else str(e.get(key)) for e in events]
        rows = pa.table(
            {"data": pa.array(data, pa.binary()), "partitionKey": pa.array(keys, pa.string())}
        )
        path = self._folder / f"{self._count:04}.parquet"
        pq.write_table(rows, path)
        # Spark takes files in the order of their times, to the millisecond.
        self._count += 1
        os.utime(path, (self._count, self._count))

    def stream(self) -> DataFrame:
        return stream(self._spark, self._folder)

    def batch(self) -> DataFrame:
        return self._spark.read.schema(SCHEMA).parquet(str(self._folder))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """What a `Feed` has put into `folder`, a micro-batch a put."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def table(path: Path, *key: str) -> pd.DataFrame:
    """The rows of a job's table, by `key` its latest ones; of a plain folder all."""
    if not (path / "versions").exists():
        return pq.read_table(path).to_pandas()
    names = [name.as_posix() for name in path.rglob("*")]
    files = reference.table_files(names, lambda name: Path(name).read_bytes())
    # By the files' own columns: not by those that the folders' names would be.
    frames = [pq.ParquetFile(name).read().to_pandas() for name in files]
    rows = pd.concat(frames, ignore_index=True)
    assert "batch" not in rows or key
    return reference.latest_rows(rows, list(key))


def arguments(folder: Path, *more: str) -> list[str]:
    return [
        *("--stream", "s", "--region", "r", "--output", (folder / "output").as_uri()),
        *("--checkpoint", (folder / "checkpoint").as_uri(), *more),
    ]
