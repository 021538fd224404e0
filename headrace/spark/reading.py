"""Reads one span of a shard in a task, as Arrow batches with the source's columns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headrace.spark.get_records import ExpiredIterator, Page
from headrace.spark.kpl import expand
from headrace.spark.offsets import Init, TrimHorizon
from headrace.spark.options import Options
from headrace.spark.pace import Pace
from headrace.spark.retention import report_loss
from headrace.spark.spans import Span
from headrace.spark.spool import Slice, read_slices
from headrace.spark.untyped import Records, pa

if TYPE_CHECKING:
    from headrace.spark.client import KinesisClient


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
        pa.repeat(stream, rows),
        records.column("partitionKey"),
        records.column("sequenceNumber"),
        records.column("approximateArrivalTimestamp"),
        pa.repeat(shard_id, rows),
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
