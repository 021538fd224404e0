"""The short cut of PutRecord, PutRecords and GetRecords, for requests that look as SDKs send them.

Anything unusual returns None and goes the long way round (`actions/`), to the same answer: a property test
(tests/api/kinesis/test_hot_path.py) holds the two ways equal.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.aws import codec_json
from headrace.aws.errors import AwsError
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.operation import Call
from headrace.aws.service import RawAnswer
from headrace.services.kinesis import gets, hot_cbor, puts, single
from headrace.services.kinesis.hot_cbor import CBOR
from headrace.services.kinesis.limits import (
    GET_RECORDS_COUNT,
    PARTITION_KEY_CHARS,
    PUT_RECORDS_BYTES,
    PUT_RECORDS_COUNT,
    SHARD_ITERATOR_CHARS,
)
from headrace.services.kinesis.puts import Entries, Placed
from headrace.services.kinesis.refusals import Refused
from headrace.services.kinesis.state import Stream
from headrace.store import frame

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis

JSON = "application/x-amz-json-1.1"
# The characters that may stand before padding.
_BEFORE_ONE, _BEFORE_TWO = "AEIMQUYcgkosw048", "AQgw"
_LOOSE_END = re.compile(f"[^{_BEFORE_TWO}]==,|[^{_BEFORE_ONE}=]=,").search
_BASE64 = (string.ascii_letters + string.digits + "+/").encode()


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
        self._ways_cbor = {
            "Kinesis_20131202.PutRecords": self._put_records_cbor,
            "Kinesis_20131202.PutRecord": self._put_record_cbor,
            "Kinesis_20131202.GetRecords": self._get_records_cbor,
        }

    def handle(self, request: HttpRequest) -> RawAnswer:
        """Answer a request of the usual form; None sends it the long way."""
        target = request.headers.get("x-amz-target", "")
        way = self._ways.get(target)
        content_type = request.headers.get("content-type")
        if way is None or request.call is None:
            return None
        if content_type == CBOR:
            return self._ways_cbor[target](request.body, request.call)
        if content_type != JSON:
            return None
        try:
            return way(request.body, request.call)
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _stream(self, name: str | None, arn: str | None, call: Call) -> Stream | None:
        if arn is not None:
            stream = self._kinesis.find_arn(arn)
            if stream is not None and name not in (None, stream.name):
                return None
        else:
            stream = self._kinesis.streams.get((call.account, call.region, name or ""))
        # One that is being made or deleted goes the long way.
        return stream if stream is None or stream.passing == "ACTIVE" else None

    def _put_records(self, body: bytes, call: Call) -> RawAnswer:
        decoded = _decode_put_records(body)
        stream = self._stream(decoded.StreamName, decoded.StreamARN, call)
        if stream is None or not 0 < len(decoded.Records) <= PUT_RECORDS_COUNT:
            return None
        entries = _entries(decoded.Records, stream.max_record_bytes)
        if entries is None or (
            # A body holds more than the data and keys in it.
            len(body) > PUT_RECORDS_BYTES
            and puts.size_bytes(entries.data, entries.keys) > PUT_RECORDS_BYTES
        ):
            return None
        placed = puts.put(self._kinesis, stream, entries, call.now_ms)
        return _answer(call, _put_records_body(stream, placed), placed)

    def _put_record(self, body: bytes, call: Call) -> RawAnswer:
        decoded = _decode_put_record(body)
        stream = self._stream(decoded.StreamName, decoded.StreamARN, call)
        if stream is None:
            return None
        if decoded.ExplicitHashKey is None:
            put = single.put(self._kinesis, stream, decoded.Data, decoded.PartitionKey, call)
            if put is not None:
                return HttpResponse(200, [("Content-Type", JSON)], _put_record_body(stream, *put))
        entries = _entries((decoded,), stream.max_record_bytes)
        if entries is None:
            return None
        placed = puts.put(self._kinesis, stream, entries, call.now_ms, "PutRecord")
        if placed.refused:
            return _failed(placed.refused[0])
        return _answer(
            call, _put_record_body(stream, placed.shard_ids[0], placed.numbers[0]), placed
        )

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
        # One join: a second would copy ten mebibytes once more.
        parts: list[bytes | memoryview] = [frame.SEPARATOR] * (2 * len(got.payloads) or 1)
        parts[1::2] = got.payloads
        parts[0] = b'{"Records":['
        parts.append(f"{end}}}".encode())
        return HttpResponse(200, [("Content-Type", JSON)], b"".join(parts))

    def _put_cbor(
        self, put: hot_cbor.Put | None, call: Call, operation: str
    ) -> tuple[Stream, Placed] | None:
        if put is None or len(put.keys) > PUT_RECORDS_COUNT:
            return None
        stream = self._stream(put.name, put.arn, call)
        if stream is None or put.longest_bytes > stream.max_record_bytes:
            return None
        entries = _columns(put.data, put.keys, put.explicit_hash_keys)
        if entries is None or puts.size_bytes(put.data, put.keys) > PUT_RECORDS_BYTES:
            return None
        return stream, puts.put(self._kinesis, stream, entries, call.now_ms, operation)

    def _put_records_cbor(self, body: bytes, call: Call) -> RawAnswer:
        done = self._put_cbor(hot_cbor.decode_put_records(body), call, "PutRecords")
        if done is None:
            return None
        stream, placed = done
        answer = hot_cbor.put_records_answer(placed, _encryption_type(stream))
        return _answer(call, answer, placed, CBOR)

    def _put_record_cbor(self, body: bytes, call: Call) -> RawAnswer:
        done = self._put_cbor(hot_cbor.decode_put_record(body), call, "PutRecord")
        if done is None:
            return None
        stream, placed = done
        for refused in placed.refused.values():
            raise AwsError(refused.code, refused.message, refused.status)
        answer = hot_cbor.put_record_answer(placed, _encryption_type(stream))
        return _answer(call, answer, placed, CBOR)

    def _get_records_cbor(self, body: bytes, call: Call) -> RawAnswer:
        # Small and without times: the generic decoder is quick, and its errors are the right ones.
        request = codec_json.decode_input("kinesis", "GetRecords", body, CBOR)
        iterator, limit = request.get("ShardIterator"), request.get("Limit", GET_RECORDS_COUNT)
        if set(request) - {"ShardIterator", "Limit"} or not 0 < limit <= GET_RECORDS_COUNT:
            return None
        if not iterator or len(iterator) > SHARD_ITERATOR_CHARS:
            return None
        got = gets.get(self._kinesis, iterator, limit, call)
        rest: dict[str, Any] = {"MillisBehindLatest": got.behind_ms}
        if got.next_iterator is not None:
            rest["NextShardIterator"] = got.next_iterator
        if got.children:
            rest["ChildShards"] = got.children
        answer = hot_cbor.encode(got.payloads, rest)
        return HttpResponse(200, [("Content-Type", CBOR)], answer)


def _entries(records: Sequence[_Record | _PutRecord], max_record_bytes: int) -> Entries | None:
    """Return the columns of records that are within their limits, or None when one may not be."""
    data = [record.Data for record in records]
    keys = [record.PartitionKey for record in records]
    lengths = set(map(len, data))
    # Up to two bytes too many, for the padding: a record so near the limit goes the long way.
    if any(length & 3 for length in lengths) or max(lengths) * 3 // 4 > max_record_bytes:
        return None
    if not is_base64(data, lengths):
        return None
    return _columns(data, keys, [record.ExplicitHashKey for record in records])


def _columns(
    data: Sequence[str], keys: Sequence[str], explicit: Sequence[str | None]
) -> Entries | None:
    """Return the columns when keys are within their limits, else None. No `explicit` at all may be empty."""
    key_lengths = set(map(len, keys))
    if 0 in key_lengths or max(key_lengths) > PARTITION_KEY_CHARS:
        return None
    if not any(explicit):
        return Entries(data, keys) if "" not in explicit else None
    return Entries(data, keys, explicit) if all(map(_is_hash_key, explicit)) else None


def is_base64(data: list[str], lengths: set[int]) -> bool:
    """Whether texts of whole groups of four, of these lengths, are base64 as SDKs write it, checked over all at once.

    No other characters, no `=` but one or two at an end, and no bits before them that count for nothing: what is
    stored is what a reader's strict decoder is given. What fails here is looked at one by one on the long way.
    """
    joined = "".join(data)
    if not joined.isascii():
        return False
    left = joined.encode("ascii").translate(None, _BASE64)
    if not left:
        return True
    if left.strip(b"="):
        return False
    if len(lengths) == 1 and len(left) % len(data) == 0:
        # Of one length, so most likely with the same padding: their ends are each so many characters apart.
        (length,) = lengths
        last, before = joined[length - 1 :: length], joined[length - 2 :: length]
        if len(left) == len(data) and not last.strip("="):
            return not before.strip(_BEFORE_ONE)
        if len(left) == 2 * len(data) and not last.strip("=") and not before.strip("="):
            return not joined[length - 3 :: length].strip(_BEFORE_TWO)
    ends = ",".join([text[-3:] for text in data]) + ","
    return len(left) == ends.count("=,") + ends.count("==,") and not _LOOSE_END(ends)


def _is_hash_key(text: str | None) -> bool:
    if text is None:
        return True
    return text.isascii() and text.isdigit() and len(text) < 40 and (text[0] != "0" or text == "0")


def _encryption_type(stream: Stream) -> str | None:
    return stream.encryption_type if stream.key_id else None


def _encryption(stream: Stream) -> str:
    return f',"EncryptionType":"{stream.encryption_type}"' if stream.key_id else ""


def _put_record_body(stream: Stream, shard_id: str, number: str) -> bytes:
    encryption = _encryption(stream)
    return f'{{"ShardId":"{shard_id}","SequenceNumber":"{number}"{encryption}}}'.encode()


def _put_records_body(stream: Stream, placed: Placed) -> bytes:
    parts = ['"},{"SequenceNumber":"', "", '","ShardId":"', ""] * len(placed.numbers)
    parts[0] = '{"SequenceNumber":"'
    parts[1::4] = placed.numbers
    parts[3::4] = placed.shard_ids
    records = "".join(parts) + '"}' if not placed.refused else _results(placed)
    failed = len(placed.refused)
    return f'{{"FailedRecordCount":{failed},"Records":[{records}]{_encryption(stream)}}}'.encode()


def _results(placed: Placed) -> str:
    results: list[dict[str, str]] = [
        {"SequenceNumber": number, "ShardId": shard_id}
        for number, shard_id in zip(placed.numbers, placed.shard_ids, strict=True)
    ]
    for i, refused in placed.refused.items():
        results[i] = {"ErrorCode": refused.code, "ErrorMessage": refused.message}
    return msgspec.json.encode(results).decode()[1:-1]


def _failed(refused: Refused) -> HttpResponse:
    body = msgspec.json.encode({"__type": refused.code, "message": refused.message})
    return HttpResponse(refused.status, [("Content-Type", JSON)], body)


def _answer(call: Call, body: bytes, placed: Placed, content_type: str = JSON) -> HttpResponse:
    call.waits.extend(placed.waits)
    return HttpResponse(200, [("Content-Type", content_type)], body)
