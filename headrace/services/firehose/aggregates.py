"""Deaggregates records of the Kinesis Producer Library: many user records in one Kinesis record.

The format (documented: "KPL Aggregated Record Format"): four magic bytes, a protobuf message with a table of keys and
records that refer to it, and the message's MD5. A record that only begins like this is passed on unchanged.
`headrace.spark.kpl` has its own reader of the format, because it is sent to EMR in a zip without the rest of headrace.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
_MOST_VARINT_BYTES = 10
_MOST_KEY_CHARS = 256
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def split_aggregate(data: bytes) -> list[tuple[str, bytes]] | None:
    """Return the partition keys and data of the user records in `data`; None if it is not an aggregate."""
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + _DIGEST_BYTES:
        return None
    body, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if md5(body, usedforsecurity=False).digest() != digest:
        return None
    keys: list[str] = []
    user_records: list[tuple[int, bytes]] = []
    try:
        for number, value in _iterate_fields(body):
            if number == 1 and isinstance(value, bytes):
                keys.append(value.decode()[:_MOST_KEY_CHARS])
            elif number == 3 and isinstance(value, bytes):
                user_records.append(_record(value))
        return [(keys[index], payload) for index, payload in user_records]
    except (IndexError, ValueError):
        return None


def _record(body: bytes) -> tuple[int, bytes]:
    key, payload = 0, b""
    for number, value in _iterate_fields(body):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 3 and isinstance(value, bytes):
            payload = value
    return key, payload


def _iterate_fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield a message's fields: number and value. Raises ValueError, IndexError."""
    offset = 0
    while offset < len(body):
        tag, offset = _parse_varint(body, offset)
        kind, size = tag & 7, 0
        if kind == _VARINT:
            value, offset = _parse_varint(body, offset)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, offset = _parse_varint(body, offset)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("not a protobuf message")
        if offset + size > len(body):
            raise ValueError("a field goes beyond the end")
        yield tag >> 3, body[offset : offset + size]
        offset += size


def _parse_varint(body: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for turn in range(_MOST_VARINT_BYTES):
        byte = body[offset + turn]
        value |= (byte & 0x7F) << (7 * turn)
        if byte < 0x80:
            return value, offset + turn + 1
    raise ValueError("a number is too long")
