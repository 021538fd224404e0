"""Chooses a change's partition key, which Kinesis allows to have 256 characters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from headrace.cdc.changes import Change, Table
from headrace.cdc.events import CaptureError

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
