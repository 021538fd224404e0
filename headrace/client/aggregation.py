"""KPL's aggregated records: many user records in one Kinesis record. Standard library only.

The format: https://github.com/awslabs/amazon-kinesis-producer/blob/master/aggregation-format.md (documented): four
magic bytes, a protobuf message (proto2), and the MD5 of that message.

    message AggregatedRecord {
      repeated string partition_key_table = 1;
      repeated string explicit_hash_key_table = 2;
      repeated Record records = 3;   // {uint64 partition_key_index = 1; uint64 explicit_hash_key_index = 2;
    }                                //  bytes data = 3; repeated Tag tags = 4}
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
_VARINT_BYTES = 10
_REMEMBERED = 100_000
# Tags of protobuf: field number and wire type.
_KEY, _EXPLICIT, _RECORD = b"\x0a", b"\x12", 0x1A
_LENGTH_DELIMITED, _VARINT, _FIXED64, _FIXED32 = 2, 0, 1, 5

_md5 = hashlib.md5


class UserRecord(NamedTuple):
    """A record as its producer put it; `explicit` is its explicit hash key, in decimal digits."""

    key: str
    explicit: str | None
    data: bytes


def varint(number: int) -> bytes:
    """Return protobuf's varint of a number that is not negative."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class _Small(dict[int, bytes]):
    """The varints of one and two bytes that were needed so far."""

    def __missing__(self, number: int) -> bytes:
        text = self[number] = varint(number)
        return text


_SMALL = _Small()


def _varint(number: int) -> bytes:
    return _SMALL[number] if number < 1 << 14 else varint(number)


class _Heads(dict[tuple[int, int], bytes]):
    """What stands before a record's data, by the index of its key and its length."""

    def __missing__(self, what: tuple[int, int]) -> bytes:
        if len(self) >= _REMEMBERED:
            self.clear()
        index, length = what
        head = self[what] = _head(b"\x08" + _varint(index), length)
        return head


class _Rows(dict[str, bytes]):
    """A key as a row of its table. Raises UnicodeEncodeError."""

    def __missing__(self, key: str) -> bytes:
        if len(self) >= _REMEMBERED:
            self.clear()
        text = key.encode()
        row = self[key] = _KEY + _varint(len(text)) + text
        return row


_heads, _rows = _Heads(), _Rows()


def _head(fields: bytes, length: int) -> bytes:
    fields += b"\x1a" + _varint(length)
    return b"\x1a" + _varint(len(fields) + length) + fields


def aggregate(keys: Sequence[str], data: Sequence[bytes], explicit: Mapping[int, str]) -> bytes:
    """Return one aggregated record; record i has `keys[i]`, `data[i]` and, if any, the hash key `explicit[i]`.

    Raises UnicodeEncodeError: a key is not Unicode text.
    """
    # Without a Python line per record: this is what a producer spends its time on.
    table = defaultdict[str, int](itertools.count().__next__)
    indexes = map(table.__getitem__, keys)
    parts: list[bytes] = [b""] * (2 * len(data))
    parts[::2] = map(_heads.__getitem__, zip(indexes, map(len, data), strict=True))
    parts[1::2] = data
    explicit_keys: dict[str, bytes] = {}
    for index, hash_key in explicit.items():
        if hash_key not in explicit_keys:
            explicit_keys[hash_key] = b"\x10" + _varint(len(explicit_keys))
        fields = b"\x08" + _varint(table[keys[index]]) + explicit_keys[hash_key]
        parts[2 * index] = _head(fields, len(data[index]))
    tables = [*map(_rows.__getitem__, table)]
    tables += [_EXPLICIT + _varint(len(key)) + key.encode() for key in explicit_keys]
    message = b"".join(tables + parts)
    return b"".join((MAGIC, message, _md5(message, usedforsecurity=False).digest()))


def disaggregate(data: bytes) -> list[UserRecord] | None:
    """Return the user records of an aggregated record, or None when `data` is not one.

    Like the KCL, it takes for a plain record what has no magic, a wrong digest, or a message that cannot be read.
    """
    if not data.startswith(MAGIC) or len(data) <= len(MAGIC) + _DIGEST_BYTES:
        return None
    message = data[len(MAGIC) : -_DIGEST_BYTES]
    if _md5(message, usedforsecurity=False).digest() != data[-_DIGEST_BYTES:]:
        return None
    try:
        return _records_of(message)
    except (IndexError, ValueError):
        return None


def _records_of(message: bytes) -> list[UserRecord]:
    keys: list[str] = []
    explicit_keys: list[str | None] = []
    positions: list[tuple[int, int]] = []
    at, end = 0, len(message)
    while at < end:
        tag = message[at]
        at += 1
        # The usual: one byte of tag, one or two of length.
        length = message[at]
        at += 1
        if length > 0x7F:
            length, at = _read_varint(message, at - 1)
        if tag == _RECORD:
            positions.append((at, at + length))
        elif tag == _KEY[0]:
            keys.append(message[at : at + length].decode())
        elif tag == _EXPLICIT[0]:
            explicit_keys.append(message[at : at + length].decode())
        else:
            raise ValueError("a field that is not of this message")
        at += length
    if at != end:
        raise ValueError("the message is cut off")
    return [_record(message, start, stop, keys, explicit_keys) for start, stop in positions]


def _record(
    message: bytes, at: int, end: int, keys: list[str], explicit_keys: list[str | None]
) -> UserRecord:
    # What every producer writes: index < 128, no explicit hash key, data < 16,384 bytes, no tags.
    if message[at] == 0x08 and message[at + 1] < 0x80 and message[at + 2] == 0x1A:
        length, start = message[at + 3], at + 4
        if length > 0x7F:
            length, start = _read_varint(message, at + 3)
        if start + length == end:
            return UserRecord(keys[message[at + 1]], None, message[start:end])
    key: str | None = None
    explicit: str | None = None
    data: bytes | None = None
    while at < end:
        tag, at = _read_varint(message, at)
        field, kind = tag >> 3, tag & 7
        number, at = _read_varint(message, at) if kind in (_VARINT, _LENGTH_DELIMITED) else (0, at)
        if field == 1:
            key = keys[number]
        elif field == 2:
            explicit = explicit_keys[number]
        elif field == 3:
            data = message[at : at + number]
        if kind == _LENGTH_DELIMITED:
            at += number
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        elif kind != _VARINT:
            raise ValueError("a wire type that is not of protobuf")
    if at != end or key is None or data is None:
        raise ValueError("a record without a key or data")
    return UserRecord(key, explicit, data)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 7 * _VARINT_BYTES, 7):
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a varint of more than 10 bytes")
