"""PutRecords for requests that `data_path/json_wire.py` and `cbor_wire.py` do not answer themselves."""

import base64
from collections.abc import Sequence

from headrace.aws.calls.errors import validation_error
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import (
    PutRecordInput,
    PutRecordsInput,
    PutRecordsOutput,
    PutRecordsRequestEntry,
    PutRecordsResultEntry,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.put import Entries, put_many, size_bytes
from headrace.services.kinesis.errors import check_dry_run, invalid_argument, stream_not_found
from headrace.services.kinesis.limits import PUT_RECORDS_BYTES
from headrace.services.kinesis.state import Stream


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
