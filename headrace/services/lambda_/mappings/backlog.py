"""Counts the records of a stream that a mapping is not done with, as JSON: whether everything put so far is handled."""

from __future__ import annotations

import contextlib
from typing import Any

from headrace.core.ports import (
    QueueReceiver,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
    TrimHorizon,
)
from headrace.services.lambda_.mappings.mapping import Checkpoint, Mapping
from headrace.services.lambda_.mappings.store import MappingStore

# A count need not be exact where it is large.
MOST_COUNTED = 10_000
_READ_BYTES = 4 * 1024 * 1024


def backlog(
    mapping: Mapping,
    *,
    store: MappingStore,
    streams: StreamReader,
    queues: QueueReceiver,
    most: int = MOST_COUNTED,
) -> dict[str, Any]:
    """Return a mapping with `waiting`: the records behind its checkpoints, those in flight too; or `most`.

    Of a queue all messages wait. `expired` counts those that the stream lost before the function was done with them;
    `dropped` those that the mapping gave up and that reached no failure destination.
    """
    report: dict[str, Any] = {
        "mapping": mapping.uuid,
        "function": mapping.function_arn,
        "source": mapping.stream_arn,
        "enabled": mapping.enabled,
        "lastProcessingResult": mapping.last_result,
        "expired": mapping.expired,
        "dropped": mapping.dropped,
    }
    if mapping.service == "sqs":
        with contextlib.suppress(LookupError):
            report["waiting"] = queues.message_count(mapping.stream_arn)
        return report
    report["waiting"], expired = _behind(mapping, store, streams, most)
    report["expired"] += expired
    return report


def _behind(
    mapping: Mapping, store: MappingStore, streams: StreamReader, most: int
) -> tuple[int, int]:
    """Return how many records are behind the checkpoints, and how many there were that have expired."""
    kept = store.checkpoints(mapping.uuid)
    waiting = expired = 0
    try:
        for shard in streams.shards(mapping.read_arn):
            # A shard that a reshard made after the mapping has no checkpoint at first: it is read from its start.
            position = kept.get(shard.shard_id, Checkpoint(TrimHorizon())).position
            while position is not None and waiting < most:
                try:
                    found = streams.read(
                        mapping.read_arn,
                        shard.shard_id,
                        position,
                        max_records=most - waiting,
                        max_bytes=_READ_BYTES,
                    )
                except ShardNotFound:
                    break
                expired += found.expired
                if not found.records:
                    break
                waiting += len(found.records)
                position = found.next_position
    except StreamNotFound:
        return 0, 0
    return waiting, expired
