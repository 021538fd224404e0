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
    batch = log.read(iterator.index, limit, GET_RECORDS_BYTES)
    at_tip = batch.next_index >= log.next_index
    behind_ms = 0
    if not at_tip and batch.last_arrival_ms is not None:
        behind_ms = max(0, call.now_ms - batch.last_arrival_ms)
    if closed and at_tip:
        return Got(batch.payloads, None, 0, child_shards(stream, shard))
    following = kinesis.iterators.seal(
        stream.stream_id, shard.number, batch.next_index, call.now_ms
    )
    return Got(batch.payloads, following, behind_ms, [])


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
