"""PutRecord, PutRecords, GetRecords and GetShardIterator.

The puts and GetRecords are for requests that `data_path/wire.py` does not answer.
GetShardIterator has all five types of iterator.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.aws.calls.errors import AwsError, validation_error
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    GetRecordsInput,
    GetRecordsOutput,
    GetShardIteratorInput,
    GetShardIteratorOutput,
    PutRecordInput,
    PutRecordOutput,
    PutRecordsInput,
    PutRecordsOutput,
    PutRecordsRequestEntry,
    PutRecordsResultEntry,
    Record,
)
from headrace.services.kinesis.actions.shards import check_shard_id, stream_name_of
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.get import ExpiredIterator, start_index
from headrace.services.kinesis.data_path.put import Entries, put_many, size_bytes
from headrace.services.kinesis.errors import (
    GET_RECORDS_COUNT,
    PUT_RECORDS_BYTES,
    check_dry_run,
    invalid_argument,
    shard_absent,
    stream_not_found,
)
from headrace.services.kinesis.state import Stream, shard_id_of
from headrace.store import sequence


@operation("GetShardIterator")
def get_shard_iterator(
    kinesis: Kinesis, call: Call, request: GetShardIteratorInput
) -> GetShardIteratorOutput:
    """Return a shard iterator, which expires after five minutes. Source: API_GetShardIterator."""
    number = check_shard_id(request["ShardId"], request, call)
    absent = shard_absent(shard_id_of(number), stream_name_of(request), call.account)
    try:
        stream = kinesis.find(call.account, call.region, request)
    except AwsError as error:
        raise (absent if error.code == absent.code else error) from error
    shard = stream.shard(request["ShardId"])
    if shard is None or shard.log is None or stream.status(call.now_ms) == "CREATING":
        raise absent
    index = start_index(
        stream,
        shard,
        request["ShardIteratorType"],
        request.get("StartingSequenceNumber"),
        request.get("Timestamp"),
        call.now_ms,
        "GetShardIterator",
    )
    check_dry_run(request)
    return {"ShardIterator": kinesis.iterators.seal(stream, shard.number, index, call.now_ms)}


@operation("GetRecords")
def get_records(kinesis: Kinesis, call: Call, request: GetRecordsInput) -> GetRecordsOutput:
    """Read records from a shard iterator. Source: API_GetRecords."""
    _check_stream(kinesis, call, request)
    limit = request.get("Limit", GET_RECORDS_COUNT)
    got = kinesis.iterators.get(request["ShardIterator"], limit, call)
    check_dry_run(request)
    answer: GetRecordsOutput = {
        "Records": [record for payload in got.payloads for record in _records(payload)],
        "MillisBehindLatest": got.behind_ms,
    }
    if got.next_iterator is not None:
        answer["NextShardIterator"] = got.next_iterator
    if got.children:
        answer["ChildShards"] = got.children
    return answer


def _check_stream(kinesis: Kinesis, call: Call, request: GetRecordsInput) -> None:
    """Raise AwsError when the request names a stream that does not exist, or is not the iterator's."""
    if "StreamARN" not in request and "StreamId" not in request:
        return
    stream = kinesis.find(call.account, call.region, request)
    try:
        iterator = kinesis.iterators.open(request["ShardIterator"], call.now_ms)
    except ExpiredIterator:
        return  # The read that follows raises the error for an invalid iterator.
    if iterator.stream_name != stream.name:
        raise invalid_argument("ShardIterator was not given for the stream that is named.")


def _records(payload: bytes | memoryview) -> list[Record]:
    records: list[Any] = msgspec.json.decode(b"".join((b"[", payload, b"]")))
    for record in records:
        milliseconds = round(record["ApproximateArrivalTimestamp"] * 1000)
        record["ApproximateArrivalTimestamp"] = datetime.fromtimestamp(
            milliseconds // 1000, UTC
        ).replace(microsecond=milliseconds % 1000 * 1000)
        record["Data"] = base64.b64decode(record["Data"])
    return records


@operation("PutRecords")
def put_records(kinesis: Kinesis, call: Call, request: PutRecordsInput) -> PutRecordsOutput:
    """Store up to 500 records; within a shard they keep the request's order. Source: API_PutRecords."""
    stream = find_writable(kinesis, call, request)
    for number, record in enumerate(request["Records"], 1):
        check_size(record["Data"], stream, f"records.{number}.member.data")
        check_key(record.get("PartitionKey"), stream, f"records.{number}.member.partitionKey")
    entries = entries_of(request["Records"])
    if size_bytes(entries.data, entries.keys) > PUT_RECORDS_BYTES:
        raise invalid_argument(f"Records size exceeds {PUT_RECORDS_BYTES // 1024**2} MB limit")
    check_dry_run(request)
    placed = put_many(kinesis, stream, entries, call.now_ms)
    call.waits.extend(placed.waits)
    records: list[PutRecordsResultEntry] = [
        {"SequenceNumber": number, "ShardId": shard_id}
        for number, shard_id in zip(placed.numbers, placed.shard_ids, strict=True)
    ]
    for i, refused in placed.refused.items():
        records[i] = {"ErrorCode": refused.code, "ErrorMessage": refused.message}
    answer: PutRecordsOutput = {"FailedRecordCount": len(placed.refused), "Records": records}
    if stream.key_id:
        answer["EncryptionType"] = stream.encryption_type
    return answer


def find_writable(
    kinesis: Kinesis, call: Call, request: PutRecordInput | PutRecordsInput
) -> Stream:
    """Return the stream to put to; a stream that is CREATING counts as missing. Raises AwsError."""
    stream = kinesis.find(call.account, call.region, request)
    if stream.status(call.now_ms) == "CREATING":
        raise stream_not_found(stream.name, stream.account)
    return stream


def check_size(data: bytes, stream: Stream, path: str) -> None:
    """Raise AWS's validation error when a record is larger than the stream's maximum record size."""
    if len(data) > stream.max_record_bytes:
        raise validation_error(
            f"1 validation error detected: Value at '{path}' failed to satisfy constraint:"
            f" Member must have length less than or equal to {stream.max_record_bytes}"
        )


def check_key(key: str | None, stream: Stream, path: str) -> None:
    """Raise AWS's validation error when a record has no partition key and the stream chooses shards by key."""
    if key is None and stream.distribution == "USER_PARTITION_KEY":
        raise validation_error(
            f"1 validation error detected: Value null at '{path}' failed to satisfy constraint:"
            " Member must not be null"
        )


def entries_of(records: Sequence[PutRecordInput | PutRecordsRequestEntry]) -> Entries:
    """Return the columns of checked records (Data as bytes, PartitionKey, ExplicitHashKey).

    A stream that spreads records evenly takes records without a key; their stored key is empty (assumed).
    """
    explicit = [record.get("ExplicitHashKey") for record in records]
    return Entries(
        data=[base64.b64encode(record["Data"]).decode() for record in records],
        keys=[record.get("PartitionKey") or "" for record in records],
        explicit_hash_keys=explicit if any(explicit) else None,
    )


@operation("PutRecord")
def put_record(kinesis: Kinesis, call: Call, request: PutRecordInput) -> PutRecordOutput:
    """Store one record. Source: API_PutRecord."""
    stream = find_writable(kinesis, call, request)
    check_size(request["Data"], stream, "data")
    ordering = request.get("SequenceNumberForOrdering")
    if ordering is not None:
        _check_ordering(ordering, stream, call.now_ms)
    check_key(request.get("PartitionKey"), stream, "partitionKey")
    entries = entries_of([request])
    check_dry_run(request)
    placed = put_many(kinesis, stream, entries, call.now_ms, "PutRecord")
    call.waits.extend(placed.waits)
    for refused in placed.refused.values():
        raise AwsError(refused.code, refused.message, refused.status)
    answer: PutRecordOutput = {
        "ShardId": placed.shard_ids[0],
        "SequenceNumber": placed.numbers[0],
    }
    if stream.key_id:
        answer["EncryptionType"] = stream.encryption_type
    return answer


def _check_ordering(text: str, stream: Stream, now_ms: int) -> None:
    try:
        number = sequence.parse(text)
    except sequence.InvalidSequence:
        number = None
    # A child shard's creation time is later than its parent's, so it and its sequence numbers may lie in the future.
    latest_s = max(now_ms // 1000, *(shard.created_s for shard in stream.shards))
    if number is None or number.seconds > latest_s:
        raise invalid_argument(
            f"ExclusiveMinimumSequenceNumber {text} used in PutRecord on stream {stream.name}"
            f" under account {stream.account} is invalid."
        )
