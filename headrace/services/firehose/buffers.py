"""The buffers of a delivery stream: records that are processed and not yet delivered.

Buffers are in memory only, because their records can be read again from the source. Each buffer knows the first source
record that it holds: after a kill, reading continues there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.core.ports import StreamRecord
from headrace.services.firehose.failures import FailedRecord
from headrace.services.firehose.processing import ProcessedRecords
from headrace.services.firehose.records import Record
from headrace.services.firehose.sources import is_past

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
