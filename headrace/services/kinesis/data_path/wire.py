"""A fast path for PutRecord, PutRecords and GetRecords in JSON and CBOR, for requests in the form that SDKs send.

For any other form the functions return None; then the action (`actions/`) gives the response that this path would have
given. A property test (tests/api/kinesis/test_hot_path.py) compares the two.

In CBOR, requests are decoded to columns, and responses are joined from bytes instead of encoded object by object.
"""

from __future__ import annotations

import binascii
from typing import Any, cast

import cbor2
import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpResponse
from headrace.aws.calls.operation import Call
from headrace.aws.protocols import codec_json
from headrace.aws.protocols.encodings import is_base64, is_base64_text
from headrace.aws.protocols.service import RawAnswer
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.put import (
    PutResult,
    UsualPut,
    encryption_of,
    put_one,
    put_usual,
)
from headrace.services.kinesis.data_path.stored_records import (
    ARRAY,
    TEXT,
    cbor_answer,
    item_head,
    json_answer,
)
from headrace.services.kinesis.errors import (
    GET_RECORDS_COUNT,
    PARTITION_KEY_CHARS,
    SHARD_ITERATOR_CHARS,
)
from headrace.services.kinesis.state import Stream

_ENCRYPTION = cbor2.dumps("EncryptionType")
JSON = "application/x-amz-json-1.1"

_JSON_TYPE = ("Content-Type", JSON)


class _Record(msgspec.Struct, gc=False):
    Data: str
    PartitionKey: str
    ExplicitHashKey: str | None = None


class _PutRecords(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    Records: list[_Record]
    StreamName: str | None = None
    StreamARN: str | None = None


class _PutRecord(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    Data: str
    PartitionKey: str
    StreamName: str | None = None
    StreamARN: str | None = None
    ExplicitHashKey: str | None = None


class _GetRecords(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    ShardIterator: str
    Limit: int | None = None
    StreamARN: str | None = None


_decode_json_records = msgspec.json.Decoder(_PutRecords).decode
_decode_json_record = msgspec.json.Decoder(_PutRecord).decode
_decode_get_records = msgspec.json.Decoder(_GetRecords).decode


def put_json_records(kinesis: Kinesis, body: bytes, call: Call) -> RawAnswer:
    """Answer PutRecords. Raises AwsError, and msgspec's errors for a body of another form."""
    decoded = _decode_json_records(body)
    records = decoded.Records
    if not records:
        return None
    data = [record.Data for record in records]
    keys = [record.PartitionKey for record in records]
    explicit = [record.ExplicitHashKey for record in records]
    lengths = set(map(len, data))
    if any(length & 3 for length in lengths) or not is_base64(data, lengths):
        return None
    # This counts up to two bytes too many (base64's padding): a record so close to the limit goes through the action.
    longest_bytes = max(lengths) * 3 // 4
    name, arn = decoded.StreamName, decoded.StreamARN
    request = UsualPut(name, arn, data, keys, explicit, longest_bytes, len(body))
    done = put_usual(kinesis, request, call, "PutRecords")
    return None if done is None else HttpResponse(200, [_JSON_TYPE], _put_records_body(*done))


def put_json_record(kinesis: Kinesis, body: bytes, call: Call) -> RawAnswer:
    """Answer PutRecord. Raises AwsError, and msgspec's errors for a body of another form."""
    decoded = _decode_json_record(body)
    name, arn, data = decoded.StreamName, decoded.StreamARN, decoded.Data
    key, explicit = decoded.PartitionKey, decoded.ExplicitHashKey
    if len(data) & 3 or not is_base64_text(data):
        return None
    put = None
    if explicit is None:
        put = put_one(kinesis, stream_name=name, stream_arn=arn, data=data, key=key, call=call)
    if put is None:
        request = UsualPut(name, arn, (data,), (key,), (explicit,), len(data) * 3 // 4, 0)
        done = put_usual(kinesis, request, call, "PutRecord")
        if done is None:
            return None
        stream, placed = done
        for refused in placed.refused.values():
            error = msgspec.json.encode({"__type": refused.code, "message": refused.message})
            return HttpResponse(refused.status, [_JSON_TYPE], error)
        put = stream, placed.shard_ids[0], placed.numbers[0]
    stream, shard_id, number = put
    encryption = encryption_of(stream) if stream.key_id else ""
    answer = f'{{"ShardId":"{shard_id}","SequenceNumber":"{number}"{encryption}}}'
    return HttpResponse(200, [_JSON_TYPE], answer.encode())


def get_json_records(kinesis: Kinesis, body: bytes, call: Call) -> RawAnswer:
    """Answer GetRecords. Raises AwsError, and msgspec's errors for a body of another form."""
    decoded = _decode_get_records(body)
    limit = GET_RECORDS_COUNT if decoded.Limit is None else decoded.Limit
    if decoded.StreamARN is not None or not 0 < limit <= GET_RECORDS_COUNT:
        return None
    if not 0 < len(decoded.ShardIterator) <= SHARD_ITERATOR_CHARS:
        return None
    got = kinesis.iterators.get(decoded.ShardIterator, limit, call)
    following = "null" if got.next_iterator is None else f'"{got.next_iterator}"'
    rest = f'"NextShardIterator":{following},"MillisBehindLatest":{got.behind_ms}'
    if got.children:
        rest += ',"ChildShards":' + msgspec.json.encode(got.children).decode()
    return HttpResponse(200, [_JSON_TYPE], json_answer(got.payloads, f"{rest}}}".encode()))


def _put_records_body(stream: Stream, placed: PutResult) -> bytes:
    parts = ['"},{"SequenceNumber":"', "", '","ShardId":"', ""] * len(placed.numbers)
    parts[0] = '{"SequenceNumber":"'
    parts[1::4] = placed.numbers
    parts[3::4] = placed.shard_ids
    records = "".join(parts) + '"}' if not placed.refused else _results(placed)
    failed = len(placed.refused)
    return f'{{"FailedRecordCount":{failed},"Records":[{records}]{encryption_of(stream)}}}'.encode()


def _results(placed: PutResult) -> str:
    results: list[dict[str, str]] = [
        {"SequenceNumber": number, "ShardId": shard_id}
        for number, shard_id in zip(placed.numbers, placed.shard_ids, strict=True)
    ]
    for i, refused in placed.refused.items():
        results[i] = {"ErrorCode": refused.code, "ErrorMessage": refused.message}
    return msgspec.json.encode(results).decode()[1:-1]


CBOR = "application/x-amz-cbor-1.1"

_CBOR_TYPE = ("Content-Type", CBOR)
_MAP_OF_2 = "\xa2"
_NUMBER_CHARS, _SHARD_ID_CHARS = 56, 20
_PUT_NUMBER = (cbor2.dumps("SequenceNumber") + item_head(TEXT, _NUMBER_CHARS)).decode("latin-1")
_PUT_SHARD = (cbor2.dumps("ShardId") + item_head(TEXT, _SHARD_ID_CHARS)).decode("latin-1")
_ADDRESS = frozenset(("StreamName", "StreamARN"))
_RECORD = frozenset(("Data", "PartitionKey", "ExplicitHashKey"))


def put_cbor_records(kinesis: Kinesis, body: bytes, call: Call) -> RawAnswer:
    """Answer PutRecords. Raises AwsError."""
    request = _decode_cbor_records(body)
    done = None if request is None else put_usual(kinesis, request, call, "PutRecords")
    return None if done is None else HttpResponse(200, [_CBOR_TYPE], _put_records_answer(*done))


def put_cbor_record(kinesis: Kinesis, body: bytes, call: Call) -> RawAnswer:
    """Answer PutRecord. Raises AwsError."""
    request = _decode_cbor_record(body)
    if request is None:
        return None
    if not any(request.explicit_hash_keys) and "" not in request.explicit_hash_keys:
        put = put_one(
            kinesis,
            stream_name=request.stream_name,
            stream_arn=request.stream_arn,
            data=request.data[0],
            key=request.keys[0],
            call=call,
        )
        if put is not None:
            return HttpResponse(200, [_CBOR_TYPE], _put_record_answer(*put))
    done = put_usual(kinesis, request, call, "PutRecord")
    if done is None:
        return None
    stream, placed = done
    for refused in placed.refused.values():
        raise AwsError(refused.code, refused.message, refused.status)
    answer = _put_record_answer(stream, placed.shard_ids[0], placed.numbers[0])
    return HttpResponse(200, [_CBOR_TYPE], answer)


def get_cbor_records(kinesis: Kinesis, body: bytes, call: Call) -> RawAnswer:
    """Answer GetRecords. Raises AwsError."""
    # The request is small and has no timestamps: the generic decoder is quick enough, and raises AWS's errors.
    request = codec_json.decode_input("kinesis", "GetRecords", body, CBOR)
    iterator, limit = request.get("ShardIterator"), request.get("Limit", GET_RECORDS_COUNT)
    if set(request) - {"ShardIterator", "Limit"} or not 0 < limit <= GET_RECORDS_COUNT:
        return None
    if not iterator or len(iterator) > SHARD_ITERATOR_CHARS:
        return None
    got = kinesis.iterators.get(iterator, limit, call)
    rest: dict[str, object] = {"MillisBehindLatest": got.behind_ms}
    if got.next_iterator is not None:
        rest["NextShardIterator"] = got.next_iterator
    if got.children:
        rest["ChildShards"] = got.children
    return HttpResponse(200, [_CBOR_TYPE], cbor_answer(got.payloads, rest))


def _decode_cbor_records(body: bytes) -> UsualPut | None:
    """Return a PutRecords request, or None when SDKs do not send this form. Raises SerializationException."""
    value = codec_json.decode_body(body, CBOR)
    records = value.pop("Records", None)
    if not isinstance(records, list) or not records or not _ADDRESS.issuperset(value):
        return None
    entries = cast("list[Any]", records)
    return _usual(value, entries) if set(map(type, entries)) == {dict} else None


def _decode_cbor_record(body: bytes) -> UsualPut | None:
    """Return a PutRecord request, or None when SDKs do not send this form. Raises SerializationException."""
    value = codec_json.decode_body(body, CBOR)
    record = {name: value.pop(name) for name in _RECORD if name in value}
    return _usual(value, [record]) if _ADDRESS.issuperset(value) else None


def _usual(address: dict[str, Any], records: list[dict[str, Any]]) -> UsualPut | None:
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
    # The body's size is no bound: CBOR can refer to one value from many places.
    most_bytes = sum(map(len, data)) + 4 * PARTITION_KEY_CHARS * len(keys)
    texts = [to_base64(blob, newline=False).decode("ascii") for blob in data]
    return UsualPut(name, arn, texts, keys, explicit, max(map(len, data)), most_bytes)


def _put_records_answer(stream: Stream, placed: PutResult) -> bytes:
    count = len(placed.numbers)
    rest = {"FailedRecordCount": len(placed.refused)}
    members = [cbor2.dumps(name) + cbor2.dumps(value) for name, value in rest.items()]
    if stream.key_id:
        members.append(_ENCRYPTION + cbor2.dumps(stream.encryption_type))
    head = bytes((0xA1 + len(members),)) + b"".join(members) + cbor2.dumps("Records")
    return head + (
        _encode_refused(placed)
        if placed.refused
        else item_head(ARRAY, count) + _encode_placed(placed)
    )


def _encode_placed(placed: PutResult) -> bytes:
    # A sequence number always has 56 digits and a shard id 20 characters, so their CBOR heads are constants.
    parts = [_MAP_OF_2 + _PUT_NUMBER, "", _PUT_SHARD, ""] * len(placed.numbers)
    parts[1::4] = placed.numbers
    parts[3::4] = placed.shard_ids
    return "".join(parts).encode("latin-1")


def _encode_refused(placed: PutResult) -> bytes:
    results: list[dict[str, str]] = [
        {"SequenceNumber": number, "ShardId": shard_id}
        for number, shard_id in zip(placed.numbers, placed.shard_ids, strict=True)
    ]
    for i, refused in placed.refused.items():
        results[i] = {"ErrorCode": refused.code, "ErrorMessage": refused.message}
    return cbor2.dumps(results)


def _put_record_answer(stream: Stream, shard_id: str, number: str) -> bytes:
    value = {"ShardId": shard_id, "SequenceNumber": number}
    if stream.key_id:
        value["EncryptionType"] = stream.encryption_type
    return cbor2.dumps(value)
