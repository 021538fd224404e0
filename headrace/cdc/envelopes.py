"""Writes changes as JSON: in Debezium's envelope, in DMS's, or plainly.

Large values of rows to S3, by reference: objects are named by their content, so that a repeat makes no second.

Converts PostgreSQL's texts to JSON's values: plainly, and as Debezium does with `decimal.handling.mode=string`.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol, cast

import msgspec

from headrace.cdc.changes import Change, Row, Table, Unchanged
from headrace.cdc.events import UNAVAILABLE, format_lsn


class LargeValues:
    """Puts values into a bucket. Thread-safe as its client is."""

    def __init__(self, s3: Any, bucket: str, prefix: str) -> None:
        """Take boto3's client of S3, and where objects go."""
        self._s3, self._bucket, self._prefix = s3, bucket, prefix

    def shrink(self, document: Document, room: int) -> Document:
        """Replace the largest values of a change's rows until it fits `room` bytes, or none is left.

        In a value's place comes {"$s3": its URL, "bytes": .., "sha256": ..}; the object is the value's text, or its
        JSON when it is no text. The object is stored when this returns. Raises botocore's errors.
        """
        smaller = dict(document)
        places: list[tuple[int, Document, str]] = []
        for name in ("before", "after", "data"):
            row = smaller.get(name)
            if isinstance(row, dict):
                copy = dict(cast("Document", row))
                smaller[name] = copy
                places += [(len(_bytes_of(value)), copy, column) for column, value in copy.items()]
        for size, row, column in sorted(places, key=lambda place: -place[0]):
            if len(encode(smaller)) <= room or size < 256:
                break
            row[column] = self._store(row[column])
        return smaller

    def _store(self, value: Any) -> Document:
        content = _bytes_of(value)
        digest = hashlib.sha256(content).hexdigest()
        key = f"{self._prefix}{digest}"
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=content)
        return {"$s3": f"s3://{self._bucket}/{key}", "bytes": len(content), "sha256": digest}


def _bytes_of(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else encode(value)


_OPERATIONS = {
    "r": "load", "c": "insert", "u": "update", "d": "delete", "t": "truncate-table", "schema": "change-columns",
}  # fmt: skip
encode = msgspec.json.Encoder().encode
Document = dict[str, Any]


class Envelope(Protocol):
    """Makes a change's document; None when the format has none for it."""

    def __call__(self, change: Change) -> Document | None:
        """Return the document."""
        ...


class _Rows:
    """Rows as JSON's objects; conversions are looked up once for each table."""

    def __init__(self, style: str, unchanged: str | None) -> None:
        self._convert_for = converters(style)
        self._unchanged = unchanged
        self._columns: dict[int, tuple[Table, list[tuple[str, Convert]]]] = {}

    def document(self, table: Table, row: Row | None) -> Document | None:
        if row is None:
            return None
        known = self._columns.get(table.oid)
        if known is None or known[0] is not table:
            columns = [
                (column.name, self._convert_for(column.type_oid)) for column in table.columns
            ]
            known = self._columns[table.oid] = table, columns
        document: Document = {}
        for (name, convert), value in zip(known[1], row, strict=True):
            if value is None:
                document[name] = None
            elif isinstance(value, Unchanged):
                if self._unchanged is not None:
                    document[name] = self._unchanged
            else:
                document[name] = convert(value)
        return document


def key_document(change: Change, rows: _Rows) -> Document | None:
    """Return the key's columns of a deleted row; the others come as null from the server."""
    row = change.before
    places = change.table.key_places()
    if row is None or not places or change.table.identity == "f":
        return rows.document(change.table, row)
    document = rows.document(change.table, row) or {}
    return {
        change.table.columns[i].name: document.get(change.table.columns[i].name) for i in places
    }


def envelope_of(format_: str, database: str, server: str) -> Envelope:
    """Return the envelope of a format: `debezium`, `dms` or `plain`."""
    makers: dict[str, Callable[[str, str], Envelope]] = {
        "debezium": _debezium, "dms": _dms, "plain": _plain,
    }  # fmt: skip
    return makers[format_](database, server)


def _debezium(database: str, server: str) -> Envelope:
    rows = _Rows("debezium", UNAVAILABLE)

    def make(change: Change) -> Document | None:
        if change.op == "schema":
            return None  # Debezium has none for PostgreSQL
        table, time_ms = change.table, change.time_us // 1000
        return {
            "before": rows.document(table, change.before),
            "after": rows.document(table, change.after),
            "source": {
                "version": "headrace",
                "connector": "postgresql",
                "name": server,
                "ts_ms": time_ms,
                "ts_us": change.time_us,
                "snapshot": "true" if change.op == "r" else "false",
                "db": database,
                "schema": table.schema,
                "table": table.name,
                "txId": change.xid,
                "lsn": change.lsn,
                "event_id": change.id,
            },
            "transaction": None if change.op == "r" else {
                "id": f"{change.xid}:{change.commit_lsn}",
                "total_order": change.place + 1,
                "is_last": change.is_last,
            },
            "op": change.op,
            "ts_ms": time_ms,
        }  # fmt: skip

    return make


def _dms(database: str, server: str) -> Envelope:
    rows = _Rows("plain", None)

    def make(change: Change) -> Document | None:
        table = change.table
        is_control = change.op in ("t", "schema")
        metadata: Document = {
            "timestamp": _iso(change.time_us),
            "record-type": "control" if is_control else "data",
            "operation": _OPERATIONS[change.op],
            "partition-key-type": "primary-key" if table.key_places() else "schema-table",
            "schema-name": table.schema,
            "table-name": table.name,
            "transaction-id": change.xid,
            "event-id": change.id,
        }
        if is_control:
            if change.op == "schema":
                metadata["columns"] = _columns(table)
            return {"metadata": metadata}
        if names := _list_unchanged_columns(change):
            metadata["unchanged"] = names
        data = (
            key_document(change, rows) if change.op == "d" else rows.document(table, change.after)
        )
        return {"data": data, "metadata": metadata}

    return make


def _plain(database: str, server: str) -> Envelope:
    rows = _Rows("plain", None)

    def make(change: Change) -> Document | None:
        table, after = change.table, change.after
        document: Document = {
            "id": change.id,
            "op": change.op,
            "table": table.full_name,
            "time": _iso(change.time_us),
            "transaction": change.xid,
            "place": change.place,
            "last": change.is_last,
            "lsn": format_lsn(change.commit_lsn),
        }
        if change.op == "schema":
            document["columns"] = _columns(table)
        if after is not None:
            document["after"] = rows.document(table, after)
            names = _list_unchanged_columns(change)
            if names:
                document["unchanged"] = names
        if change.before is not None:
            document["before"] = key_document(change, rows)
        return document

    return make


def _list_unchanged_columns(change: Change) -> list[str]:
    """Return the columns whose values did not come."""
    if change.after is None:
        return []
    pairs = zip(change.table.columns, change.after, strict=True)
    return [column.name for column, value in pairs if isinstance(value, Unchanged)]


def _columns(table: Table) -> list[Document]:
    return [
        {
            "name": column.name,
            "type_oid": column.type_oid,
            "type_modifier": column.type_modifier,
            "key": column.is_key,
        }
        for column in table.columns
    ]


def _iso(time_us: int) -> str:
    seconds, microseconds = divmod(time_us, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{microseconds:06d}Z"


Convert = Callable[[bytes], Any]

_EPOCH, _EPOCH_DATE = datetime(1970, 1, 1), date(1970, 1, 1)  # noqa: DTZ001 - timestamps without a zone
_MICROSECOND = timedelta(microseconds=1)
_ON_ONE_LINE = bytes.maketrans(b"\n\r", b"  ")


def _text(value: bytes) -> str:
    return value.decode()


def _bool(value: bytes) -> bool:
    return value == b"t"


def _float(value: bytes) -> float | str:
    number = float(value)
    # JSON has no other numbers.
    return number if math.isfinite(number) else value.decode()


def _bytes(value: bytes) -> str:
    return base64.b64encode(bytes.fromhex(value[2:].decode())).decode()


def _days(value: bytes) -> int | str:
    try:
        return (date.fromisoformat(value.decode()) - _EPOCH_DATE).days
    except ValueError:
        return value.decode()  # infinity, or a year that Python does not have


def _timestamp_us(value: bytes) -> int | str:
    try:
        return (datetime.fromisoformat(value.decode()) - _EPOCH) // _MICROSECOND
    except ValueError:
        return value.decode()


def _format_instant(value: bytes) -> str:
    try:
        instant = datetime.fromisoformat(value.decode()).astimezone(UTC)
    except ValueError:
        return value.decode()
    return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _time_us(value: bytes) -> int | str:
    hours, minutes, seconds = value.decode().split(":")
    return round((int(hours) * 3600 + int(minutes) * 60) * 1_000_000 + float(seconds) * 1_000_000)


def _json(value: bytes) -> msgspec.Raw:
    # As it stands: reading it would round its numbers, drop a key that comes twice, and end at deep nesting. The line
    # breaks lie outside its texts.
    return msgspec.Raw(value.translate(_ON_ONE_LINE))


def _iso_timestamp(value: bytes) -> str:
    return value.decode().replace(" ", "T", 1)


_BOOL, _BYTEA, _JSON, _JSONB = 16, 17, 114, 3802
_DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ = 1082, 1083, 1114, 1184
_SHARED: dict[int, Convert] = {
    _BOOL: _bool,
    _BYTEA: _bytes,
    **dict.fromkeys((20, 21, 23, 26), int),
    **dict.fromkeys((700, 701), _float),
}
_PLAIN: dict[int, Convert] = {
    **_SHARED,
    **dict.fromkeys((_JSON, _JSONB), _json),
    _TIMESTAMP: _iso_timestamp,
    _TIMESTAMPTZ: _format_instant,
}
_DEBEZIUM: dict[int, Convert] = {
    **_SHARED,
    _DATE: _days,
    _TIME: _time_us,
    _TIMESTAMP: _timestamp_us,
    _TIMESTAMPTZ: _format_instant,
}
# Arrays by the type of their items.
_ARRAYS = {1000: 16, 1005: 21, 1007: 23, 1016: 20, 1021: 700, 1022: 701, 1009: 25, 1015: 1043, 1231: 1700, 2951: 2950,
           1182: 1082, 1115: 1114, 1185: 1184}  # fmt: skip


def converters(style: str) -> Callable[[int], Convert]:
    """Return what gives a type's conversion, for the style `debezium` or `plain`; types not known stay texts."""
    scalars = _DEBEZIUM if style == "debezium" else _PLAIN

    def convert_for(type_oid: int) -> Convert:
        item = _ARRAYS.get(type_oid)
        if item is not None:
            convert_item = scalars.get(item, _text)
            return lambda value: _array(value.decode(), convert_item)
        return scalars.get(type_oid, _text)

    return convert_for


def _array(text: str, convert: Convert) -> Any:
    """Return an array's items, nested as its dimensions; `[1:2]={..}` has its bounds before the braces."""
    stack: list[list[Any]] = [[]]
    at = text.index("{")
    while at < len(text):
        char = text[at]
        if char == "{":
            stack.append([])
            at += 1
        elif char == "}":
            items = stack.pop()
            stack[-1].append(items)
            at += 1
        elif char == ",":
            at += 1
        elif char == '"':
            at += 1
            item: list[str] = []
            while text[at] != '"':
                at += text[at] == "\\"
                item.append(text[at])
                at += 1
            at += 1
            stack[-1].append(convert("".join(item).encode()))
        else:
            end = at
            while text[end] not in ",}":
                end += 1
            word = text[at:end]
            stack[-1].append(None if word == "NULL" else convert(word.encode()))
            at = end
    return stack[0][0]
