"""Counts the records or messages that wait for a mapping: 0 means that it has handled everything put so far."""

from __future__ import annotations

import contextlib
from typing import Any

from headrace.core.ports import (
    AtSequence,
    Position,
    QueueReceiver,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
)
from headrace.services.lambda_.mappings.mapping import Mapping, first_unread
from headrace.services.lambda_.mappings.progress import MappingStore

# Counting stops here: a large count need not be exact.
MOST_COUNTED = 10_000
_READ_BYTES = 4 * 1024 * 1024


def describe_backlog(
    mapping: Mapping,
    *,
    store: MappingStore,
    streams: StreamReader,
    queues: QueueReceiver,
    most: int = MOST_COUNTED,
) -> dict[str, Any]:
    """Return a description of a mapping in which `waiting` is the number of records after its checkpoints.

    Records in flight count too; `waiting` is at most `most`. For a queue, all its messages count. `expired` is the
    number of records that the stream lost before the function was done with them. `dropped` is the number of records
    that the mapping gave up without a failure destination receiving them.
    """
    report: dict[str, Any] = {
        "mapping": mapping.uuid,
        "function": mapping.function_arn,
        "source": mapping.stream_arn,
        "enabled": mapping.enabled,
        "lastProcessingResult": mapping.last_result,
        "lastFailure": mapping.last_failure,
        "expired": mapping.expired,
        "dropped": mapping.dropped,
    }
    if mapping.service == "sqs":
        with contextlib.suppress(LookupError):
            report["waiting"] = queues.message_count(mapping.stream_arn)
        return report
    while True:
        noted = mapping.expired
        report["waiting"], expired = _count_behind(mapping, store, streams, most)
        # A loss that the mapping notes meanwhile, whose checkpoint then moves, would be in neither of the two numbers.
        if mapping.expired == noted:
            break
    report["expired"] = noted + expired
    return report


def _count_behind(
    mapping: Mapping, store: MappingStore, streams: StreamReader, most: int
) -> tuple[int, int]:
    """Return how many records follow the checkpoints, and how many more have expired there."""
    kept = store.checkpoints(mapping.uuid)
    waiting = expired = 0
    try:
        for shard in streams.shards(mapping.read_arn):
            # A shard that a reshard made after the mapping has no checkpoint yet; it is read from its start.
            start = AtSequence(shard.starting_sequence_number)
            position: Position | None = start
            if shard.shard_id in kept:
                position = kept[shard.shard_id].position
            while position is not None and waiting < most:
                try:
                    batch = streams.read(
                        mapping.read_arn,
                        shard.shard_id,
                        position,
                        max_records=most - waiting,
                        max_bytes=_READ_BYTES,
                    )
                except ShardNotFound:
                    break
                expired += batch.expired - _noted(mapping, shard.shard_id, position, batch.expired)
                if not batch.records:
                    break
                waiting += len(batch.records)
                position = batch.next_position
    except StreamNotFound:
        return 0, 0
    return waiting, expired


def _noted(mapping: Mapping, shard_id: str, position: Position, expired: int) -> int:
    """Return how many of the `expired` records after a position are counted already: a checkpoint follows later."""
    first = first_unread(position)
    losses = mapping.noted_losses.get(shard_id, ())
    return min(expired, sum(count for last_number, count in losses if last_number >= first))
