"""Stores the partition of each record that a function transformed, because the function may later return another key.

After a kill records are processed again, and `Progress.passed` says up to where each partition is delivered. That
holds only if each record gets its former partition. A query always gives the same key; a function's first answer is
stored before any record is delivered by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from headrace.services.firehose.buffers import WHOLE
from headrace.services.firehose.processing import ProcessedRecords
from headrace.services.firehose.records import Record
from headrace.services.firehose.sources import TRIM_HORIZON, is_done, is_past

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
