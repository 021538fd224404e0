"""Reads one span of a shard in a task, as Arrow batches with the source's columns.

Deaggregates records of the Kinesis Producer Library: many user records in one Kinesis record.

The format (documented: "KPL Aggregated Record Format"): four magic bytes, a protobuf message, and its MD5. A record
that only begins like this is passed on unchanged. User records have their own data and partition key, and the Kinesis
record's sequence number and arrival. EMR has no protobuf package, so this module parses the message itself.

Limits the rate of a shard's reads: Kinesis allows five calls and 2 MiB a second.

Documented: a call may return up to 10 MiB at once, and then calls are refused for five seconds. So a call waits until
the earlier calls' bytes are within the rate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headrace.spark.arrays import binary_array, integer_array, repeated_string, string_array
from headrace.spark.get_records import ExpiredIterator, Page
from headrace.spark.offsets import Init, TrimHorizon
from headrace.spark.options import Options
from headrace.spark.spans import Span, report_loss
from headrace.spark.spool import Slice, read_slices
from headrace.spark.untyped import Records, pa, pc

if TYPE_CHECKING:
    from headrace.spark.client import KinesisClient


_CALLS_AT_ONCE = 5
_NOTHING_S = 1e-6


class Pace:
    """One shard's allowance. Times are seconds of a clock that only goes forward. Used by one thread at a time.

    Args:
        interval_s: the average interval between two calls; up to five may come at once.
        bytes_per_s: the average rate; one call may return more, and the next one waits accordingly.
    """

    def __init__(self, interval_s: float, bytes_per_s: float) -> None:
        self._interval_s = interval_s
        self._bytes_per_s = bytes_per_s
        # When the allowance is full again if there are no more calls.
        self._calls_full_s = float("-inf")
        self._bytes_full_s = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """Return how long the next call must wait, or 0."""
        calls = self._calls_full_s - (_CALLS_AT_ONCE - 1) * self._interval_s - now_s
        wait = max(calls, self._bytes_full_s - now_s)
        return wait if wait > _NOTHING_S else 0.0

    def spend(self, data_bytes: int, now_s: float) -> None:
        """Count a call that returned so many bytes."""
        self._calls_full_s = max(self._calls_full_s, now_s) + self._interval_s
        self._bytes_full_s = max(self._bytes_full_s, now_s) + data_bytes / self._bytes_per_s


COLUMNS = (
    "data BINARY, streamName STRING, partitionKey STRING, sequenceNumber STRING, "
    "approximateArrivalTimestamp TIMESTAMP, shardId STRING"
)
ARROW_SCHEMA = pa.schema(
    [
        pa.field("data", pa.binary()),
        pa.field("streamName", pa.string()),
        pa.field("partitionKey", pa.string()),
        pa.field("sequenceNumber", pa.string()),
        pa.field("approximateArrivalTimestamp", pa.timestamp("us", tz="UTC")),
        pa.field("shardId", pa.string()),
    ]
)


def with_constants(records: Records, stream: str, shard_id: str) -> Records:
    """Return the user records in `records`, with the constant columns added."""
    records = expand(records)
    rows = records.num_rows
    arrays = [
        records.column("data"),
        repeated_string(stream, rows),
        records.column("partitionKey"),
        records.column("sequenceNumber"),
        records.column("approximateArrivalTimestamp"),
        repeated_string(shard_id, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def read_span(options: Options, init: Init, span: Span, slices: list[Slice]) -> Iterator[Records]:
    """Yield exactly the records of `span`: from the spool if it is reachable, else again from Kinesis."""
    spooled = slices and all(Path(part.path).exists() for part in slices)
    batches = read_slices(slices) if spooled else read_again(options, init, span)
    for batch in batches:
        yield with_constants(batch, options.stream, span.shard_id)


def read_again(options: Options, init: Init, span: Span) -> Iterator[Records]:
    """Yield the records after `span.start` (or from `init`) up to `span.end`. Raises DataLoss when some are gone."""
    # boto3 takes long to import, and a task that reads from the spool does not need it.
    from headrace.spark.client import KinesisClient

    client = KinesisClient(options)
    counted, last = 0, int(span.end)
    try:
        for page in pages(client, options, span.shard_id, span.start, init):
            numbers = cast("list[str]", page.records.column("sequenceNumber").to_pylist())
            rows = sum(1 for number in numbers if int(number) <= last)
            if rows:
                counted += rows
                yield page.records.slice(0, rows)
            if counted >= span.count or rows < len(numbers) or page.millis_behind_latest == 0:
                break
    finally:
        client.close()
    if counted != span.count:
        report_loss(
            f"Shard {span.shard_id} of stream {options.stream} now has {counted} of the {span.count} records up to "
            f"{span.end} that this batch had: retention has removed the others, or the stream is not the same.",
            options,
        )


def read_shard(
    client: KinesisClient, options: Options, shard_id: str, until_ms: int
) -> Iterator[Records]:
    """Yield the records of a shard from the starting position up to an arrival time, for a batch read."""
    init = options.init or TrimHorizon()
    for page in pages(client, options, shard_id, None, init):
        arrivals = page.records.column("approximateArrivalTimestamp").cast(pa.int64())
        early = sum(1 for us in arrivals.to_pylist() if us <= until_ms * 1000)
        if early:
            yield with_constants(page.records.slice(0, early), options.stream, shard_id)
        if early < page.records.num_rows or page.millis_behind_latest == 0:
            return


def pages(
    client: KinesisClient, options: Options, shard_id: str, after: str | None, init: Init
) -> Iterator[Page]:
    """Yield a shard's pages until it ends or the caller stops."""
    iterator: str | None = client.iterator(shard_id, after, init)
    pace = Pace(options.fetch_interval_ms / 1000, options.read_bytes_per_s)
    while iterator is not None:
        time.sleep(pace.wait_s(time.monotonic()))
        try:
            page = client.records(iterator, options.records_per_fetch)
        except ExpiredIterator:
            iterator = client.iterator(shard_id, after, init)
            continue
        pace.spend(page.data_bytes, time.monotonic())
        if page.last is not None:
            after = page.last[0]
        yield page
        iterator = page.next_iterator


MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
# Kinesis accepts no longer key. With longer keys in the table, each byte that refers to one could become megabytes.
_MOST_KEY_CHARS = 256
# The limit for all user records of one Kinesis record, which itself has at most 10 MiB.
_MOST_EXPANDED_BYTES = 64 * 1024 * 1024
_MOST_VARINT_BYTES = 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class NotAggregated(ValueError):
    """The bytes are not an aggregated record."""


def deaggregate(data: bytes) -> list[tuple[str, bytes]]:
    """Return the partition keys and data of the user records in `data`. Raises NotAggregated."""
    body, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + _DIGEST_BYTES:
        raise NotAggregated("no magic")
    if md5(body, usedforsecurity=False).digest() != digest:
        raise NotAggregated("its digest is another")
    keys: list[str] = []
    records: list[tuple[int, bytes]] = []
    try:
        for number, value in _fields(body):
            if number == 1 and isinstance(value, bytes):
                keys.append(_key(value))
            elif number == 3 and isinstance(value, bytes):
                records.append(_record(value))
        users = [(keys[index], payload) for index, payload in records]
    except (IndexError, UnicodeDecodeError) as error:
        raise NotAggregated(str(error)) from error
    if sum(len(key) + len(payload) for key, payload in users) > _MOST_EXPANDED_BYTES:
        raise NotAggregated("its user records are larger than those of any producer")
    return users


def _key(value: bytes) -> str:
    key = value.decode()
    if len(key) > _MOST_KEY_CHARS:
        raise NotAggregated("a partition key is longer than Kinesis takes")
    return key


def _record(body: bytes) -> tuple[int, bytes]:
    key, payload = 0, b""
    for number, value in _fields(body):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 3 and isinstance(value, bytes):
            payload = value
    return key, payload


def _fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield a message's field numbers and values. Raises IndexError when it is truncated, NotAggregated."""
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(body, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(body, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise NotAggregated(f"wire type {kind}")
        if at + size > len(body):
            raise IndexError("it breaks off")
        yield tag >> 3, body[at : at + size]
        at += size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MOST_VARINT_BYTES, 7):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise NotAggregated("a number of more than 64 bits")


def expand(records: Records) -> Records:
    """Return records with every aggregated one replaced by its user records."""
    begin_with_magic = pc.starts_with(records.column("data"), pattern=MAGIC)
    if not pc.any(begin_with_magic).as_py():
        return records
    rows: list[int] = []
    data: list[bytes] = []
    keys: list[str] = []
    columns = (records.column("data").to_pylist(), records.column("partitionKey").to_pylist())
    for row, (payload, key) in enumerate(zip(*columns)):
        try:
            users = deaggregate(payload)
        except NotAggregated:
            users = [(key, payload)]
        rows += [row] * len(users)
        keys += [user_key for user_key, _ in users]
        data += [user_data for _, user_data in users]
    # Not the whole rows: that would copy an aggregated record's data once for each user record in it.
    taken = integer_array(rows, pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            binary_array(data),
            string_array(keys),
            records.column("sequenceNumber").take(taken),
            records.column("approximateArrivalTimestamp").take(taken),
        ],
        schema=records.schema,
    )
