"""PutRecord for requests that `data_path/json_wire.py` and `cbor_wire.py` do not answer themselves."""

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import PutRecordInput, PutRecordOutput
from headrace.services.kinesis.actions.put_records import (
    check_key,
    check_size,
    entries_of,
    find_writable,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.put import put_many
from headrace.services.kinesis.errors import check_dry_run, invalid_argument
from headrace.services.kinesis.state import Stream
from headrace.store import sequence


@operation("PutRecord")
def put_record(kinesis: Kinesis, call: Call, request: PutRecordInput) -> PutRecordOutput:
    """Store one record. Source: API_PutRecord."""
    stream = find_writable(kinesis, call, request)
    check_size(request["Data"], stream, "data")
    ordering = request.get("SequenceNumberForOrdering")
    if ordering is not None:
        _check_ordering(ordering, stream, call.now_ms)
    check_key(request.get("PartitionKey"), stream, "partitionKey")
    check_dry_run(request)
    placed = put_many(kinesis, stream, entries_of([request]), call.now_ms, "PutRecord")
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
