"""Deaggregates records of the Kinesis Producer Library: many user records in one Kinesis record.

The format (documented: "KPL Aggregated Record Format"): four magic bytes, a protobuf message, and its MD5. A record
that only begins like this is passed on unchanged. User records have their own data and partition key, and the Kinesis
record's sequence number and arrival. EMR has no protobuf package, so this module parses the message itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5

from headrace.spark.untyped import Records, pa, pc

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
# Kinesis accepts no longer key. With longer keys in the table, each byte that refers to one could become megabytes.
_MOST_KEY_CHARS = 256
# The limit for all user records of one Kinesis record, which itself has at most 10 MiB.
_MOST_EXPANDED_BYTES = 64 * 1024 * 1024
_MOST_VARINT_BYTES = 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class NotAggregated(ValueError):
    """The bytes are not an aggregated record."""


def deaggregate(data: bytes) -> list[tuple[str, bytes]]:
    """Return the partition keys and data of the user records in `data`. Raises NotAggregated."""
    body, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + _DIGEST_BYTES:
        raise NotAggregated("no magic")
    if md5(body, usedforsecurity=False).digest() != digest:
        raise NotAggregated("its digest is another")
    keys: list[str] = []
    records: list[tuple[int, bytes]] = []
    try:
        for number, value in _fields(body):
            if number == 1 and isinstance(value, bytes):
                keys.append(_key(value))
            elif number == 3 and isinstance(value, bytes):
                records.append(_record(value))
        users = [(keys[index], payload) for index, payload in records]
    except (IndexError, UnicodeDecodeError) as error:
        raise NotAggregated(str(error)) from error
    if sum(len(key) + len(payload) for key, payload in users) > _MOST_EXPANDED_BYTES:
        raise NotAggregated("its user records are larger than those of any producer")
    return users


def _key(value: bytes) -> str:
    key = value.decode()
    if len(key) > _MOST_KEY_CHARS:
        raise NotAggregated("a partition key is longer than Kinesis takes")
    return key


def _record(body: bytes) -> tuple[int, bytes]:
    key, payload = 0, b""
    for number, value in _fields(body):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 3 and isinstance(value, bytes):
            payload = value
    return key, payload


def _fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield a message's field numbers and values. Raises IndexError when it is truncated, NotAggregated."""
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(body, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(body, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise NotAggregated(f"wire type {kind}")
        if at + size > len(body):
            raise IndexError("it breaks off")
        yield tag >> 3, body[at : at + size]
        at += size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MOST_VARINT_BYTES, 7):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise NotAggregated("a number of more than 64 bits")


def expand(records: Records) -> Records:
    """Return records with every aggregated one replaced by its user records."""
    begin_with_magic = pc.starts_with(records.column("data"), pattern=MAGIC)
    if not pc.any(begin_with_magic).as_py():
        return records
    rows: list[int] = []
    data: list[bytes] = []
    keys: list[str] = []
    columns = (records.column("data").to_pylist(), records.column("partitionKey").to_pylist())
    for row, (payload, key) in enumerate(zip(*columns)):
        try:
            users = deaggregate(payload)
        except NotAggregated:
            users = [(key, payload)]
        rows += [row] * len(users)
        keys += [user_key for user_key, _ in users]
        data += [user_data for _, user_data in users]
    taken = records.take(pa.array(rows, pa.int64()))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(data, pa.binary()),
            pa.array(keys, pa.string()),
            taken.column("sequenceNumber"),
            taken.column("approximateArrivalTimestamp"),
        ],
        schema=records.schema,
    )
