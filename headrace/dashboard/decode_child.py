"""Decodes a record with a pasted schema: an engine of `headrace.core.evaluation.child`, which bounds time and memory.

The request is JSON: `format` (avro, protobuf), `schema`, `message`, `data` (base64). The answer is JSON: `text` and
`header`, what came before the record; or `problem`, a sentence. Avro's schema is its JSON; Protobuf's is base64 of what
`protoc --include_imports --descriptor_set_out` writes. Documented: avro.apache.org/docs/1.11.1/specification.
"""

# protobuf is optional.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportOptionalMemberAccess=false, reportMissingImports=false, reportMissingTypeStubs=false, reportMissingModuleSource=false

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

try:
    from google.protobuf import (
        descriptor_pb2,
        descriptor_pool,
        json_format,
        message,
        message_factory,
    )
except ImportError:
    descriptor_pb2 = descriptor_pool = json_format = message = message_factory = None

MOST_VALUES = 100_000
MOST_DEPTH = 100
_MISSING = "To decode Protobuf records, install protobuf: pip install 'protobuf>=5.28'."
# What schema registries write before a record: name, first bytes, whole length.
_HEADERS = (
    ("no header", b"", 0),
    ("Avro's single-object header", b"\xc3\x01", 10),
    ("Glue's header", b"\x03\x00", 18),
    ("Confluent's header", b"\x00", 5),
)
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class BadRecord(Exception):
    """The schema or the record cannot be read. The message is the end of a sentence."""


# What a client's schema or record makes the readers raise.
_BAD = (BadRecord, ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
        struct.error, *(() if message is None else (message.Error,)))  # fmt: skip


class _Avro:
    """Reads one record by its schema. Raises BadRecord."""

    def __init__(self, schema: Any) -> None:
        self._schema, self._names = schema, dict[str, Any]()
        self._data, self._at, self._values = b"", 0, 0
        self._note(schema, "", 0)

    def read(self, data: bytes) -> Any:
        """Return the record in `data`, which holds nothing else."""
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
                space, full = _full_name(schema, space)
                self._names[full] = schema
            for one in schema.get("fields", ()):
                self._note(one["type"], space, depth + 1)
            for member in ("items", "values", "type"):
                if isinstance(schema.get(member), dict | list):
                    self._note(schema[member], space, depth + 1)

    def _value(self, schema: Any, space: str, depth: int) -> Any:
        self._values += 1
        if self._values > MOST_VALUES or depth > MOST_DEPTH:
            raise BadRecord("it has too many values, or nests too deeply")
        if isinstance(schema, list):
            return self._value(_choose(schema, self._long()), space, depth + 1)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self._value(kind, space, depth + 1)
        if kind in _PRIMITIVES:
            return self._primitive(kind)
        match kind:
            case "record" | "error":
                space, _ = _full_name(schema, space)
                return {
                    one["name"]: self._value(one["type"], space, depth + 1)
                    for one in schema["fields"]
                }
            case "enum":
                return _choose(schema["symbols"], self._long())
            case "fixed":
                return self._fixed(schema["size"]).decode("latin-1")
            case "array":
                items: list[Any] = []
                self._blocks(lambda: items.append(self._value(schema["items"], space, depth + 1)))
                return items
            case "map":
                entries: dict[str, Any] = {}

                def entry() -> None:
                    key = self._text()
                    entries[key] = self._value(schema["values"], space, depth + 1)

                self._blocks(entry)
                return entries
            case _:
                named = self._names.get(f"{space}.{kind}" if space else kind, self._names.get(kind))
                if named is None:
                    raise BadRecord(f"the schema has no type {str(kind)[:100]}")
                return self._value(named, space, depth + 1)

    def _primitive(self, kind: str) -> Any:
        match kind:
            case "null":
                return None
            case "boolean":
                return self._fixed(1) != b"\x00"
            case "int" | "long":
                return self._long()
            case "float":
                return struct.unpack("<f", self._fixed(4))[0]
            case "double":
                return struct.unpack("<d", self._fixed(8))[0]
            case "bytes":
                return self._fixed(self._long()).decode("latin-1")
            case _:
                return self._text()

    def _blocks(self, read: Callable[[], None]) -> None:
        while count := self._long():
            if count < 0:
                self._long()
            for _ in range(abs(count)):
                read()

    def _fixed(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count] if count >= 0 else b""
        if count < 0 or len(part) < count:
            raise BadRecord("it ends too soon")
        self._at += count
        return part

    def _text(self) -> str:
        return self._fixed(self._long()).decode()

    def _long(self) -> int:
        value = shift = 0
        while True:
            byte = self._fixed(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise BadRecord("a number is too long")


def _full_name(schema: dict[str, Any], space: str) -> tuple[str, str]:
    name = schema["name"]
    if "." in name:
        return name.rpartition(".")[0], name
    space = schema.get("namespace", space)
    return space, f"{space}.{name}" if space else name


def _choose(choices: list[Any], number: int) -> Any:
    if not 0 <= number < len(choices):
        raise BadRecord(f"it chooses number {number} of {len(choices)}")
    return choices[number]


def _avro(schema: str, _: str) -> Callable[[bytes], Any]:
    stripped = schema.strip()
    return _Avro(stripped if stripped in _PRIMITIVES else json.loads(schema)).read


def _protobuf(schema: str, name: str) -> Callable[[bytes], Any]:
    if descriptor_pb2 is None:
        raise BadRecord(_MISSING)
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(schema, validate=True))
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        pool.Add(one)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    def read(data: bytes) -> Any:
        value = kind.FromString(data)
        return json_format.MessageToDict(
            value, preserving_proto_field_name=True, descriptor_pool=pool
        )

    return read


def _decode(asked: dict[str, Any]) -> dict[str, str]:
    data = base64.b64decode(asked["data"], validate=True)
    try:
        reads = {"avro": _avro, "protobuf": _protobuf}[asked["format"]]
        read = reads(asked["schema"], asked["message"])
    except BadRecord as error:
        return {"problem": str(error)}
    except _BAD as error:
        return {
            "problem": f"The schema cannot be read: {type(error).__name__}: {str(error)[:300]}."
        }
    first = ""
    for name, start, length in _HEADERS:
        if not data.startswith(start) or len(data) < length:
            continue
        try:
            text = json.dumps(read(data[length:]), indent=2, ensure_ascii=False)
            text.encode()
        except _BAD as error:
            # The record may be anything: the first reason is the answer when no header fits either.
            first = first or f"{error}"[:300]
        else:
            return {"text": text, "header": name}
    return {"problem": f"The record does not fit the schema: {first}."}


def answer(request: bytes) -> bytes:
    """Answer one record."""
    return json.dumps(_decode(json.loads(request))).encode()
