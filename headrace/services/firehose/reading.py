"""Reads new records from a delivery stream's source, and tracks from where the waiting ones can be read again.

Reads records again after a kill, and skips those that are already delivered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.core.ports import StreamRecord
from headrace.services.firehose.sorting import Buffer
from headrace.services.firehose.sources import (
    READ_BYTES,
    READ_RECORDS,
    ShardRead,
    Source,
    at_position,
    is_past,
    position_text,
    read_shards,
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


@dataclass(slots=True)
class Intake:
    """Records that are read and not yet processed, by shard, and when the first one arrived."""

    records: dict[str, list[StreamRecord]] = field(default_factory=dict[str, list[StreamRecord]])
    size_bytes: int = 0
    since_s: float = 0.0


class SourceReader:
    """The reading of one source. Used by one thread at a time, except `waiting`, which any thread may call.

    Attributes:
        intake: records that are not yet processed.
        read_to: by shard, the position where reading continues.
        starts: by shard, the position where reading began for the buffered records.
    """

    def __init__(self, source: Source, positions: Mapping[str, str]) -> None:
        self.intake = Intake()
        self.read_to = dict(positions)
        self.starts: dict[str, str] = {}
        self._source = source

    def fill(self, room_bytes: int, now_s: float) -> Iterator[ShardRead]:
        """Read about `room_bytes` of new records; yield each shard's read after adding it to the intake."""
        for read in read_shards(self._source, self.read_to, room_bytes):
            self.starts.setdefault(read.shard_id, read.start)
            self.read_to[read.shard_id] = read.after
            if read.records:
                intake = self.intake
                if not intake.records:
                    intake.since_s = now_s
                intake.records.setdefault(read.shard_id, []).extend(read.records)
                intake.size_bytes += read.size_bytes
            yield read

    def first_waiting(self, buffers: Collection[Buffer]) -> tuple[dict[str, str], int]:
        """Return the position before the first record that waits here or in the buffers, by shard.

        For a shard without waiting records, it is the position where reading continues. Also return when the first of
        all waiting records arrived (0 if none waits).
        """
        first: dict[str, int] = {}
        names: dict[str, str] = {}

        def take(shard_id: str, number: str) -> None:
            value = int(number)
            if shard_id not in first or value < first[shard_id]:
                first[shard_id], names[shard_id] = value, number

        for buffer in buffers:
            for shard_id, number in buffer.first.items():
                take(shard_id, number)
        for shard_id, records in self.intake.records.items():
            if records:
                take(shard_id, records[0].sequence_number)
        positions = {
            shard_id: at_position(names[shard_id]) if shard_id in names else position
            for shard_id, position in self.read_to.items()
        }
        return positions, self._oldest_ms(buffers)

    def waiting(self, buffers: Collection[Buffer]) -> tuple[int, int]:
        """Return how many records wait here and in the buffers, and when the first arrived (0 if none waits)."""
        full = [buffer for buffer in buffers if buffer.first]
        held = sum(max(len(buffer.records) + len(buffer.failed), 1) for buffer in full)
        return held + sum(map(len, list(self.intake.records.values()))), self._oldest_ms(buffers)

    def _oldest_ms(self, buffers: Iterable[Buffer]) -> int:
        arrivals = [buffer.oldest_ms for buffer in buffers if buffer.first]
        for records in list(self.intake.records.values()):
            arrivals += [record.approximate_arrival_ms for record in records[:1]]
        return min(arrivals, default=0)
