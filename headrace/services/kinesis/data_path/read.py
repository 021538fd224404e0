"""Reads the records of a shard that readers may see, and counts the read. All readers use it."""

from __future__ import annotations

from typing import NamedTuple

from headrace.core.clock import Clock
from headrace.services.kinesis.state import Shard, Stream
from headrace.store.frame import Batch
from headrace.store.shard_log import ShardLog


class LogRead(NamedTuple):
    """The result of one read. `at_end` is true when the shard is closed and no record follows."""

    batch: Batch
    behind_ms: int
    at_end: bool


def read(log: ShardLog, index: int, max_records: int, max_bytes: int) -> Batch:
    """Read the records that readers may see. With `durability=fsync` these are the ones already synced to disk."""
    if log.synced_index is not None:
        left = log.synced_index - max(index, log.first_index)
        max_records = min(max_records, max(0, left))
    return log.read(index, max_records, max_bytes)


def read_and_count(
    stream: Stream,
    shard: Shard,
    index: int,
    *,
    max_records: int,
    max_bytes: int,
    clock: Clock,
    started_ms: int,
) -> LogRead:
    """Read a shard's log and count the read, which started at `started_ms`, for CloudWatch. Raises LogDamaged."""
    log = shard.log
    assert log is not None
    # Ask before the read: a shard that closes during the read may have records that the read misses.
    closed = log.closed
    batch = read(log, index, max_records, max_bytes)
    behind_ms = 0
    if batch.last_arrival_ms is not None and batch.next_index < log.readable_index:
        behind_ms = max(0, started_ms - batch.last_arrival_ms)
    counters, size, count = stream.counters, batch.data_bytes, batch.count
    counters.get_records(size, count, behind_ms, max(0, clock.now_ms() - started_ms))
    if stream.enhanced_metrics:
        shard_id = shard.shard_id
        counters.note("OutgoingBytes", size, shard=shard_id)
        counters.note("OutgoingRecords", count, shard=shard_id)
        counters.note("IteratorAgeMilliseconds", behind_ms, shard=shard_id)
        counters.note("ReadProvisionedThroughputExceeded", 0, shard=shard_id)
    return LogRead(batch, behind_ms, closed and batch.next_index >= log.next_index)
