"""As much of CBOR (RFC 8949) as Kinesis's requests and answers need. Standard library only.

Kinesis takes and gives CBOR as AWS's SDK for Java sends it (application/x-amz-cbor-1.1): data without base64.

Reads answers to PutRecords. Standard library only.
"""

from __future__ import annotations

import json
import struct
from struct import Struct
from typing import Any


def results_of(body: bytes, count: int) -> list[dict[str, Any]]:
    """Return the result of each of `count` entries. Raises ValueError when the answer cannot be read.

    A server other than AWS's may answer in JSON, though CBOR was asked for.
    """
    answer: Any = json.loads(body) if body[:1] == b"{" else loads(body)
    results: Any = answer.get("Records") if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    if not isinstance(results, list) or len(results) != count:  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError("the answer to PutRecords cannot be read")
    return results  # pyright: ignore[reportUnknownVariableType]


UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE = range(8)
_BREAK = 0xFF
_SIZES = {24: Struct(">B"), 25: Struct(">H"), 26: Struct(">I"), 27: Struct(">Q")}
_FLOATS = {25: Struct(">e"), 26: Struct(">f"), 27: Struct(">d")}
_SIMPLES = {20: False, 21: True, 22: None, 23: None}


def head(kind: int, number: int) -> bytes:
    """Return the head of an item: its kind with its length, its count or its value."""
    if number < 24:
        return bytes((kind << 5 | number,))
    for size, form in _SIZES.items():
        if number < 1 << 8 * form.size:
            return bytes((kind << 5 | size,)) + form.pack(number)
    raise OverflowError("a number of more than 64 bits")


def text(value: str) -> bytes:
    """Return a text item. Raises UnicodeEncodeError."""
    content = value.encode()
    return head(TEXT, len(content)) + content


def loads(content: bytes) -> Any:
    """Return the value of an item. Raises ValueError when it cannot be read."""
    try:
        value, end = _item(content, 0)
    except (IndexError, struct.error, KeyError, TypeError, RecursionError) as error:
        raise ValueError("not CBOR") from error
    if end != len(content):
        raise ValueError("more than one item")
    return value


def _item(content: bytes, at: int) -> tuple[Any, int]:
    first = content[at]
    at += 1
    kind, size = first >> 5, first & 31
    if kind == SIMPLE:
        if size in _FLOATS:
            form = _FLOATS[size]
            return form.unpack_from(content, at)[0], at + form.size
        return _SIMPLES[size], at
    if size == 31:
        return _read_indefinite(content, at, kind)
    number = size
    if size > 23:
        form = _SIZES[size]
        number, at = form.unpack_from(content, at)[0], at + form.size
    if kind == UNSIGNED:
        return number, at
    if kind == NEGATIVE:
        return -1 - number, at
    if kind in (BYTES, TEXT):
        end = at + number
        if end > len(content):
            raise ValueError("the item is cut off")
        return (content[at:end] if kind == BYTES else content[at:end].decode()), end
    if kind == ARRAY:
        values: list[Any] = []
        for _ in range(number):
            value, at = _item(content, at)
            values.append(value)
        return values, at
    if kind == MAP:
        members: dict[Any, Any] = {}
        for _ in range(number):
            key, at = _item(content, at)
            members[key], at = _item(content, at)
        return members, at
    return _item(content, at)  # a tag: its value is what counts


def _read_indefinite(content: bytes, at: int, kind: int) -> tuple[Any, int]:
    values: list[Any] = []
    while content[at] != _BREAK:
        value, at = _item(content, at)
        values.append(value)
    if kind == MAP:
        return dict(zip(values[::2], values[1::2], strict=True)), at + 1
    if kind == ARRAY:
        return values, at + 1
    return (b"" if kind == BYTES else "").join(values), at + 1
