"""Avro's binary records as values and back, bounded: for queries, for the dashboard, and inside of compiled jobs.

A compiled job has this file's text, so that it imports nothing of headrace, and runs in Python 3.9.
Documented: https://avro.apache.org/docs/1.11.1/specification. Glue's header is the bytes 3 and 0 (5: zlib), and the
UUID of the schema's version (https://github.com/awslabs/aws-glue-schema-registry).
"""

# A schema is any JSON until it is looked at.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import base64
import json
import struct
import uuid
import zlib
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

MOST_VALUES = 100_000
MOST_DEPTH = 100
MOST_BYTES = 10 * 1024 * 1024
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS = {"millis": 1000, "micros": 1_000_000}


class BadRecord(Exception):
    """The schema or the record cannot be read. The message is the end of a sentence."""


# What a schema or a record makes the reader raise.
BAD = (BadRecord, ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
       struct.error, zlib.error)  # fmt: skip


class AvroReader:
    """Reads records by one schema, its JSON as Python's values. For one thread.

    Its values are JSON's: bytes are texts of their codes; with `for_sql` they are base64, and times, dates and decimals
    are texts as SQL reads them.
    """

    def __init__(self, schema: Any, *, for_sql: bool = False) -> None:
        self._schema, self._names, self._for_sql = schema, dict[str, Any](), for_sql
        self._data, self._at, self._values = b"", 0, 0
        self._note(schema, "", 0)

    def read(self, data: bytes) -> Any:
        """Return the record in `data`, which holds nothing else; raises one of BAD."""
        self._data, self._at, self._values = data, 0, 0
        value = self._value(self._schema, "", 0)
        if self._at != len(data):
            raise BadRecord(f"{len(data) - self._at} bytes follow it")
        return value

    def _note(self, schema: Any, space: str, depth: int) -> None:
        """Note the named types, so that a name may come before what it names."""
        if depth > MOST_DEPTH:
            raise BadRecord("the schema nests too deeply")
        if isinstance(schema, list):
            for one in schema:
                self._note(one, space, depth + 1)
        elif isinstance(schema, dict):
            if "name" in schema and schema.get("type") in ("record", "error", "enum", "fixed"):
                space, full = full_name(schema, space)
                self._names[full] = schema
            for one in schema.get("fields", ()):
                self._note(one["type"], space, depth + 1)
            for member in ("items", "values", "type"):
                if isinstance(schema.get(member), (dict, list)):
                    self._note(schema[member], space, depth + 1)

    def _value(self, schema: Any, space: str, depth: int) -> Any:
        self._values += 1
        if self._values > MOST_VALUES or depth > MOST_DEPTH:
            raise BadRecord("it has too many values, or nests too deeply")
        if isinstance(schema, list):
            return self._value(_choose(schema, self._long()), space, depth + 1)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, (dict, list)):
            return self._value(kind, space, depth + 1)
        if kind in PRIMITIVES or kind == "fixed":
            value = self._raw(kind, schema)
            return (
                self._show_value(value, schema)
                if self._for_sql or kind == "fixed"
                else _text(value)
            )
        return self._compound(kind, schema, space, depth)

    def _compound(self, kind: str, schema: Any, space: str, depth: int) -> Any:
        if kind in ("record", "error"):
            space, _ = full_name(schema, space)
            return {
                one["name"]: self._value(one["type"], space, depth + 1) for one in schema["fields"]
            }
        if kind == "enum":
            return _choose(schema["symbols"], self._long())
        if kind == "array":
            items: list[Any] = []
            self._blocks(lambda: items.append(self._value(schema["items"], space, depth + 1)))
            return items
        if kind == "map":
            entries: dict[str, Any] = {}

            def entry() -> None:
                key = self._read_fixed(self._long()).decode()
                entries[key] = self._value(schema["values"], space, depth + 1)

            self._blocks(entry)
            return entries
        named = self._names.get(f"{space}.{kind}" if space else kind, self._names.get(kind))
        if named is None:
            raise BadRecord(f"the schema has no type {str(kind)[:100]}")
        return self._value(named, space, depth + 1)

    def _raw(self, kind: str, schema: Any) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self._read_fixed(1) != b"\x00"
        if kind in ("int", "long"):
            return self._long()
        if kind == "float":
            return struct.unpack("<f", self._read_fixed(4))[0]
        if kind == "double":
            return struct.unpack("<d", self._read_fixed(8))[0]
        data = self._read_fixed(schema["size"] if kind == "fixed" else self._long())
        return data.decode() if kind == "string" else data

    def _show_value(self, value: Any, schema: Any) -> Any:
        """Return a value of a logical type as SQL reads it from JSON."""
        if not self._for_sql:
            return _text(value)
        logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
        if isinstance(value, bytes):
            if logical == "decimal":
                number = int.from_bytes(value, "big", signed=True)
                return str(Decimal(number).scaleb(-schema.get("scale", 0), Context(prec=100)))
            return base64.b64encode(value).decode()
        if isinstance(value, bool) or not isinstance(value, int) or not logical:
            return value
        if logical == "date":
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        kind, _, unit = logical.rpartition("-")
        if unit not in _UNITS:
            return value
        moment = _EPOCH + timedelta(microseconds=value * (1_000_000 // _UNITS[unit]))
        if kind == "time":
            return moment.time().isoformat("milliseconds" if unit == "millis" else "microseconds")
        return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"

    def _blocks(self, read: Callable[[], None]) -> None:
        while True:
            count = self._long()
            if not count:
                return
            if count < 0:
                self._long()
            for _ in range(abs(count)):
                read()

    def _read_fixed(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count] if count >= 0 else b""
        if count < 0 or len(part) < count:
            raise BadRecord("it ends too soon")
        self._at += count
        return part

    def _long(self) -> int:
        value = shift = 0
        while True:
            byte = self._read_fixed(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise BadRecord("a number is too long")


def full_name(schema: dict[str, Any], space: str) -> tuple[str, str]:
    """Return the namespace and the whole name of a named type that stands in the namespace `space`."""
    name = schema["name"]
    if "." in name:
        return name.rpartition(".")[0], name
    space = schema.get("namespace", space)
    return space, f"{space}.{name}" if space else name


def _choose(choices: list[Any], number: int) -> Any:
    if not 0 <= number < len(choices):
        raise BadRecord(f"it chooses number {number} of {len(choices)}")
    return choices[number]


def _text(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def avro_decoder(schemas: dict[str, str]) -> Callable[[bytes], Any]:
    """Return what reads records of one of `schemas`: each one's JSON by its version's UUID in Glue; of none under ''.

    It raises one of BAD for a record that none of them reads.
    """
    readers = {
        version: AvroReader(schema if schema in PRIMITIVES else json.loads(schema), for_sql=True)
        for version, schema in schemas.items()
    }

    def decode(data: bytes) -> Any:
        if len(data) >= 18 and data[0] == 3 and data[1] in (0, 5):
            reader = readers.get(str(uuid.UUID(bytes=bytes(data[2:18]))))
            if reader is not None:
                body = bytes(data[18:])
                return reader.read(_inflate(body) if data[1] == 5 else body)
        if "" not in readers:
            raise BadRecord("no version of the schema is the one that its header names")
        return readers[""].read(bytes(data))

    return decode


def _inflate(body: bytes) -> bytes:
    inflated = zlib.decompressobj().decompress(body, MOST_BYTES + 1)
    if len(inflated) > MOST_BYTES:
        raise BadRecord("it is larger than a record can be")
    return inflated


def avro_encoder(schema: str) -> Callable[[dict[str, Any]], bytes]:
    """Return what writes a row, its columns as JSON has them, by a schema of `headrace sql`'s own."""
    parsed = json.loads(schema)
    return lambda row: _encode(row, parsed)


def _encode(value: Any, schema: Any) -> bytes:
    if isinstance(schema, list):
        # Every column may be null: null stands first.
        return b"\x00" if value is None else b"\x02" + _encode(value, schema[1])
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return b"".join(_encode(value.get(one["name"]), one["type"]) for one in schema["fields"])
    if kind == "array":
        items = b"".join(_encode(one, schema["items"]) for one in value)
        return (_zigzag(len(value)) + items if value else b"") + b"\x00"
    if kind == "map":
        entries = b"".join(
            _encode_bytes(key.encode()) + _encode(one, schema["values"])
            for key, one in value.items()
        )
        return (_zigzag(len(value)) + entries if value else b"") + b"\x00"
    logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
    if kind == "boolean":
        return b"\x01" if value else b"\x00"
    if kind == "double":
        return struct.pack("<d", float(value))
    if kind == "string":
        return _encode_bytes(value.encode())
    if kind == "bytes":
        if logical != "decimal":
            return _encode_bytes(base64.b64decode(value))
        number = int(Decimal(str(value)).scaleb(schema["scale"], Context(prec=100)))
        return _encode_bytes(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))
    if logical == "date":
        return _zigzag((date.fromisoformat(value) - date(1970, 1, 1)).days)
    if logical:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        return _zigzag((moment - _EPOCH) // timedelta(milliseconds=1))
    return _zigzag(int(value))


def _encode_bytes(data: bytes) -> bytes:
    return _zigzag(len(data)) + data


def _zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    parts = bytearray()
    while value > 0x7F:
        parts.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*parts, value])
