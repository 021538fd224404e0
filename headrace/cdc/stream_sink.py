"""Puts changes into a Kinesis stream: at least once, in the order of each partition key, each with its id.

Chooses a change's partition key, which Kinesis allows to have 256 characters.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from headrace.cdc.changes import UNCHANGED, Change, Table
from headrace.cdc.envelopes import Document, Envelope, encode
from headrace.cdc.events import CaptureError
from headrace.client.producer import Producer
from headrace.client.receipts import PutsFailed, Receipt

_LOG = logging.getLogger("headrace.cdc")
# Less than the producer's own bounds, so that `put` never blocks and the server hears of us.
_MOST_RECORDS, _MOST_BYTES = 20_000, 32 << 20
PRODUCER_OPTIONS: dict[str, Any] = {
    "ordered": True, "give_up_after_s": None,
    "max_buffered_records": 4 * _MOST_RECORDS, "max_buffered_bytes": 4 * _MOST_BYTES,
}  # fmt: skip


class StreamSink:
    """A sink to one stream. Durability: `safe_lsn` follows Kinesis' acknowledgements."""

    home: str | None = None

    def __init__(
        self,
        producer: Producer,
        envelope: Envelope,
        keys: PartitionKeys,
        *,
        record_bytes: int,
        shrink: Callable[[Document, int], Document] | None = None,
    ) -> None:
        """Take a producer with PRODUCER_OPTIONS, and what makes a document that is too large smaller, if anything."""
        self._producer, self._envelope, self._keys = producer, envelope, keys
        self._record_bytes, self._shrink = record_bytes, shrink
        # Records on their way, and between them the LSNs of commits.
        self._waiting: deque[Receipt | int] = deque()
        self._records = self._bytes = self._safe_lsn = 0
        self.count = 0
        # Whether a change of a key may come next, and the tables whose losses the log has named.
        self._was_deletion = False
        self._warned: set[str] = set()

    def resume(self) -> int:
        """See Sink: what is in the stream stays, and Kinesis keeps no LSN."""
        return 0

    def begin_snapshot(self) -> None:
        """See Sink: what is in the stream stays."""

    def take(self, change: Change) -> None:
        """See Sink."""
        document = self._envelope(change)
        if document is None:
            return
        if self._was_deletion and change.op == "c":
            self._warn_of_loss(change)
        self._was_deletion = change.op == "d"
        key = self._keys.of(change)
        data = encode(document)
        room = self._record_bytes - len(key.encode())
        if len(data) > room:
            data = self._smaller(change, document, room)
        self._waiting.append(self._producer.put(data, key))
        self._records += 1
        self._bytes += len(data)
        self.count += 1

    def _warn_of_loss(self, change: Change) -> None:
        """Name, once for each table, the large values that a row with a new key lacks: nobody has them any more."""
        table, row = change.table, change.after or []
        pairs = zip(table.columns, row, strict=True)
        names = [column.name for column, value in pairs if value is UNCHANGED]
        if names and table.full_name not in self._warned:
            self._warned.add(table.full_name)
            _LOG.warning(
                "A row of %s has a new key, and its event lacks the large %s, which the server did not send: only"
                " ALTER TABLE %s REPLICA IDENTITY FULL makes the server send it",
                table.full_name, ", ".join(names), table.full_name,
            )  # fmt: skip

    def _smaller(self, change: Change, document: Document, room: int) -> bytes:
        table, size = change.table.full_name, len(encode(document))
        if self._shrink is None:
            raise CaptureError(
                f"A row of {table} makes {size:,} bytes, and a record takes {self._record_bytes:,}: give"
                " --large-to s3://BUCKET/PREFIX/ for its large values, or --record-kib if the stream takes more."
            )
        data = encode(self._shrink(document, room))
        if len(data) > room:
            raise CaptureError(
                f"A row of {table} makes {len(data):,} bytes even without its large values; a record takes"
                f" {self._record_bytes:,}."
            )
        return data

    def commit(self, end_lsn: int) -> None:
        """See Sink."""
        self._waiting.append(end_lsn)
        self._settle()

    def _settle(self) -> None:
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, int):
                self._safe_lsn = first
            else:
                if not first.done():
                    return
                error = first.exception(0)
                if error is not None:
                    raise CaptureError(f"{self._producer.stream} refuses a change: {error}")
                self._records -= 1
                self._bytes -= len(first.data)
            waiting.popleft()

    def safe_lsn(self) -> int:
        """See Sink."""
        self._settle()
        return self._safe_lsn

    def is_full(self) -> bool:
        """See Sink."""
        if self._records < _MOST_RECORDS and self._bytes < _MOST_BYTES:
            return False
        self._settle()
        return self._records >= _MOST_RECORDS or self._bytes >= _MOST_BYTES

    def is_idle(self) -> bool:
        """See Sink."""
        self._settle()
        return not self._waiting

    def flush(self) -> None:
        """See Sink."""
        try:
            self._producer.flush()
        except PutsFailed as error:
            raise CaptureError(f"{self._producer.stream} refuses changes: {error}") from error
        self._settle()

    def close(self) -> None:
        """See Sink. Records that cannot be put now are put by the next capture, from the slot."""
        try:
            self._producer.close(5.0)
        except (PutsFailed, TimeoutError):
            # Not confirmed to the server, so that they come again.
            self._waiting.clear()


MOST_CHARS = 256


class PartitionKeys:
    """Keys by each table's columns: its key's, those of `by`, or none, when the table itself is the key."""

    def __init__(self, by: Mapping[str, tuple[str, ...] | None]) -> None:
        """Take columns by the table's full name; `*` is every other table; None and no columns: the table."""
        self._by = by
        self._places: dict[int, tuple[Table, list[int]]] = {}

    def of(self, change: Change) -> str:
        """Return the key: a column's text, a JSON array of several, or `schema.table`; long ones hashed."""
        table = change.table
        row = change.after if change.after is not None else change.before
        known = self._places.get(table.oid)
        if known is None or known[0] is not table:
            known = self._places[table.oid] = table, self._choose(table)
        places = known[1]
        if row is None or not places:
            return _short(table.full_name)
        if len(places) == 1:
            value = row[places[0]]
            return _short(value.decode() if isinstance(value, bytes) and value else table.full_name)
        texts = [value.decode() if isinstance(value := row[i], bytes) else None for i in places]
        return _short(json.dumps(texts, ensure_ascii=False, separators=(",", ":")))

    def _choose(self, table: Table) -> list[int]:
        by = self._by.get(table.full_name, self._by.get("*", ()))
        if by is None:
            return []
        if not by:
            return table.key_places()
        places = {column.name: i for i, column in enumerate(table.columns)}
        for name in by:
            if name not in places:
                raise CaptureError(f"{table.full_name} has no column {name!r} to partition by.")
            column = table.columns[places[name]]
            if not column.is_key and table.identity != "f":
                raise CaptureError(
                    f"{table.full_name} cannot be partitioned by {name!r}: a deletion has only the replica"
                    f" identity's columns; set ALTER TABLE {table.full_name} REPLICA IDENTITY FULL."
                )
        return [places[name] for name in by]


def _short(key: str) -> str:
    if len(key) <= MOST_CHARS:
        return key
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()
