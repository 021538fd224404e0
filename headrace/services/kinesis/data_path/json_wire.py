"""A fast path for PutRecord, PutRecords and GetRecords in JSON, for requests in the form that SDKs send.

For any other form the functions return None; then the action (`actions/`) gives the response that this path would have
given. A property test (tests/api/kinesis/test_hot_path.py) compares the two.
"""

from __future__ import annotations

import msgspec

from headrace.aws.calls.http import HttpResponse
from headrace.aws.calls.operation import Call
from headrace.aws.protocols.encodings import is_base64, is_base64_text
from headrace.aws.protocols.service import RawAnswer
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.put import PutResult, UsualPut, put_one, put_usual
from headrace.services.kinesis.data_path.stored_records import json_answer
from headrace.services.kinesis.errors import GET_RECORDS_COUNT, SHARD_ITERATOR_CHARS
from headrace.services.kinesis.state import Stream

JSON = "application/x-amz-json-1.1"

_CONTENT_TYPE = ("Content-Type", JSON)


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


_decode_put_records = msgspec.json.Decoder(_PutRecords).decode
_decode_put_record = msgspec.json.Decoder(_PutRecord).decode
_decode_get_records = msgspec.json.Decoder(_GetRecords).decode


def put_records(kinesis: Kinesis, body: bytes, call: Call) -> RawAnswer:
    """Answer PutRecords. Raises AwsError, and msgspec's errors for a body of another form."""
    decoded = _decode_put_records(body)
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
    return None if done is None else HttpResponse(200, [_CONTENT_TYPE], _put_records_body(*done))


def put_record(kinesis: Kinesis, body: bytes, call: Call) -> RawAnswer:
    """Answer PutRecord. Raises AwsError, and msgspec's errors for a body of another form."""
    decoded = _decode_put_record(body)
    name, arn, data = decoded.StreamName, decoded.StreamARN, decoded.Data
    key, explicit = decoded.PartitionKey, decoded.ExplicitHashKey
    if len(data) & 3 or not is_base64_text(data):
        return None
    if explicit is None:
        put = put_one(kinesis, stream_name=name, stream_arn=arn, data=data, key=key, call=call)
        if put is not None:
            return HttpResponse(200, [_CONTENT_TYPE], _put_record_body(*put))
    request = UsualPut(name, arn, (data,), (key,), (explicit,), len(data) * 3 // 4, 0)
    done = put_usual(kinesis, request, call, "PutRecord")
    if done is None:
        return None
    stream, placed = done
    for refused in placed.refused.values():
        error = msgspec.json.encode({"__type": refused.code, "message": refused.message})
        return HttpResponse(refused.status, [_CONTENT_TYPE], error)
    answer = _put_record_body(stream, placed.shard_ids[0], placed.numbers[0])
    return HttpResponse(200, [_CONTENT_TYPE], answer)


def get_records(kinesis: Kinesis, body: bytes, call: Call) -> RawAnswer:
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
    return HttpResponse(200, [_CONTENT_TYPE], json_answer(got.payloads, f"{rest}}}".encode()))


def _encryption(stream: Stream) -> str:
    return f',"EncryptionType":"{stream.encryption_type}"' if stream.key_id else ""


def _put_record_body(stream: Stream, shard_id: str, number: str) -> bytes:
    encryption = _encryption(stream)
    return f'{{"ShardId":"{shard_id}","SequenceNumber":"{number}"{encryption}}}'.encode()


def _put_records_body(stream: Stream, placed: PutResult) -> bytes:
    parts = ['"},{"SequenceNumber":"', "", '","ShardId":"', ""] * len(placed.numbers)
    parts[0] = '{"SequenceNumber":"'
    parts[1::4] = placed.numbers
    parts[3::4] = placed.shard_ids
    records = "".join(parts) + '"}' if not placed.refused else _results(placed)
    failed = len(placed.refused)
    return f'{{"FailedRecordCount":{failed},"Records":[{records}]{_encryption(stream)}}}'.encode()


def _results(placed: PutResult) -> str:
    results: list[dict[str, str]] = [
        {"SequenceNumber": number, "ShardId": shard_id}
        for number, shard_id in zip(placed.numbers, placed.shard_ids, strict=True)
    ]
    for i, refused in placed.refused.items():
        results[i] = {"ErrorCode": refused.code, "ErrorMessage": refused.message}
    return msgspec.json.encode(results).decode()[1:-1]
