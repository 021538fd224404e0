"""Folds change events into the latest row of each key, with tombstones: Kinesis keeps no compacted log of its own.

The fold goes by each event's place in the database's log, not by its arrival: repeats and old events change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.cdc.changes import CaptureError, parse_lsn
from headrace.cdc.envelopes import UNAVAILABLE

Document = dict[str, Any]
Position = tuple[int, int]
_DMS = {"load": "r", "insert": "c", "update": "u", "delete": "d", "truncate-table": "t"}


@dataclass(frozen=True, slots=True)
class Event:
    """What any of the three envelopes says; `unchanged` names the columns that did not come."""

    op: str
    table: str
    position: Position
    before: Document | None
    after: Document | None
    unchanged: tuple[str, ...] = ()


@dataclass(slots=True)
class Latest:
    """The latest of a key: its row, or None for a tombstone; `time_ms`: when it was folded."""

    position: Position
    row: Document | None
    time_ms: int


def read_event(data: bytes) -> Event | None:
    """Return an event of `headrace cdc`, None for one that changes no row. Raises CaptureError for another record."""
    try:
        document = cast("Document", json.loads(data))
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
    except (ValueError, KeyError, TypeError) as error:
        raise CaptureError(
            f"A record is no event of headrace cdc ({type(error).__name__}: {error}): {data[:80]!r}."
        ) from error


def _read_dms(document: Document) -> Event | None:
    metadata = document["metadata"]
    op = _DMS.get(metadata["operation"])
    if op is None:
        return None
    data = document.get("data")
    table = f"{metadata['schema-name']}.{metadata['table-name']}"
    before, after = (data, None) if op == "d" else (None, data)
    # A large value that an update left alone is absent: what the key had stays.
    return Event(
        op, table, _position(metadata["event-id"]), before, after, ("*",) if op == "u" else ()
    )


def _position(event_id: str) -> Position:
    """Return commit's LSN and the place there; a row of the snapshot comes before what its LSN begins."""
    high, low, place, *_ = event_id.split("/")
    return parse_lsn(f"{high}/{low}"), -1 if place == "snapshot" else int(place)


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
        rows = self.tables.setdefault(event.table, {})
        if event.op == "t":
            self.truncated[event.table] = max(
                event.position, self.truncated.get(event.table, (0, 0))
            )
            for latest in rows.values():
                if latest.position < event.position:
                    latest.position, latest.row, latest.time_ms = event.position, None, now_ms
            return
        if event.position < self.truncated.get(event.table, (0, 0)):
            return
        key = self._key(event, partition_key)
        known = rows.get(key)
        if known is not None and known.position >= event.position:
            return
        rows[key] = Latest(event.position, _merge(event, known), now_ms)

    def _key(self, event: Event, partition_key: str) -> str:
        names = self._keys.get(event.table)
        if names is None:
            return partition_key
        row = event.after if event.after is not None else event.before or {}
        missing = [name for name in names if name not in row]
        if missing:
            raise CaptureError(
                f"An event of {event.table} has no {missing[0]!r}, which is named as its key."
            )
        return json.dumps([row[name] for name in names], ensure_ascii=False)

    def rows(self, table: str) -> list[Document]:
        """Return a table's rows, by their keys."""
        latest = self.tables.get(table, {})
        return [row for key in sorted(latest) if (row := latest[key].row) is not None]

    def forget_tombstones(self, before_ms: int) -> None:
        """Drop tombstones that are older; a deleted row's old event would then bring it back."""
        for rows in self.tables.values():
            for key in [k for k, v in rows.items() if v.row is None and v.time_ms < before_ms]:
                del rows[key]

    def columns(self) -> dict[str, list[Any]]:
        """Return everything as columns, a line for each key: what a snapshot stores."""
        lines = [
            (table, key, json.dumps(v.row, ensure_ascii=False) if v.row is not None else None, v.row is None,
             v.position[0], v.position[1], v.time_ms)
            for table, rows in sorted(self.tables.items())
            for key, v in sorted(rows.items())
        ]  # fmt: skip
        return {name: [line[i] for line in lines] for i, name in enumerate(self.COLUMNS)}

    def restore(
        self, lines: Iterable[Mapping[str, Any]], truncated: Mapping[str, Sequence[int]]
    ) -> None:
        """Take what `columns` returned, line by line, and `truncated`."""
        self.truncated = {table: (lsn, place) for table, (lsn, place) in truncated.items()}
        for line in lines:
            row = None if line["is_deleted"] else cast("Document", json.loads(line["row"]))
            latest = Latest((line["lsn"], line["place"]), row, line["time_ms"])
            self.tables.setdefault(line["table"], {})[line["key"]] = latest


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
