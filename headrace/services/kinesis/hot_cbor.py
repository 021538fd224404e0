"""The short cut in CBOR: requests to columns, and answers as bytes laid together, not objects encoded one by one.

CBOR (RFC 8949) with AWS's milliseconds under tag 1, as the SDK for Java reads it.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import cbor2
import msgspec

from headrace.aws import codec_json
from headrace.services.kinesis.puts import Placed

CBOR = "application/x-amz-cbor-1.1"

_TEXT, _BYTES, _ARRAY = 0x60, 0x40, 0x80


class _Stored(msgspec.Struct, gc=False):
    SequenceNumber: str
    ApproximateArrivalTimestamp: float
    Data: bytes
    PartitionKey: str
    EncryptionType: str | None = None


_decode = msgspec.json.Decoder(list[_Stored]).decode


def _head(kind: int, length: int) -> bytes:
    """Return the start of an item of `length`, of a major type given as its first byte."""
    if length < 24:
        return bytes((kind + length,))
    if length < 1 << 8:
        return struct.pack(">BB", kind + 24, length)
    if length < 1 << 16:
        return struct.pack(">BH", kind + 25, length)
    return struct.pack(">BI", kind + 26, length)


_TEXT_HEADS = [_head(_TEXT, length) for length in range(256)]
_BYTES_HEADS = [_head(_BYTES, length) for length in range(4096)]
_NUMBER = cbor2.dumps("SequenceNumber") + _head(_TEXT, 56)
_ARRIVAL = cbor2.dumps("ApproximateArrivalTimestamp")
_DATA = cbor2.dumps("Data")
_KEY = cbor2.dumps("PartitionKey")
_ENCRYPTION = cbor2.dumps("EncryptionType")


_MAP_OF_2 = "\xa2"
_NUMBER_CHARS, _SHARD_ID_CHARS = 56, 20
_PUT_NUMBER = (cbor2.dumps("SequenceNumber") + _head(_TEXT, _NUMBER_CHARS)).decode("latin-1")
_PUT_SHARD = (cbor2.dumps("ShardId") + _head(_TEXT, _SHARD_ID_CHARS)).decode("latin-1")
_ADDRESS = frozenset(("StreamName", "StreamARN"))
_RECORD = frozenset(("Data", "PartitionKey", "ExplicitHashKey"))


class Put(NamedTuple):
    """A request to put records, as columns. `data` is base64 text; `longest_bytes` is the largest record's."""

    name: str | None
    arn: str | None
    data: list[str]
    keys: list[str]
    explicit_hash_keys: list[str | None]
    longest_bytes: int


def decode_put_records(body: bytes) -> Put | None:
    """Return a PutRecords request; None when it does not look as SDKs send it. Raises SerializationException."""
    value = codec_json.decode_body(body, CBOR)
    records = value.pop("Records", None)
    if not isinstance(records, list) or not records or not _ADDRESS.issuperset(value):
        return None
    found = cast("list[Any]", records)
    return _put(value, found) if set(map(type, found)) == {dict} else None


def decode_put_record(body: bytes) -> Put | None:
    """Return a PutRecord request; None when it does not look as SDKs send it. Raises SerializationException."""
    value = codec_json.decode_body(body, CBOR)
    record = {name: value.pop(name) for name in _RECORD if name in value}
    return _put(value, [record]) if _ADDRESS.issuperset(value) else None


def _put(address: dict[str, Any], records: list[dict[str, Any]]) -> Put | None:
    name, arn = address.get("StreamName"), address.get("StreamARN")
    if not isinstance(name, str | None) or not isinstance(arn, str | None):
        return None
    try:
        data = [record["Data"] for record in records]
        keys = [record["PartitionKey"] for record in records]
    except KeyError:
        return None
    if set(map(type, data)) != {bytes} or set(map(type, keys)) != {str}:
        return None
    explicit: list[str | None] = []
    if set(map(len, records)) != {2}:
        explicit = [record.get("ExplicitHashKey") for record in records]
        if not all(map(_RECORD.issuperset, records)):
            return None
        if not {str, type(None)}.issuperset(map(type, explicit)):
            return None
    to_base64 = binascii.b2a_base64
    texts = [to_base64(each, newline=False).decode("ascii") for each in data]
    return Put(name, arn, texts, keys, explicit, max(map(len, data)))


def put_records_answer(placed: Placed, encryption_type: str | None) -> bytes:
    """Return PutRecords' answer."""
    count = len(placed.numbers)
    rest = {"FailedRecordCount": len(placed.refused)}
    members = [cbor2.dumps(name) + cbor2.dumps(value) for name, value in rest.items()]
    if encryption_type is not None:
        members.append(_ENCRYPTION + cbor2.dumps(encryption_type))
    head = bytes((0xA1 + len(members),)) + b"".join(members) + cbor2.dumps("Records")
    return head + (_refused(placed) if placed.refused else _head(_ARRAY, count) + _placed(placed))


def _placed(placed: Placed) -> bytes:
    # A number has 56 digits and a shard's id 20 characters, always: their heads are the same.
    parts = [_MAP_OF_2 + _PUT_NUMBER, "", _PUT_SHARD, ""] * len(placed.numbers)
    parts[1::4] = placed.numbers
    parts[3::4] = placed.shard_ids
    return "".join(parts).encode("latin-1")


def _refused(placed: Placed) -> bytes:
    results: list[dict[str, str]] = [
        {"SequenceNumber": number, "ShardId": shard_id}
        for number, shard_id in zip(placed.numbers, placed.shard_ids, strict=True)
    ]
    for i, refused in placed.refused.items():
        results[i] = {"ErrorCode": refused.code, "ErrorMessage": refused.message}
    return cbor2.dumps(results)


def put_record_answer(placed: Placed, encryption_type: str | None) -> bytes:
    """Return PutRecord's answer."""
    value = {"ShardId": placed.shard_ids[0], "SequenceNumber": placed.numbers[0]}
    if encryption_type is not None:
        value["EncryptionType"] = encryption_type
    return cbor2.dumps(value)


def encode(payloads: Sequence[bytes | memoryview], rest: dict[str, Any]) -> bytes:
    """Return GetRecords' answer: the records of `payloads`, and the members `rest`."""
    parts: list[bytes] = []
    count = 0
    for payload in payloads:
        stored = _decode(b"".join((b"[", payload, b"]")))
        count += len(stored)
        # One arrival a batch, and a batch a payload; so with the encryption.
        arrival_ms = round(stored[0].ApproximateArrivalTimestamp * 1000)
        arrival = _ARRIVAL + cbor2.dumps(cbor2.CBORTag(1, arrival_ms)) + _DATA
        encryption = stored[0].EncryptionType
        parts.append(_records(stored, arrival, encryption))
    members = [cbor2.dumps(name) + cbor2.dumps(value) for name, value in rest.items()]
    head = bytes((0xA1 + len(members),)) + cbor2.dumps("Records") + _head(_ARRAY, count)
    return b"".join((head, *parts, *members))


def _records(stored: list[_Stored], arrival: bytes, encryption: str | None) -> bytes:
    """Return the records of a batch: columns laid into one list, and that joined once."""
    data = [record.Data for record in stored]
    keys = [record.PartitionKey.encode() for record in stored]
    last = b"" if encryption is None else _ENCRYPTION + cbor2.dumps(encryption)
    start = (b"\xa4" if encryption is None else b"\xa5") + _NUMBER
    parts = [last + start, b"", arrival, b"", b"", _KEY, b"", b""] * len(stored)
    parts[0] = start
    parts[1::8] = [record.SequenceNumber.encode() for record in stored]
    parts[3::8] = [
        _BYTES_HEADS[size] if size < len(_BYTES_HEADS) else _head(_BYTES, size)
        for size in map(len, data)
    ]
    parts[4::8] = data
    parts[6::8] = [
        _TEXT_HEADS[size] if size < len(_TEXT_HEADS) else _head(_TEXT, size)
        for size in map(len, keys)
    ]
    parts[7::8] = keys
    parts.append(last)
    return b"".join(parts)
