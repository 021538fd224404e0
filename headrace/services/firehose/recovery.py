"""Reads records again after a kill, and skips those that are already delivered."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.ports import StreamRecord
from headrace.services.firehose.sources import (
    READ_BYTES,
    READ_RECORDS,
    TRIM_HORIZON,
    Source,
    is_done,
    is_past,
    position_text,
)
from headrace.services.firehose.state import Intent


def read_again(source: Source, intent: Intent, shard_id: str) -> tuple[list[StreamRecord], int]:
    """Return a shard's records of an intent, and how many of them retention has removed (0 if unknown)."""
    count = intent.counts.get(shard_id)
    position, last = intent.start[shard_id], intent.last[shard_id]
    records: list[StreamRecord] = []
    while count is None or len(records) < count:
        most = READ_RECORDS if count is None else min(count - len(records), READ_RECORDS)
        got = source.read(shard_id, position, most, READ_BYTES)
        # If retention has removed some, the read includes records of later deliveries.
        kept = [r for r in got.records if not is_past(r.sequence_number, last)]
        records += kept
        if not kept or got.next_position is None or len(kept) < len(got.records):
            break
        position = position_text(got.next_position)
    return records, 0 if count is None else count - len(records)


def still_beyond(
    passed: Mapping[str, Mapping[str, str]], positions: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the sequence numbers of `Progress.passed` that are beyond the positions."""
    left = {
        partition: {
            shard_id: number
            for shard_id, number in shards.items()
            if not is_done(positions.get(shard_id, TRIM_HORIZON), number)
        }
        for partition, shards in passed.items()
    }
    return {partition: shards for partition, shards in left.items() if shards}


def merge_marks(
    passed: Mapping[str, Mapping[str, str]], marks: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Return `Progress.passed` with more marks; the later of two marks for a shard wins."""
    merged = {partition: dict(shards) for partition, shards in passed.items()}
    for partition, shards in marks.items():
        present = merged.setdefault(partition, {})
        for shard_id, number in shards.items():
            if shard_id not in present or is_past(number, present[shard_id]):
                present[shard_id] = number
    return merged
