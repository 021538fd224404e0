"""Getting records: from an iterator to a slice of a shard's log. Shared by every way in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call
from headrace.services.kinesis.errors import shard_not_found
from headrace.services.kinesis.iterators import ExpiredIterator
from headrace.services.kinesis.limits import GET_RECORDS_BYTES, ITERATOR_LIFE_MS
from headrace.services.kinesis.state import Shard, Stream
from headrace.services.kinesis.throttle import Throttle
from headrace.store.shard_log import Batch, ShardLog

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis


@dataclass(frozen=True, slots=True)
class Got:
    """A slice of a shard. `next_iterator` is None, and `children` are given, at a closed shard's end."""

    payloads: list[bytes | memoryview]
    next_iterator: str | None
    behind_ms: int
    children: list[dict[str, Any]]


def get(kinesis: Kinesis, iterator_text: str, limit: int, call: Call) -> Got:
    """Read up to `limit` records and 10 MiB. Raises AwsError."""
    try:
        iterator = kinesis.iterators.open(iterator_text, call.now_ms)
    except ExpiredIterator as error:
        raise AwsError(
            "ExpiredIteratorException",
            f"Iterator expired. The iterator was created at time {_java(error.created_ms)} while right now it is"
            f" {_java(call.now_ms)} which is further in the future than the tolerated delay of"
            f" {ITERATOR_LIFE_MS} milliseconds.",
        ) from error
    stream = kinesis.by_id.get(iterator.stream_id)
    if stream is None:
        raise AwsError(
            "ResourceNotFoundException",
            f"The stream of the iterator under account {call.account} not found.",
        )
    shard = stream.shard(str(iterator.shard_number))
    if shard is None or shard.log is None:
        raise shard_not_found(f"shardId-{iterator.shard_number:012d}", stream.name, stream.account)
    log = shard.log
    # Before the read: what is appended meanwhile must not look like the end of a closed shard.
    closed = log.closed
    throttle = kinesis.throttle
    if throttle is not None:
        _check_rate(throttle, stream, shard, call.now_ms)
    batch = read(log, iterator.index, limit, GET_RECORDS_BYTES)
    behind_ms = 0
    if batch.last_arrival_ms is not None and batch.next_index < log.readable_index:
        behind_ms = max(0, call.now_ms - batch.last_arrival_ms)
    if throttle is not None:
        throttle.spend_read(stream, shard, batch.data_bytes, call.now_ms)
    count(kinesis, stream, shard, batch, behind_ms, call.now_ms)
    if closed and batch.next_index >= log.next_index:
        return Got(batch.payloads, None, 0, child_shards(stream, shard))
    following = kinesis.iterators.seal(
        stream.stream_id, shard.number, batch.next_index, call.now_ms
    )
    return Got(batch.payloads, following, behind_ms, [])


def read(log: ShardLog, index: int, max_records: int, max_bytes: int) -> Batch:
    """Read what readers may see: with `durability=fsync`, what is on the disk."""
    if log.synced_index is not None:
        left = log.synced_index - max(index, log.first_index)
        max_records = min(max_records, max(0, left))
    return log.read(index, max_records, max_bytes)


def count(
    kinesis: Kinesis, stream: Stream, shard: Shard, batch: Batch, behind_ms: int, now_ms: int
) -> None:
    """Count a read for CloudWatch."""
    latency_ms = max(0, kinesis.clock.now_ms() - now_ms)
    meter = stream.meter
    meter.get_records(batch.data_bytes, batch.count, behind_ms, latency_ms)
    if stream.enhanced_metrics:
        shard_id = shard.shard_id
        meter.note("OutgoingBytes", batch.data_bytes, shard=shard_id)
        meter.note("OutgoingRecords", batch.count, shard=shard_id)
        meter.note("IteratorAgeMilliseconds", behind_ms, shard=shard_id)
        meter.note("ReadProvisionedThroughputExceeded", 0, shard=shard_id)


def _check_rate(throttle: Throttle, stream: Stream, shard: Shard, now_ms: int) -> None:
    try:
        throttle.check_read(stream, shard, now_ms)
    except AwsError:
        stream.meter.note("GetRecords.Success", 0)
        if stream.enhanced_metrics:
            name = "ReadProvisionedThroughputExceeded"
            stream.meter.note(name, 1, shard=shard.shard_id)
        raise


def child_shards(stream: Stream, parent: Shard) -> list[dict[str, Any]]:
    """Return AWS's ChildShards of a closed shard."""
    return [
        {
            "ShardId": shard.shard_id,
            "ParentShards": shard.parents,
            "HashKeyRange": {
                "StartingHashKey": str(shard.starting_hash_key),
                "EndingHashKey": str(shard.ending_hash_key),
            },
        }
        for shard in stream.shards
        if parent.shard_id in shard.parents
    ]


def _java(timestamp_ms: int) -> str:
    """Return a time as Java's Date prints it, which is how AWS words this error."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
