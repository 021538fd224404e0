"""Deaggregates records in the Kinesis Producer Library's format, which `lambdas/enrich` writes.

The format (documented: "KPL Aggregated Record Format"): four magic bytes, a protobuf message with a table of keys and
with records that refer to it, and the message's MD5. Data that only resembles it counts as one plain record.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
_RECORDS, _DATA = 3, 3
_VARINT, _BYTES = 0, 2


def user_records(data: bytes) -> list[bytes]:
    """Return the data of the records in a Kinesis record, in order; a plain record's own data."""
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
    """Yield a message's bytes fields. Raises IndexError if it is cut off, ValueError if it breaks the format."""
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
