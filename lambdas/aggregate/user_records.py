"""Takes apart records that hold several, in the form of the Kinesis Producer Library, as `lambdas/enrich` writes them.

The form (documented: "KPL Aggregated Record Format"): four bytes of magic, a protobuf message of a table of keys and of
records that point into it, and the message's MD5. What only looks like it is one record, as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
_RECORDS, _DATA = 3, 3
_VARINT, _BYTES = 0, 2


def user_records(data: bytes) -> list[bytes]:
    """Return the data of the records in a Kinesis record, in order: its own, when it is no aggregate."""
    body, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not data.startswith(MAGIC) or md5(body, usedforsecurity=False).digest() != digest:
        return [data]
    try:
        return [
            value
            for number, record in _fields(body)
            if number == _RECORDS
            for inner, value in _fields(record)
            if inner == _DATA
        ]
    except (IndexError, ValueError):
        return [data]


def _fields(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield a message's fields of bytes. Raises IndexError where it breaks off, ValueError for what the form lacks."""
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        size, at = _varint(body, at)
        if tag & 7 == _VARINT:
            continue
        if tag & 7 != _BYTES:
            raise ValueError(f"wire type {tag & 7}")
        if at + size > len(body):
            raise IndexError("it breaks off")
        yield tag >> 3, body[at : at + size]
        at += size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
