"""Reads new records from a delivery stream's source, and tracks from where the waiting ones can be read again.

The buffers of a delivery stream: records that are processed and not yet delivered.

Buffers are in memory only, because their records can be read again from the source. Each buffer knows the first source
record that it holds: after a kill, reading continues there.

Reads records again after a kill, and skips those that are already delivered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.core.ports import StreamRecord
from headrace.services.firehose.processing import ProcessedRecords
from headrace.services.firehose.records import FailedRecord, Record
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


# The only buffer of a stream without dynamic partitioning; with it, the buffer of errors.
WHOLE = ""
# The buffer of a backup with its own buffering hints: see `DeliveryStream.has_own_backup`.
BACKUP = "backup"


@dataclass(slots=True)
class Buffer:
    """Records that are processed and not yet delivered, in order.

    Attributes:
        failed: records whose processing failed; they go to the error output.
        sources: records for the backup: the source's, or in the buffer `BACKUP` those that the backup mode selects.
        counts: by shard, from how many source records these came. Only when the stream has one buffer.
        first: by shard, the first source record.
        last: by shard, the last source record.
        refused: by partition and shard, the last sequence number over the limit of active partitions.
        is_last: it is delivered after all others, because its failures would not fail again (see `Delivery`).
    """

    records: list[Record] = field(default_factory=list[Record])
    failed: list[FailedRecord] = field(default_factory=list[FailedRecord])
    sources: list[Record] = field(default_factory=list[Record])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    first: dict[str, str] = field(default_factory=dict[str, str])
    last: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    size_bytes: int = 0
    since_s: float = 0.0
    oldest_ms: int = 0
    newest_ms: int = 0
    is_last: bool = False

    def add(
        self,
        processed: ProcessedRecords,
        size_bytes: int,
        by_shard: Mapping[str, list[StreamRecord]],
        since_s: float,
    ) -> None:
        """Add everything made from the source's records; each shard has at least one."""
        self.records += processed.records
        self.failed += processed.failed
        self.sources += processed.sources
        self.size_bytes += size_bytes
        for shard_id, records in by_shard.items():
            self._note(shard_id, records, since_s)
            self.counts[shard_id] = self.counts.get(shard_id, 0) + len(records)

    def _note(self, shard_id: str, of: Sequence[StreamRecord], since_s: float) -> None:
        """Note the source records, in order and at least one, from which buffered records came."""
        arrivals = [record.approximate_arrival_ms for record in of]
        oldest_ms, newest_ms = min(arrivals), max(arrivals)
        if not self.first:
            self.since_s, self.oldest_ms, self.newest_ms = since_s, oldest_ms, newest_ms
        self.since_s = min(self.since_s, since_s)
        self.oldest_ms = min(self.oldest_ms, oldest_ms)
        self.newest_ms = max(self.newest_ms, newest_ms)
        self.first.setdefault(shard_id, of[0].sequence_number)
        self.last[shard_id] = of[-1].sequence_number

    def note_any(self, record: Record, since_s: float) -> None:
        """Do `note_one` for records in any order: failures of a later stage follow those of an earlier one."""
        shard_id, number = record.shard_id, record.source.sequence_number
        first, last = self.first.get(shard_id), self.last.get(shard_id)
        self.note_one(record, since_s)
        if first is not None and is_past(first, number):
            self.first[shard_id] = number
        if last is not None and is_past(last, number):
            self.last[shard_id] = last

    def note_one(self, record: Record, since_s: float) -> None:
        """Note the source record from which a buffered record came."""
        source, shard_id = record.source, record.shard_id
        at_ms = source.approximate_arrival_ms
        if not self.first:
            self.since_s, self.oldest_ms, self.newest_ms = since_s, at_ms, at_ms
        elif at_ms < self.oldest_ms:
            self.oldest_ms = at_ms
        elif at_ms > self.newest_ms:
            self.newest_ms = at_ms
        if shard_id not in self.first:
            self.first[shard_id] = source.sequence_number
        self.last[shard_id] = source.sequence_number


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
