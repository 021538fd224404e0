"""Turns a record's bytes into text for people: gzip, KPL, Avro and Protobuf are unpacked, other bytes are base64."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.client.aggregation import disaggregate
from headrace.core.evaluation import POOL, Engine, TooMuch

# A row of the browser shows this much; the record's own page shows all up to MOST_WHOLE_BYTES.
PREVIEW_BYTES = 2_048
MOST_WHOLE_BYTES = 10 * 1024 * 1024
_GZIP = b"\x1f\x8b"
MOST_SCHEMA_CHARS = 256 * 1024
MOST_DECODED_CHARS = 2 * 1024 * 1024
_DECODE = Engine(Path(__file__).with_name("decode_child.py"))


class BadQuestion(Exception):
    """A parameter of a request is not usable; the message is a sentence."""


def describe_payload(data: bytes, most_bytes: int = PREVIEW_BYTES) -> dict[str, Any]:
    """Return a record's payload: `bytes`, `encoding` (text or base64), `packing`, `data` and `isCut`.

    Nothing of it is parsed: a browser that shows it as text cannot be harmed by it.
    """
    packing: list[str] = []
    raw = data
    if raw.startswith(_GZIP):
        unpacked = _gunzip(raw)
        if unpacked is not None:
            packing.append("gzip")
            raw = unpacked
    is_cut = len(raw) > most_bytes
    part = raw[:most_bytes]
    document: dict[str, Any] = {"bytes": len(data), "packing": packing, "isCut": is_cut}
    try:
        # A character that the cut goes through is left out; any other invalid byte is not text.
        text = part.decode("utf-8") if not is_cut else _decode_cut(part)
        if "\x00" not in text:
            return {**document, "encoding": "text", "data": text}
    except UnicodeDecodeError:
        pass  # not text: base64 below
    return {**document, "encoding": "base64", "data": base64.b64encode(part).decode()}


def decode_payload(asked: Mapping[str, Any]) -> dict[str, str]:
    """Return a payload (`data`, `encoding`) as the JSON `text` that a `schema` gives, and its registry's `header`.

    `format` is avro or protobuf, which needs a `message` too. A child process with bounds of time and memory decodes.
    Raises BadQuestion, with the reason.
    """
    values = {name: asked.get(name, "") for name in ("format", "schema", "message", "data")}
    if not all(isinstance(value, str) for value in values.values()):
        raise BadQuestion("format, schema, message and data are texts.")
    if values["format"] not in ("avro", "protobuf"):
        raise BadQuestion("format is avro or protobuf.")
    if len(values["schema"]) > MOST_SCHEMA_CHARS or len(values["data"]) > MOST_DECODED_CHARS:
        raise BadQuestion("A schema has at most 256 KiB, and a record that is decoded 2 MiB.")
    if asked.get("encoding") != "base64":
        values["data"] = base64.b64encode(values["data"].encode()).decode()
    try:
        request = json.dumps(values).encode()
        answer = json.loads(POOL.ask(_DECODE, request, caller="dashboard"))
    except TooMuch as error:
        raise BadQuestion(f"Decoding takes too much time or memory: {error}.") from error
    if "problem" in answer:
        raise BadQuestion(answer["problem"])
    return answer


def user_records(data: bytes) -> list[tuple[str, bytes]] | None:
    """Return key and data of the records inside a KPL aggregate; None for any other record."""
    records = disaggregate(data)
    return None if records is None else [(one.key, one.data) for one in records]


def _decode_cut(part: bytes) -> str:
    for drop in range(4):
        try:
            return part[: len(part) - drop].decode("utf-8")
        except UnicodeDecodeError as error:
            if error.start < len(part) - 4:
                raise
    return part.decode("utf-8")


def _gunzip(data: bytes) -> bytes | None:
    """Return the unpacked bytes, at most MOST_WHOLE_BYTES and one; None for damaged data."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data, MOST_WHOLE_BYTES + 1)
    except zlib.error:
        return None
