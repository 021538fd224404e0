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
from collections.abc import Callable
from typing import Any

from headrace.sql.avro import BAD, PRIMITIVES, AvroReader, BadRecord

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

_MISSING = "To decode Protobuf records, install protobuf: pip install 'protobuf>=5.28'."
# What schema registries write before a record: name, first bytes, whole length.
_HEADERS = (
    ("no header", b"", 0),
    ("Avro's single-object header", b"\xc3\x01", 10),
    ("Glue's header", b"\x03\x00", 18),
    ("Confluent's header", b"\x00", 5),
)


# What a client's schema or record makes the readers raise.
_BAD: tuple[type[Exception], ...] = (*BAD, *(() if message is None else (message.Error,)))


def _avro(schema: str, _: str) -> Callable[[bytes], Any]:
    stripped = schema.strip()
    return AvroReader(stripped if stripped in PRIMITIVES else json.loads(schema)).read


def _protobuf(schema: str, name: str) -> Callable[[bytes], Any]:
    if descriptor_pb2 is None:
        raise BadRecord(_MISSING)
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(schema, validate=True))
    pool = descriptor_pool.DescriptorPool()  # pyrefly: ignore[missing-attribute]
    for one in files.file:
        pool.Add(one)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))  # pyrefly: ignore[missing-attribute]

    def read(data: bytes) -> Any:
        value = kind.FromString(data)
        return json_format.MessageToDict(  # pyrefly: ignore[missing-attribute]
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
