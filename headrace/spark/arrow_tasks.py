"""Reads and writes data frames as Arrow batches, one task for each partition, on Spark 3.5 (no Python data sources).

`DataFrame.mapInArrow` does the same, but needs pandas in the driver, which this source does not. The functions of tasks
are objects, whose attributes show what is sent to the executors.
"""

# ruff: noqa: SLF001 - PySpark has no public way to its JVM

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.udf import UserDefinedFunction

from headrace.spark.arrays import integer_array
from headrace.spark.options import Options, SinkOptions
from headrace.spark.planning import Work, read_work
from headrace.spark.reading import COLUMNS, read_shard
from headrace.spark.untyped import Records, pa, untyped

_SQL_MAP_ARROW_ITER_UDF = 207  # pyspark.rdd.PythonEvalType, which 4.0 has moved
_WRITTEN = "records BIGINT, bytes BIGINT, retried BIGINT"

MapFunction = Callable[[Iterator[Records]], Iterator[Records]]


@dataclass(frozen=True)
class WorkReader:
    """Reads a micro-batch: the task with row n does the n-th work."""

    options: Options
    work: Sequence[Work]

    def __call__(self, batches: Iterator[Records]) -> Iterator[Records]:
        """Yield the records of the task's work."""
        for number in _numbers(batches):
            yield from read_work(self.options, self.work[number])


@dataclass(frozen=True)
class ShardReader:
    """Reads a stream once: the task with row n reads the n-th shard up to a time in epoch milliseconds."""

    options: Options
    shard_ids: Sequence[str]
    until_ms: int

    def __call__(self, batches: Iterator[Records]) -> Iterator[Records]:
        """Yield the records of the task's shards."""
        # boto3 takes long to import, so import it only in tasks.
        from headrace.spark.client import KinesisClient

        client = KinesisClient(self.options)
        try:
            for number in _numbers(batches):
                yield from read_shard(client, self.options, self.shard_ids[number], self.until_ms)
        finally:
            client.close()


@dataclass(frozen=True)
class RecordWriter:
    """Puts a task's rows, and yields one row with counts."""

    options: SinkOptions

    def __call__(self, batches: Iterator[Records]) -> Iterator[Records]:
        """Yield the counts of the task."""
        from headrace.spark.sink import write

        done = write(self.options, batches)
        counts = {"records": done.records, "bytes": done.bytes, "retried": done.retried}
        columns = [integer_array([count], pa.int64()) for count in counts.values()]
        yield pa.RecordBatch.from_arrays(columns, names=list(counts))


def read_in_tasks(spark: SparkSession, reader: WorkReader | ShardReader, tasks: int) -> Any:
    """Return the Java frame of a reader's records, with the source's columns and at least one task."""
    return _map_in_arrow(spark.range(0, tasks, 1, tasks), reader, COLUMNS)


def write_in_tasks(frame: DataFrame, options: SinkOptions) -> DataFrame:
    """Return a frame that puts the rows of `frame` when it is collected; it has a row of counts for each task."""
    return DataFrame(_map_in_arrow(frame, RecordWriter(options), _WRITTEN), frame.sparkSession)


def _map_in_arrow(frame: DataFrame, function: MapFunction, columns: str) -> Any:
    mapped = untyped(UserDefinedFunction)(
        function, returnType=columns, evalType=_SQL_MAP_ARROW_ITER_UDF
    )
    expression = mapped(*[frame[name] for name in frame.columns])._jc.expr()
    return untyped(frame)._jdf.pythonMapInArrow(expression, False)  # no barrier


def _numbers(batches: Iterator[Records]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
