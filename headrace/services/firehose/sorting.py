"""Sorts processed records into buffers: a single one, or one for each partition and one for the backup.

Buffers are in memory only, because their records can be read again from the source. Each buffer knows the first source
record that it holds: after a kill, reading continues there.

Stores the partition of each record that a function transformed, because the function may later return another key.

After a kill records are processed again, and `Progress.passed` says up to where each partition is delivered. That
holds only if each record gets its former partition. A query always gives the same key; a function's first answer is
stored before any record is delivered by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.core.ports import StreamRecord
from headrace.services.firehose.errors import ACTIVE_PARTITIONS
from headrace.services.firehose.prefix import (
    LIMIT_EXCEEDED,
    LIMIT_OUTPUT,
    LIMIT_SENTENCE,
    is_values,
)
from headrace.services.firehose.processing import ProcessedRecords
from headrace.services.firehose.records import FailedRecord, Record
from headrace.services.firehose.sources import TRIM_HORIZON, is_done, is_past
from headrace.services.firehose.state import DeliveryStream, StreamProgress, is_partitioned

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


_MOVED = "errors-"


class RouteStore(Protocol):
    """Stores the routes of one delivery stream, in pieces."""

    def load(self) -> dict[str, dict[str, Any]]:
        """Return all pieces, by name."""
        ...

    def put(self, name: str, piece: dict[str, Any]) -> None:
        """Store a piece; durable on return."""
        ...

    def delete(self, name: str) -> None:
        """Delete a piece."""
        ...


class Routes:
    """The partitions of records after the stored positions. Used by one thread at a time."""

    def __init__(self, store: RouteStore) -> None:
        self._store = store
        self._partitions: dict[tuple[str, str], str] = {}
        # By piece: its records, and the last one by shard.
        self._pieces: dict[str, tuple[list[tuple[str, str]], dict[str, str]]] = {}
        stored = store.load()
        # In order: the later of two routes of a record wins.
        for name in sorted(stored, key=int):
            self._take(name, stored[name])
        self._next = max((int(name) for name in self._pieces), default=0) + 1

    def _take(self, name: str, piece: Mapping[str, Any]) -> None:
        records: list[tuple[str, str]] = []
        for shard_id, record_id, partition in piece["records"]:
            records.append((shard_id, record_id))
            self._partitions[shard_id, record_id] = partition
        self._pieces[name] = (records, piece["last"])

    def settle(self, processed: ProcessedRecords) -> None:
        """Set the stored partitions of known records, and store those of new ones. Durable on return."""
        records: list[list[str]] = []
        last: dict[str, str] = {}

        def route(record: Record, partition: str) -> str:
            known = self._partitions.get((record.shard_id, record.record_id))
            if known is not None:
                return known
            records.append([record.shard_id, record.record_id, partition])
            number, before = record.source.sequence_number, last.get(record.shard_id)
            if before is None or is_past(number, before):
                last[record.shard_id] = number
            return partition

        for record in processed.records:
            record.partition = route(record, record.partition)
        for failure in processed.failed:
            failure.record.partition = route(failure.record, WHOLE)
        self._add(records, last)

    def move_to_errors(self, records: Sequence[Record]) -> None:
        """Store that undelivered records with a partition now fail. Durable on return.

        They get a separate buffer of errors: the usual one may already be delivered beyond them.
        """
        partition = f"{_MOVED}{self._next}"
        last: dict[str, str] = {}
        for record in records:
            record.partition = partition
            number, before = record.source.sequence_number, last.get(record.shard_id)
            if before is None or is_past(number, before):
                last[record.shard_id] = number
        self._add([[r.shard_id, r.record_id, partition] for r in records], last)

    def _add(self, records: list[list[str]], last: dict[str, str]) -> None:
        if records:
            piece = {"records": records, "last": last}
            name = str(self._next)
            self._store.put(name, piece)
            self._next += 1
            self._take(name, piece)

    def forget(self, positions: Mapping[str, str]) -> None:
        """Forget the records before the positions."""
        for name, (records, last) in list(self._pieces.items()):
            if all(is_done(positions.get(s, TRIM_HORIZON), number) for s, number in last.items()):
                self._store.delete(name)
                del self._pieces[name]
                for record in records:
                    self._partitions.pop(record, None)


_FAILED_BEFORE = (
    "Lambda.FunctionError",
    "The Lambda function was successfully invoked but it returned an error result.",
)
# How many partitions over the limit may be in a delivery of errors that does not wait for the other buffers.
MOST_MARKS = 200
# Per record: two objects, two bytes objects, and a sequence number of 56 digits (measured).
_AROUND_RECORD_BYTES = 450


class Sorter:
    """The buffers of a delivery stream. Used by one thread at a time.

    Attributes:
        buffers: those that hold something, by partition.
        must_empty: all buffers are to be delivered before more is read.
        active: how many partitions are active.
        routes: the partitions that a function's answers gave; only with both a function and partitions.
        exceeded: how many records were beyond the limit of active partitions since it was last asked.
        is_partitioned: whether the destination has dynamic partitioning.
        has_own_backup: whether the backup has a buffer of its own.
        has_several: whether there is more than one buffer, each delivered at its own time.
    """

    def __init__(
        self,
        stream: DeliveryStream,
        progress: StreamProgress,
        store: RouteStore,
        *,
        has_function: bool,
    ) -> None:
        self.buffers: dict[str, Buffer] = {}
        self._progress = progress
        self.must_empty = False
        self.exceeded = 0
        self.active = 0
        self.size_bytes = 0
        self.is_partitioned = is_partitioned(stream.destination)
        # Asked only where a function's answer says where a record goes.
        self.routes = Routes(store) if self.is_partitioned and has_function else None
        self._backs_up = stream.destination.get("S3BackupMode") == "Enabled"
        self.has_own_backup = stream.has_own_backup
        self.has_several = stream.has_several_buffers

    @property
    def held_bytes(self) -> int:
        """The approximate memory of the buffers, including each record's overhead."""
        buffers = self.buffers.values()
        records = sum([len(buffer.records) + len(buffer.sources) for buffer in buffers])
        return self.size_bytes + _AROUND_RECORD_BYTES * records

    def open(self, partition: str) -> None:
        """Mark a partition as active."""
        self._buffer(partition)

    def pop(self, partition: str) -> Buffer:
        """Remove and return a buffer; an empty one if there is none."""
        buffer = self.buffers.pop(partition, None)
        if buffer is None:
            return Buffer()
        self.active -= is_values(partition)
        self.size_bytes -= buffer.size_bytes
        if not self.buffers:
            self.must_empty = False
        return buffer

    def largest(self) -> str:
        """Return the partition with the largest buffer."""
        return max(self.buffers, key=lambda name: self.buffers[name].size_bytes)

    def add(
        self,
        processed: ProcessedRecords,
        by_shard: Mapping[str, list[StreamRecord]],
        since_s: float,
    ) -> None:
        """Sort into buffers everything made from the source's records, of which the first arrived at `since_s`."""
        if self.has_several:
            if self.has_own_backup and not self._backs_up:
                # The backup has the delivered data, not the source's: all documents, data or events.
                processed.sources = processed.records
            if self.routes is not None:
                self.routes.settle(processed)
            self._sort(processed, since_s)
        elif processed.records or processed.failed or processed.sources:
            size_bytes = sum([len(record.data) for record in processed.records])
            self.size_bytes += size_bytes
            self.buffers.setdefault(WHOLE, Buffer()).add(processed, size_bytes, by_shard, since_s)

    def _sort(self, processed: ProcessedRecords, since_s: float) -> None:
        has_passed = bool(self._progress.saved.passed)
        for record in self._not_passed(BACKUP, processed.sources):
            self._back_up(record, since_s)
        # A failed record whose function's earlier answer gave it a partition counts as delivered with that partition.
        failed = [f for f in processed.failed if not self._is_passed(f.record.partition, f.record)]
        moved = [f.record for f in failed if is_values(f.record.partition)]
        if moved and self.routes is not None:
            self.routes.move_to_errors(moved)
        for failure in failed:
            self._fail(failure, since_s, failure.record.partition)
        for record in processed.records:
            partition = record.partition
            if has_passed and self._is_passed(partition, record):
                continue
            if self.is_partitioned and not is_values(partition):
                # It failed before and is in a buffer of errors.
                self._fail(FailedRecord(record, *_FAILED_BEFORE), since_s, partition)
                continue
            buffer = self.buffers.get(partition)
            if buffer is None and self.is_partitioned:
                whole = self.buffers.get(WHOLE)
                if (whole and partition in whole.refused) or self.active >= ACTIVE_PARTITIONS:
                    self._refuse(record, since_s)
                    continue
            buffer = buffer or self._buffer(partition)
            buffer.records.append(record)
            self._grow(buffer, len(record.data))
            if self.is_partitioned:
                buffer.note_one(record, since_s)
            else:
                # After failures of the same batch.
                buffer.note_any(record, since_s)

    def _back_up(self, record: Record, since_s: float) -> None:
        buffer = self._buffer(BACKUP)
        buffer.sources.append(record)
        self._grow(buffer, len(record.source.data if self._backs_up else record.data))
        buffer.note_any(record, since_s)

    def _grow(self, buffer: Buffer, size_bytes: int) -> None:
        buffer.size_bytes += size_bytes
        self.size_bytes += size_bytes

    def _refuse(self, record: Record, since_s: float) -> None:
        """Refuse a record whose partition may not become active.

        After that no record of the partition gets a buffer until the refused ones are delivered, so that a partition is
        always delivered completely up to one sequence number.
        """
        self.exceeded += 1
        self._fail(
            FailedRecord(record, LIMIT_EXCEEDED, LIMIT_SENTENCE, error_type=LIMIT_OUTPUT),
            since_s,
            WHOLE,
        )
        buffer = self.buffers[WHOLE]
        shards = buffer.refused.setdefault(record.partition, {})
        shards[record.shard_id] = record.source.sequence_number
        # Each one becomes a mark in the progress, unless all other buffers are delivered first.
        buffer.is_last |= len(buffer.refused) > MOST_MARKS

    def _fail(self, failure: FailedRecord, since_s: float, partition: str) -> None:
        buffer = self._buffer(partition)
        buffer.failed.append(failure)
        buffer.note_any(failure.record, since_s)

    def _buffer(self, partition: str) -> Buffer:
        buffer = self.buffers.get(partition)
        if buffer is None:
            buffer = self.buffers[partition] = Buffer()
            self.active += is_values(partition)
        return buffer

    def _not_passed(self, partition: str, records: Sequence[Record]) -> Sequence[Record]:
        if not self._progress.saved.passed:
            return records
        return [record for record in records if not self._is_passed(partition, record)]

    def _is_passed(self, partition: str, record: Record) -> bool:
        shards = self._progress.saved.passed.get(partition)
        last = shards.get(record.shard_id) if shards else None
        return last is not None and not is_past(record.source.sequence_number, last)
