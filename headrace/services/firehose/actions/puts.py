"""PutRecord and PutRecordBatch: direct puts."""

from itertools import compress

from headrace.aws.calls.errors import validation_error
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.firehose import (
    PutRecordBatchInput,
    PutRecordBatchOutput,
    PutRecordInput,
    PutRecordOutput,
)
from headrace.services.firehose.backend import Firehose
from headrace.services.firehose.errors import invalid, invalid_source, not_found
from headrace.services.firehose.limits import (
    BATCH_BYTES,
    RECORD_BYTES,
    SLOW_DOWN,
    THROTTLED,
    build_slow_down_error,
)
from headrace.services.firehose.state import DeliveryStream

# The caller when CloudWatch Logs delivers the log events of a subscription.
LOGS_SESSION = "CloudWatchLogs"


@operation("PutRecord")
def put_record(firehose: Firehose, call: Call, request: PutRecordInput) -> PutRecordOutput:
    """Store one record; durable when this returns. Source: API_PutRecord."""
    stream = _find_direct_stream(firehose, call, request["DeliveryStreamName"])
    data = request["Record"]["Data"]
    _check_size(data, "record.data")
    if not all(firehose.admit(stream, [data], call.now_ms)):
        raise build_slow_down_error()
    record_id = firehose.put(stream, [data], call.now_ms, "PutRecord")[0]
    return {"RecordId": record_id, "Encrypted": stream.encryption_status(call.now_ms) == "ENABLED"}


@operation("PutRecordBatch")
def put_record_batch(
    firehose: Firehose, call: Call, request: PutRecordBatchInput
) -> PutRecordBatchOutput:
    """Store up to 500 records and 4 MiB, all or none except records over a quota. Source: API_PutRecordBatch."""
    stream = _find_direct_stream(firehose, call, request["DeliveryStreamName"])
    datas = [record["Data"] for record in request["Records"]]
    for number, data in enumerate(datas, 1):
        _check_size(data, f"records.{number}.member.data")
    if sum(map(len, datas)) > BATCH_BYTES:
        raise invalid("Records size exceeds 4 MB limit")
    admitted = firehose.admit(stream, datas, call.now_ms)
    taken = list(compress(datas, admitted))
    # The request succeeds even if all records fail (observed: github.com/awslabs/amazon-kinesis-agent/issues/29).
    ids = iter(firehose.put(stream, taken, call.now_ms, "PutRecordBatch") if taken else ())
    return {
        "FailedPutCount": admitted.count(False),
        "Encrypted": stream.encryption_status(call.now_ms) == "ENABLED",
        "RequestResponses": [
            {"RecordId": next(ids)}
            if passes
            else {"ErrorCode": THROTTLED, "ErrorMessage": SLOW_DOWN}
            for passes in admitted
        ],
    }


def _find_direct_stream(firehose: Firehose, call: Call, name: str) -> DeliveryStream:
    stream = firehose.present(call.account, call.region, name)
    if stream.status(call.now_ms) != "ACTIVE":
        raise not_found(name, call.account)  # As on AWS (observed by others, 2026).
    if stream.kind != "DirectPut":
        raise invalid(
            "This operation is not permitted on KinesisStreamAsSource delivery stream type."
        )
    if "Decompression" in stream.processors:
        acting = call.acting
        if acting is None or acting.session != LOGS_SESSION:
            raise invalid_source()
    if stream.encryption_status(call.now_ms) == "ENABLED":
        firehose.keys.require(stream)
    return stream


def _check_size(data: bytes, path: str) -> None:
    if len(data) > RECORD_BYTES:
        raise validation_error(
            f"1 validation error detected: Value at '{path}' failed to satisfy constraint:"
            f" Member must have length less than or equal to {RECORD_BYTES}"
        )
