"""The short cut of PutRecord, PutRecords and GetRecords, for requests that look as SDKs send them.

Anything unusual returns None and goes the long way round (`actions/`), to the same answer: a property test
(tests/api/kinesis/test_hot_path.py) holds the two ways equal.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
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
    SHARD_ITERATOR_CHARS,
)
from headrace.services.kinesis.puts import Entries, Placed, Refused
from headrace.services.kinesis.state import Stream

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis

JSON = "application/x-amz-json-1.1"
_BASE64 = (string.ascii_letters + string.digits + "+/=").encode()


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
        entries = _entries(decoded.Records, stream.max_record_bytes)
        if entries is None or sum(entries.sizes) > PUT_RECORDS_BYTES:
            return None
        results, waits = puts.put(self._kinesis, stream, entries, call.now_ms)
        return _answer(_put_records_body(stream, results), waits)

    def _put_record(self, body: bytes, call: Call) -> RawAnswer:
        decoded = _decode_put_record(body)
        stream = self._stream(decoded.StreamName, decoded.StreamARN, call)
        if stream is None:
            return None
        entries = _entries((decoded,), stream.max_record_bytes)
        if entries is None:
            return None
        results, waits = puts.put(self._kinesis, stream, entries, call.now_ms)
        placed = results[0]
        if isinstance(placed, Refused):
            return _failed(placed)
        extra = _encryption(stream)
        text = (
            f'{{"ShardId":"{placed.shard_id}","SequenceNumber":"{placed.sequence_number}"{extra}}}'
        )
        return _answer(text.encode(), waits)

    def _get_records(self, body: bytes, call: Call) -> RawAnswer:
        decoded = _decode_get_records(body)
        limit = GET_RECORDS_COUNT if decoded.Limit is None else decoded.Limit
        if decoded.StreamARN is not None or not 0 < limit <= GET_RECORDS_COUNT:
            return None
        if not 0 < len(decoded.ShardIterator) <= SHARD_ITERATOR_CHARS:
            return None
        got = gets.get(self._kinesis, decoded.ShardIterator, limit, call)
        following = "null" if got.next_iterator is None else f'"{got.next_iterator}"'
        end = f'],"NextShardIterator":{following},"MillisBehindLatest":{got.behind_ms}'
        if got.children:
            end += ',"ChildShards":' + msgspec.json.encode(got.children).decode()
        whole = b"".join((b'{"Records":[', b",\n".join(got.payloads), end.encode(), b"}"))
        return _answer(whole, ())


def _entries(records: Sequence[_Record | _PutRecord], max_record_bytes: int) -> Entries | None:
    """Return the columns of records that are within their limits, or None when one is not."""
    data = [record.Data for record in records]
    keys = [record.PartitionKey for record in records]
    pads = [2 if d.endswith("==") else 1 if d.endswith("=") else 0 for d in data]
    sizes = [len(d) * 3 // 4 - pad for d, pad in zip(data, pads, strict=True)]
    if not _is_base64(data, sum(pads)) or max(sizes) > max_record_bytes:
        return None
    if not all(keys) or max(map(len, keys)) > PARTITION_KEY_CHARS:
        return None
    explicit: list[str | None] | None = [record.ExplicitHashKey for record in records]
    if any(explicit):
        if not all(_is_hash_key(text) for text in explicit):
            return None
    elif "" in explicit:
        return None
    else:
        explicit = None
    sizes = [
        size + (len(key) if key.isascii() else len(key.encode()))
        for size, key in zip(sizes, keys, strict=True)
    ]
    return Entries(data, keys, sizes, explicit)


def _is_base64(data: list[str], pad_count: int) -> bool:
    """Whether every text is base64 as SDKs write it, checked over all of them at once.

    Whole groups of four, no other characters, and no `=` but at the ends. What fails here is looked at one by
    one on the long way.
    """
    if any([len(text) & 3 for text in data]):  # noqa: C419 - a generator is twice as slow
        return False
    joined = "".join(data)
    if not joined.isascii():
        return False
    return joined.count("=") == pad_count and not joined.encode().translate(None, _BASE64)


def _is_hash_key(text: str | None) -> bool:
    if text is None:
        return True
    return text.isascii() and text.isdigit() and len(text) < 40 and (text[0] != "0" or text == "0")


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
