"""The fast path of PutRecord and PutRecordBatch: writes the base64 text of usual requests to the journal undecoded.

An unusual request gets None and goes to its action . A property test
(tests/api/firehose/test_hot_path.py) checks that both give the same answers.

PutRecord and PutRecordBatch: direct puts.
"""

from __future__ import annotations

from itertools import compress

import msgspec

from headrace.aws.calls.errors import validation_error
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call, operation
from headrace.aws.protocols.encodings import count_padding
from headrace.aws.protocols.service import RawAnswer
from headrace.aws.shapes.firehose import (
    PutRecordBatchInput,
    PutRecordBatchOutput,
    PutRecordInput,
    PutRecordOutput,
)
from headrace.services.firehose.backend import Firehose
from headrace.services.firehose.errors import (
    BATCH_BYTES,
    BATCH_RECORDS,
    RECORD_BYTES,
    SLOW_DOWN,
    THROTTLED,
    build_slow_down_error,
    invalid,
    invalid_source,
    not_found,
)
from headrace.services.firehose.records import PLACES
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


JSON = "application/x-amz-json-1.1"
_BATCH, _ONE = "Firehose_20150804.PutRecordBatch", "Firehose_20150804.PutRecord"
_CONTENT_TYPE = ("Content-Type", JSON)


class _Record(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    Data: str


class _PutRecordBatch(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    DeliveryStreamName: str
    Records: list[_Record]


class _PutRecord(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    DeliveryStreamName: str
    Record: _Record


_decode_batch = msgspec.json.Decoder(_PutRecordBatch).decode
_decode_one = msgspec.json.Decoder(_PutRecord).decode


class RawRequests:
    """The service's `raw` hook. Thread-safe."""

    def __init__(self, firehose: Firehose) -> None:
        self._firehose = firehose

    def answer_raw(self, request: HttpRequest) -> RawAnswer:
        """Answer a usual put; return None if its action must answer. Raises AwsError, LogFull, OSError."""
        target = request.headers.get("x-amz-target", "")
        call = request.call
        if target not in (_BATCH, _ONE) or call is None or request.body_file is not None:
            return None
        if request.headers.get("content-type") != JSON:
            return None
        try:
            if target == _ONE:
                one = _decode_one(request.body)
                return self._put(one.DeliveryStreamName, [one.Record.Data], call, is_batch=False)
            batch = _decode_batch(request.body)
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        datas = [record.Data for record in batch.Records]
        return self._put(batch.DeliveryStreamName, datas, call, is_batch=True)

    def _put(self, name: str, datas: list[str], call: Call, *, is_batch: bool) -> RawAnswer:
        firehose = self._firehose
        stream = firehose.usual(call.account, call.region, name, call.now_ms)
        size_bytes = _count_decoded_bytes(datas)
        if stream is None or size_bytes is None or size_bytes > BATCH_BYTES:
            return None
        operation = "PutRecordBatch" if is_batch else "PutRecord"
        if call.permit is not None:
            call.permit.ask(
                "firehose",
                operation,
                {"DeliveryStreamName": name},
                account=call.account,
                region=call.region,
            )
        number = firehose.put_texts(stream, datas, size_bytes, call.now_ms, operation)
        encrypted = "true" if stream.encryption_status(call.now_ms) == "ENABLED" else "false"
        if is_batch:
            body = _batch_body(number, len(datas), encrypted)
        else:
            body = f'{{"RecordId":"{number}{PLACES[0]}","Encrypted":{encrypted}}}'
        return HttpResponse(200, [_CONTENT_TYPE], body.encode())


def _count_decoded_bytes(datas: list[str]) -> int | None:
    """Return the decoded size of all texts; None when the action must check further."""
    if not 0 < len(datas) <= BATCH_RECORDS:
        return None
    lengths = set(map(len, datas))
    if any(length & 3 for length in lengths) or max(lengths) * 3 // 4 > RECORD_BYTES:
        return None
    padding = count_padding(datas, lengths)
    return None if padding is None else sum(map(len, datas)) * 3 // 4 - padding


def _batch_body(number: str, count: int, encrypted: str) -> str:
    ids = f'"}},{{"RecordId":"{number}'.join(PLACES[:count])
    start = f'{{"FailedPutCount":0,"Encrypted":{encrypted},"RequestResponses":['
    return f'{start}{{"RecordId":"{number}{ids}"}}]}}'
