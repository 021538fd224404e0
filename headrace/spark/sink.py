"""The sink: writes `df.write` and `df.writeStream` to a Kinesis stream, by PutRecords.

**At least once.** Records that a task has put stay even if the task, the batch or the query fails afterwards, and Spark
repeats a failed task or batch, so a reader may get a record twice. Give every event an id, and let readers skip ids
that they have seen.

Columns: `data` (BINARY or STRING), `partitionKey` (STRING), and optionally `explicitHashKey` (STRING). The source's
other columns are allowed and ignored, so that a stream can be copied directly. Within a partition of the frame a key's
records keep their order; repartition by `partitionKey` if a key is in several partitions.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.types import BinaryType, StringType, StructType

from headrace.spark.options import SinkOptions
from headrace.spark.puts import MOST_RECORDS, PutCounts, Sender
from headrace.spark.untyped import Records, pa
from headrace.spark.versions import ArrowWriter, CommitMessage, StreamArrowWriter

if TYPE_CHECKING:
    from headrace.spark.client import KinesisClient

log = logging.getLogger(__name__)

_WANTED = {"data": (BinaryType, StringType), "partitionKey": (StringType,)}
_POSSIBLE = {"explicitHashKey": (StringType,)}
_PASSED_OVER = frozenset({"streamName", "sequenceNumber", "approximateArrivalTimestamp", "shardId"})
# If every row has the same key, a request has one record: look further ahead for other keys before sending it.
_LOOK_AHEAD = 20 * MOST_RECORDS
_LOOK_AHEAD_BYTES = 32 * 1024 * 1024


class InvalidSchema(ValueError):
    """The frame lacks the columns of a Kinesis record."""


@dataclass
class TaskCounts(CommitMessage):
    """The counts of one task."""

    records: int
    bytes: int
    retried: int


def check_schema(schema: StructType) -> None:
    """Raise InvalidSchema when a frame cannot be written as records."""
    data_types = {field.name: field.dataType for field in schema.fields}
    for name, types in (_WANTED | _POSSIBLE).items():
        if name in data_types and not isinstance(data_types[name], types):
            expected = " or ".join(kind.typeName().upper() for kind in types)
            actual = data_types[name].simpleString().upper()
            raise InvalidSchema(
                f"The kinesis sink's column {name} must be {expected}, not {actual}."
            )
    for name in _WANTED:
        if name not in data_types:
            raise InvalidSchema(f"The kinesis sink needs a column {name}.")
    unknown = sorted(set(data_types) - set(_WANTED) - set(_POSSIBLE) - _PASSED_OVER)
    if unknown:
        raise InvalidSchema(
            f"The kinesis sink has no use for the column {unknown[0]!r}: "
            "it takes data, partitionKey and explicitHashKey."
        )


def write(options: SinkOptions, batches: Iterator[Records]) -> TaskCounts:
    """Put a task's records. Raises WriteFailed, KinesisError, InvalidKey, InvalidSchema (a null key or null data)."""
    client = _client(options)
    sender = Sender(
        client.put_records,
        options.stream,
        ordered=options.ordered,
        ttl_s=options.record_ttl_ms / 1000,
        clock_s=time.monotonic,
        sleep=time.sleep,
    )
    look_ahead = _LOOK_AHEAD if options.ordered else MOST_RECORDS
    try:
        for batch in batches:
            sender.add(*_columns(batch))
            sender.send(keep=look_ahead, keep_bytes=_LOOK_AHEAD_BYTES)
        sender.send()
    except BaseException:
        sender.close()
        client.close()
        raise
    sender.close()
    _keep(options, client)
    written = sender.written
    return TaskCounts(written.records, written.bytes, written.retried)


# Creating a client takes as long as writing tens of thousands of rows, and Spark runs many tasks in one process. So the
# last client is kept, with its connections. The key is its options and the environment.
_kept: dict[tuple[SinkOptions, tuple[tuple[str, str], ...]], KinesisClient] = {}


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))


def _client(options: SinkOptions) -> KinesisClient:
    """Return a client that only this task uses: the kept one if it fits, else a new one."""
    client = _kept.pop((options, _environment()), None)
    if client is not None:
        return client
    # boto3 takes long to import, so import it only in tasks.
    from headrace.spark.client import KinesisClient

    return KinesisClient(options)


def _keep(options: SinkOptions, client: KinesisClient) -> None:
    while _kept:
        _kept.popitem()[1].close()
    _kept[options, _environment()] = client


def _columns(batch: Records) -> tuple[list[bytes], list[bytes], list[str | None] | None]:
    """Return data, keys and hash keys of a batch's records. Raises InvalidSchema."""
    data, keys = batch.column("data"), batch.column("partitionKey")
    for column, what in ((data, "no data"), (keys, "no partitionKey")):
        if column.null_count:
            raise InvalidSchema(f"A row that was to be written to Kinesis has {what}.")
    columns = _values(data), _values(keys)
    if b"" in columns[1]:
        raise InvalidSchema("A row that was to be written to Kinesis has no partitionKey.")
    if "explicitHashKey" not in batch.schema.names:
        return *columns, None
    hash_keys = cast(
        "list[str | None]", batch.column("explicitHashKey").cast(pa.string()).to_pylist()
    )
    return *columns, [hash_key or None for hash_key in hash_keys]


def _values(column: Any) -> list[bytes]:
    """Return the values of a binary or string column without nulls, from its buffers, because one by one is slow."""
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    first = column.offset
    places = memoryview(offsets).cast("q")[first : first + len(column) + 1].tolist()
    text = b"" if data is None else data.to_pybytes()
    return [text[begin:end] for begin, end in zip(places, places[1:])]


def _sum(messages: list[Any]) -> PutCounts:
    total = PutCounts()
    for message in messages:
        if isinstance(message, TaskCounts):
            total.records += message.records
            total.bytes += message.bytes
            total.retried += message.retried
    return total


class KinesisBatchWriter(ArrowWriter):
    """`df.write.format("kinesis").mode("append")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Records]) -> TaskCounts:
        """Put a task's records."""
        return write(self._options, iterator)

    def commit(self, messages: list[Any]) -> None:
        """Log the written records."""
        log.info("Wrote %s to stream %s.", _sum(messages), self._options.stream)

    def abort(self, messages: list[Any]) -> None:
        """Log the records that stay although the write failed."""
        log.warning("A write to stream %s failed; %s stay.", self._options.stream, _sum(messages))


class KinesisStreamWriter(StreamArrowWriter):
    """`df.writeStream.format("kinesis")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Records]) -> TaskCounts:
        """Put a task's records."""
        return write(self._options, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Log a batch's written records."""
        log.info("Batch %d wrote %s to stream %s.", batchId, _sum(messages), self._options.stream)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Log the records that stay although the batch failed; a repeated batch puts them twice."""
        log.warning(
            "Batch %d to stream %s failed; %s stay.", batchId, self._options.stream, _sum(messages)
        )
