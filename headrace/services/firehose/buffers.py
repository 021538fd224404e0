"""The buffers of a delivery stream: what is processed and not yet delivered.

All of it is in memory only, since it can always be read again from the source. So each buffer knows the first of the
source's records that it holds: reading goes on from there after a kill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.core.ports import StreamRecord
from headrace.services.firehose.failures import Failed
from headrace.services.firehose.processing import Processed
from headrace.services.firehose.records import Record
from headrace.services.firehose.sources import is_past

# The buffer of a stream without partitions. With them: of errors.
WHOLE = ""
# The buffer of a backup that has buffering hints of its own: see `DeliveryStream.has_own_backup`.
BACKUP = "backup"


@dataclass(slots=True)
class Buffer:
    """Records that are processed and not yet delivered, in order.

    Attributes:
        failed: records that were not processed; they are delivered to the error output.
        sources: records for the backup: as the source had them, or, of the buffer `BACKUP`, what the mode asks for.
        counts: by shard, how many of the source's records these came from. Only where there is one buffer of all.
        first: by shard, the first of the source's records in here.
        last: by shard, the last.
        refused: by partition and shard, the last sequence number that was beyond the limit of active partitions.
        is_last: it is delivered after all others, since its failures would not fail again (see `Delivery`).
    """

    records: list[Record] = field(default_factory=list[Record])
    failed: list[Failed] = field(default_factory=list[Failed])
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
        made: Processed,
        size_bytes: int,
        by_shard: Mapping[str, list[StreamRecord]],
        since_s: float,
    ) -> None:
        """Take all that was made of the source's records, of which each shard has one at least."""
        self.records += made.records
        self.failed += made.failed
        self.sources += made.sources
        self.size_bytes += size_bytes
        for shard_id, records in by_shard.items():
            self._note(shard_id, records, since_s)
            self.counts[shard_id] = self.counts.get(shard_id, 0) + len(records)

    def _note(self, shard_id: str, of: Sequence[StreamRecord], since_s: float) -> None:
        """Take notice of the source's records that something in here came from, in order; there is at least one."""
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
        """As `note_one`, for records in any order: failures of a later stage come after those of an earlier one."""
        shard_id, number = record.shard_id, record.source.sequence_number
        first, last = self.first.get(shard_id), self.last.get(shard_id)
        self.note_one(record, since_s)
        if first is not None and is_past(first, number):
            self.first[shard_id] = number
        if last is not None and is_past(last, number):
            self.last[shard_id] = last

    def note_one(self, record: Record, since_s: float) -> None:
        """Take notice of the source's record that something in here came from."""
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
