"""Which of a shard's records are taken: AWS's throughput, and faults on demand, record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.aws.faults import Facts
from headrace.services.kinesis.refusals import Refused
from headrace.services.kinesis.throttle import THROTTLED, rate_exceeded

if TYPE_CHECKING:
    from headrace.services.kinesis.puts import Entries, Placed
    from headrace.services.kinesis.service import Kinesis
    from headrace.services.kinesis.state import Shard, Stream

__all__ = ["THROTTLED", "admitted"]


def admitted(
    kinesis: Kinesis,
    stream: Stream,
    shard: Shard,
    members: Sequence[int],
    entries: Entries,
    placed: Placed,
    now_ms: int,
) -> Sequence[int]:
    """Return the members that are taken; why others are not goes to `placed`."""
    faults = kinesis.faults
    if faults is not None and faults.is_partial:
        facts = Facts("kinesis", "PutRecords", stream.account, stream.name, shard.shard_id)
        refusals = faults.refusals(facts, len(members))
        for at, error in refusals.items():
            placed.refused[members[at]] = Refused(error.code, error.message)
        members = [i for at, i in enumerate(members) if at not in refusals]
    if kinesis.throttle is None or not members:
        return members
    sizes = [_size(entries.data[i], entries.keys[i]) for i in members]
    passes = kinesis.throttle.admit(stream, shard, sizes, now_ms)
    over = [i for i, passed in zip(members, passes, strict=True) if not passed]
    if not over:
        return members
    refused = Refused(THROTTLED, rate_exceeded(stream, shard.shard_id))
    placed.refused.update(dict.fromkeys(over, refused))
    if stream.enhanced_metrics:
        name = "WriteProvisionedThroughputExceeded"
        stream.meter.note(name, len(over), shard=shard.shard_id)
    return [i for i, passed in zip(members, passes, strict=True) if passed]


def _size(data: str, key: str) -> int:
    key_bytes = len(key) if key.isascii() else len(key.encode())
    return len(data) * 3 // 4 - data[-2:].count("=") + key_bytes
