"""Turns records from a shard log into the body of a response (JSON as it is stored, or CBOR), or into values.

In CBOR (RFC 8949), timestamps are milliseconds under tag 1, which the SDK for Java expects from AWS. The CBOR is joined
from bytes instead of encoded object by object.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import cbor2
import msgspec

from headrace.core.ports import StreamRecord
from headrace.store import frame

TEXT, BYTES, ARRAY = 0x60, 0x40, 0x80


class _Stored(msgspec.Struct, gc=False):
    SequenceNumber: str
    ApproximateArrivalTimestamp: float
    # msgspec decodes the base64.
    Data: bytes
    PartitionKey: str = ""
    EncryptionType: str | None = None


_decode = msgspec.json.Decoder(list[_Stored]).decode


def item_head(kind: int, length: int) -> bytes:
    """Return the CBOR head of an item of `length`; `major` is the first byte of its major type."""
    if length < 24:
        return bytes((kind + length,))
    if length < 1 << 8:
        return struct.pack(">BB", kind + 24, length)
    if length < 1 << 16:
        return struct.pack(">BH", kind + 25, length)
    return struct.pack(">BI", kind + 26, length)


_TEXT_HEADS = [item_head(TEXT, length) for length in range(256)]
_BYTES_HEADS = [item_head(BYTES, length) for length in range(4096)]
# A sequence number always has 56 digits.
_NUMBER = cbor2.dumps("SequenceNumber") + item_head(TEXT, 56)
_ARRIVAL = cbor2.dumps("ApproximateArrivalTimestamp")
_DATA = cbor2.dumps("Data")
_KEY = cbor2.dumps("PartitionKey")
_ENCRYPTION = cbor2.dumps("EncryptionType")


def read_records(payload: bytes | memoryview) -> list[StreamRecord]:
    """Return the records of a payload; they arrived together, in one put."""
    decoded = _decode(b"".join((b"[", payload, b"]")))
    at_ms = round(decoded[0].ApproximateArrivalTimestamp * 1000)
    return [
        StreamRecord(stored.SequenceNumber, stored.PartitionKey, stored.Data, at_ms)
        for stored in decoded
    ]


def json_answer(payloads: Sequence[bytes | memoryview], rest: bytes) -> bytes:
    """Return a JSON object with the records of `payloads`. `rest` is its other members and the closing brace."""
    # Join only once: a second join could copy ten mebibytes again.
    parts: list[bytes | memoryview] = [frame.SEPARATOR] * (2 * len(payloads) or 1)
    parts[1::2] = payloads
    parts[0] = b'{"Records":['
    parts.append(b"]," + rest)
    return b"".join(parts)


def cbor_answer(payloads: Sequence[bytes | memoryview], rest: Mapping[str, object]) -> bytes:
    """Return a CBOR map with the records of `payloads` and the members in `rest`."""
    parts: list[bytes] = []
    count = 0
    for payload in payloads:
        stored = _decode(b"".join((b"[", payload, b"]")))
        count += len(stored)
        # A payload is a batch; all records of a batch have the same arrival time and encryption type.
        arrival_ms = round(stored[0].ApproximateArrivalTimestamp * 1000)
        arrival = _ARRIVAL + cbor2.dumps(cbor2.CBORTag(1, arrival_ms)) + _DATA
        encryption = stored[0].EncryptionType
        parts.append(_records(stored, arrival, encryption))
    members = [cbor2.dumps(name) + cbor2.dumps(value) for name, value in rest.items()]
    head = bytes((0xA1 + len(members),)) + cbor2.dumps("Records") + item_head(ARRAY, count)
    return b"".join((head, *parts, *members))


def _records(stored: list[_Stored], arrival: bytes, encryption: str | None) -> bytes:
    """Return the CBOR of a batch's records: its columns are interleaved in one list, which is joined once."""
    data = [record.Data for record in stored]
    keys = [record.PartitionKey.encode() for record in stored]
    last = b"" if encryption is None else _ENCRYPTION + cbor2.dumps(encryption)
    start = (b"\xa4" if encryption is None else b"\xa5") + _NUMBER
    parts = [last + start, b"", arrival, b"", b"", _KEY, b"", b""] * len(stored)
    parts[0] = start
    parts[1::8] = [record.SequenceNumber.encode() for record in stored]
    parts[3::8] = [
        _BYTES_HEADS[size] if size < len(_BYTES_HEADS) else item_head(BYTES, size)
        for size in map(len, data)
    ]
    parts[4::8] = data
    parts[6::8] = [
        _TEXT_HEADS[size] if size < len(_TEXT_HEADS) else item_head(TEXT, size)
        for size in map(len, keys)
    ]
    parts[7::8] = keys
    parts.append(last)
    if b"" in keys:
        # A record without a key has no such member: its map has a member less.
        for at, key in enumerate(keys):
            if not key:
                beginning = b"" if at == 0 else last
                parts[8 * at] = beginning + bytes((start[0] - 1,)) + start[1:]
                parts[8 * at + 5] = parts[8 * at + 6] = b""
    return b"".join(parts)
