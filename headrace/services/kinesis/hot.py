"""The short cut of PutRecord, PutRecords and GetRecords, for requests that look as SDKs send them.

Anything unusual returns None and goes the long way round (`actions/`), to the same answer: a property test
(tests/api/kinesis/test_hot_path.py) holds the two ways equal.
"""

from __future__ import annotations

import binascii
from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

import msgspec

from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.operation import Call
from headrace.aws.service import RawAnswer
from headrace.services.kinesis import gets, puts
from headrace.services.kinesis.limits import (
    GET_RECORDS_COUNT,
    PARTITION_KEY_CHARS,
    PUT_RECORDS_BYTES,
    PUT_RECORDS_COUNT,
)
from headrace.services.kinesis.puts import Entry, Placed, Refused
from headrace.services.kinesis.state import Stream

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis

JSON = "application/x-amz-json-1.1"


class _Record(msgspec.Struct, gc=False):
    Data: str
    PartitionKey: str
    ExplicitHashKey: str | None = None


class _PutRecords(msgspec.Struct, gc=False):
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


class HotPath:
    """The `raw` hook of the service. Thread-safe."""

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis
        self._ways = {
            "Kinesis_20131202.PutRecords": self._put_records,
            "Kinesis_20131202.PutRecord": self._put_record,
            "Kinesis_20131202.GetRecords": self._get_records,
        }

    def handle(self, request: HttpRequest) -> RawAnswer:
        """Answer a request of the usual form; None sends it the long way."""
        way = self._ways.get(request.headers.get("x-amz-target", ""))
        if way is None or request.headers.get("content-type") != JSON:
            return None
        assert request.call is not None
        try:
            return way(request.body, request.call)
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _stream(self, name: str | None, arn: str | None, call: Call) -> Stream | None:
        if arn is not None:
            stream = self._kinesis.find_arn(arn)
            return stream if stream is not None and name in (None, stream.name) else None
        return self._kinesis.streams.get((call.account, call.region, name or ""))

    def _put_records(self, body: bytes, call: Call) -> RawAnswer:
        decoded = _decode_put_records(body)
        stream = self._stream(decoded.StreamName, decoded.StreamARN, call)
        if stream is None or not 0 < len(decoded.Records) <= PUT_RECORDS_COUNT:
            return None
        entries: list[Entry] = []
        total_bytes = 0
        for record in decoded.Records:
            entry = _entry(record, stream.max_record_bytes)
            if entry is None:
                return None
            entries.append(entry)
            total_bytes += entry.size_bytes
        if total_bytes > PUT_RECORDS_BYTES:
            return None
        results, waits = puts.put(self._kinesis, stream, entries, call.now_ms)
        return _answer(_put_records_body(stream, results), waits)

    def _put_record(self, body: bytes, call: Call) -> RawAnswer:
        decoded = _decode_put_record(body)
        stream = self._stream(decoded.StreamName, decoded.StreamARN, call)
        if stream is None:
            return None
        entry = _entry(decoded, stream.max_record_bytes)
        if entry is None:
            return None
        results, waits = puts.put(self._kinesis, stream, (entry,), call.now_ms)
        placed = results[0]
        if isinstance(placed, Refused):
            return _failed(placed)
        extra = _encryption(stream)
        text = f'{{"ShardId":"{placed.shard_id}","SequenceNumber":"{placed.sequence_number}"{extra}}}'
        return _answer(text.encode(), waits)

    def _get_records(self, body: bytes, call: Call) -> RawAnswer:
        decoded = _decode_get_records(body)
        limit = GET_RECORDS_COUNT if decoded.Limit is None else decoded.Limit
        if decoded.StreamARN is not None or not 0 < limit <= GET_RECORDS_COUNT:
            return None
        if not decoded.ShardIterator:
            return None
        got = gets.get(self._kinesis, decoded.ShardIterator, limit, call)
        following = "null" if got.next_iterator is None else f'"{got.next_iterator}"'
        end = f'],"NextShardIterator":{following},"MillisBehindLatest":{got.behind_ms}'
        if got.children:
            end += ',"ChildShards":' + msgspec.json.encode(got.children).decode()
        whole = b"".join((b'{"Records":[', b",\n".join(got.payloads), end.encode(), b"}"))
        return _answer(whole, ())


def _entry(record: _Record | _PutRecord, max_record_bytes: int) -> Entry | None:
    """Return the entry of a record within its limits, or None."""
    key = record.PartitionKey
    try:
        # Decoded to be checked and measured only; what is kept is the text.
        data_bytes = len(binascii.a2b_base64(record.Data, strict_mode=True))
    except ValueError:
        return None
    if not 0 < len(key) <= PARTITION_KEY_CHARS or data_bytes > max_record_bytes:
        return None
    explicit = record.ExplicitHashKey
    if explicit is not None and not (explicit.isascii() and explicit.isdigit() and len(explicit) < 40):
        return None
    size = data_bytes + (len(key) if key.isascii() else len(key.encode()))
    if size > max_record_bytes + PARTITION_KEY_CHARS * 4:
        return None
    return Entry(record.Data, key, explicit, size)


def _encryption(stream: Stream) -> str:
    return f',"EncryptionType":"{stream.encryption_type}"' if stream.key_id else ""


def _put_records_body(stream: Stream, results: list[Placed | Refused]) -> bytes:
    failed = 0
    parts: list[str] = []
    for result in results:
        if isinstance(result, Placed):
            parts.append(
                f'{{"SequenceNumber":"{result.sequence_number}","ShardId":"{result.shard_id}"}}'
            )
        else:
            failed += 1
            parts.append(
                msgspec.json.encode(
                    {"ErrorCode": result.code, "ErrorMessage": result.message}
                ).decode()
            )
    records = ",".join(parts)
    return f'{{"FailedRecordCount":{failed},"Records":[{records}]{_encryption(stream)}}}'.encode()


def _failed(refused: Refused) -> HttpResponse:
    body = msgspec.json.encode({"__type": refused.code, "message": refused.message})
    return HttpResponse(500, [("Content-Type", JSON)], body)


def _answer(body: bytes, waits: object) -> HttpResponse | Future[HttpResponse]:
    response = HttpResponse(200, [("Content-Type", JSON)], body)
    futures = cast("list[Future[None]]", waits)
    if not futures:
        return response
    return cast("Future[HttpResponse]", puts.when_durable(futures, response))
