"""Reads the events of `headrace cdc`, in any of its envelopes.

Standard library alone, and Python 3.9: Spark jobs carry this module and `compaction` in headrace_spark.zip.

Folds change events into the latest row of each key, with tombstones: Kinesis keeps no compacted log of its own.

The fold goes by each event's place in the database's log, not by its arrival: repeats and old events change nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, cast

Document = dict[str, Any]
Position = tuple[int, int]
# Debezium's own word for a large value that the server did not send.
UNAVAILABLE = "__debezium_unavailable_value"
_DMS = {"load": "r", "insert": "c", "update": "u", "delete": "d", "truncate-table": "t"}


class CaptureError(Exception):
    """The capture, or what reads its events, cannot go on. The message is one sentence."""


def format_lsn(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it: `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Return the number of an LSN that PostgreSQL wrote."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


@dataclass(frozen=True)
class Event:
    """What any of the three envelopes says; `unchanged` names the columns that did not come."""

    op: str
    table: str
    position: Position
    before: Document | None
    after: Document | None
    unchanged: tuple[str, ...] = ()


def read_event(data: bytes) -> Event | None:
    """Return an event of `headrace cdc`, None for one that changes no row. Raises CaptureError for another record."""
    try:
        document = _read_document(data)
        if "metadata" in document:
            return _read_dms(document)
        if "source" in document:
            source = document["source"]
            after = cast("Document | None", document["after"])
            unchanged = tuple(name for name, value in (after or {}).items() if value == UNAVAILABLE)
            table = f"{source['schema']}.{source['table']}"
            return Event(
                document["op"],
                table,
                _position(source["event_id"]),
                document["before"],
                after,
                unchanged,
            )
        if document["op"] == "schema":
            return None
        return Event(
            document["op"],
            document["table"],
            _position(document["id"]),
            document.get("before"),
            document.get("after"),
            tuple(document.get("unchanged", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CaptureError(
            f"A record is no event of headrace cdc ({type(error).__name__}: {error}): {data[:80]!r}."
        ) from error


def _read_document(data: bytes) -> Document:
    try:
        return json.loads(data, parse_float=_number)
    except ValueError:
        # A number has more digits than Python takes, or this is no JSON, which is told again.
        return json.loads(data, parse_float=_number, parse_int=_whole_number)


def _whole_number(text: str) -> int | str:
    """Return a number, or the text of one that has too many digits."""
    try:
        return int(text)
    except ValueError:
        return text


def _number(text: str) -> float | str:
    """Return a number, or the text of one that is beyond a double: its infinity would be no JSON."""
    number = float(text)
    return number if math.isfinite(number) else text


def _read_dms(document: Document) -> Event | None:
    metadata = document["metadata"]
    op = _DMS.get(metadata["operation"])
    if op is None:
        return None
    data = document.get("data")
    table = f"{metadata['schema-name']}.{metadata['table-name']}"
    before, after = (data, None) if op == "d" else (None, data)
    # Before 2026-12 no event named the large values that its update left alone: they were absent.
    unchanged = tuple(metadata.get("unchanged", ("*",) if op == "u" else ()))
    return Event(op, table, _position(metadata["event-id"]), before, after, unchanged)


def _position(event_id: str) -> Position:
    """Return commit's LSN and the place there; a row of the snapshot comes before what its LSN begins."""
    high, low, place, *_ = event_id.split("/")
    return parse_lsn(f"{high}/{low}"), -1 if place == "snapshot" else int(place)


# A key's table, key, row as JSON, whether it is deleted, LSN, place, and the time of folding in milliseconds.
Line = tuple[str, str, Optional[str], bool, int, int, int]  # noqa: UP045 - Python 3.9 evaluates it


@dataclass
class Latest:
    """The latest of a key: its row, or None for a tombstone; `time_ms`: when it was folded."""

    position: Position
    row: Document | None
    time_ms: int


class Compaction:
    """The latest of each key of each table, in memory. One thread.

    A row's key is that of its columns in `keys`, else its record's partition key, which is the table's key by default.

    Attributes:
        tables: by table and key, the latest.
        truncated: by table, the position of its last truncation.
    """

    COLUMNS = ("table", "key", "row", "is_deleted", "lsn", "place", "time_ms")

    def __init__(self, keys: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.tables: dict[str, dict[str, Latest]] = {}
        self._keys = keys or {}
        self.truncated: dict[str, Position] = {}

    def take(self, data: bytes, partition_key: str, now_ms: int) -> None:
        """Fold a record. Raises CaptureError."""
        event = read_event(data)
        if event is None:
            return
        if event.op == "t":
            self.truncate(event.table, event.position, now_ms)
        else:
            self.fold(event, self.key_of(event, partition_key), now_ms)

    def fold(self, event: Event, key: str, now_ms: int) -> None:
        """Fold the change of one row, whose key `key_of` returns."""
        if event.position < self.truncated.get(event.table, (0, 0)):
            return
        rows = self.tables.setdefault(event.table, {})
        known = rows.get(key)
        if known is None or known.position < event.position:
            rows[key] = Latest(event.position, _merge(event, known), now_ms)

    def truncate(self, table: str, position: Position, now_ms: int) -> None:
        """Make tombstones of a table's rows that are older than its truncation."""
        self.truncated[table] = max(position, self.truncated.get(table, (0, 0)))
        for latest in self.tables.setdefault(table, {}).values():
            if latest.position < position:
                latest.position, latest.row, latest.time_ms = position, None, now_ms

    def key_of(self, event: Event, partition_key: str) -> str:
        """Return the key of an event's row. Raises CaptureError when it lacks a column of `keys`."""
        names = self._keys.get(event.table)
        if names is None:
            return partition_key
        row = event.after if event.after is not None else event.before or {}
        missing = [name for name in names if name not in row]
        if missing:
            raise CaptureError(
                f"An event of {event.table} has no {missing[0]!r}, which is named as its key."
            )
        return format_row([row[name] for name in names])

    def rows(self, table: str) -> list[Document]:
        """Return a table's rows, by their keys."""
        latest = self.tables.get(table, {})
        return [row for key in sorted(latest) if (row := latest[key].row) is not None]

    def forget_tombstones(self, before_ms: int) -> None:
        """Drop tombstones that are older; a deleted row's old event would then bring it back."""
        for rows in self.tables.values():
            for key in [k for k, v in rows.items() if v.row is None and v.time_ms < before_ms]:
                del rows[key]

    def lines(self) -> Iterator[Line]:
        """Return everything, a line for each key with the values of COLUMNS: what a snapshot stores."""
        for table, rows in sorted(self.tables.items()):
            for key, v in sorted(rows.items()):
                row = format_row(v.row) if v.row is not None else None
                yield table, key, row, v.row is None, v.position[0], v.position[1], v.time_ms

    def restore(self, lines: Iterable[Line], truncated: Mapping[str, Sequence[int]]) -> None:
        """Take what `lines` returned, and `truncated`."""
        self.truncated = {
            table: (lsn, truncation) for table, (lsn, truncation) in truncated.items()
        }
        for table, key, text, is_deleted, lsn, truncation, time_ms in lines:
            row = None if is_deleted else cast("Document", json.loads(text or ""))
            self.tables.setdefault(table, {})[key] = Latest((lsn, truncation), row, time_ms)


def format_row(row: Any) -> str:
    """Return a row, or its key, as JSON; half a character, which PostgreSQL's json may have, is escaped."""
    text = json.dumps(row, ensure_ascii=False)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(row)
    return text


def _merge(event: Event, known: Latest | None) -> Document | None:
    """Return the row after an event; what it left unchanged is what the key had."""
    if event.op == "d" or event.after is None:
        return None
    old = known.row if known is not None else None
    if event.unchanged == ("*",):
        return {**(old or {}), **event.after}
    if not event.unchanged or old is None:
        return event.after
    return {**event.after, **{name: old[name] for name in event.unchanged if name in old}}
