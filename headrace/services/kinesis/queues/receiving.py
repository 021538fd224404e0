"""ReceiveQueueRecords and ReceiveDeadLetterQueueRecords: a long poll that holds no thread while it waits."""

from __future__ import annotations

import base64
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call, service_model
from headrace.aws.protocols import codec_json
from headrace.aws.protocols.service import RawAnswer
from headrace.aws.protocols.validate import validate
from headrace.aws.shapes.kinesis import QueueRecord, ReceiveQueueRecordsInput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import translate
from headrace.services.kinesis.queues.open_queue import OpenQueue, Outcome, WaitingReceive
from headrace.services.kinesis.queues.queues import not_delivering
from headrace.services.kinesis.queues.state import Received

# The operations, and whether they receive dead-letter records.
RECEIVES = {"ReceiveQueueRecords": False, "ReceiveDeadLetterQueueRecords": True}
DEFAULT_LIMIT = 10
DEFAULT_WAIT_S = 9


class _RecordJson(msgspec.Struct, gc=False, omit_defaults=True):
    ReceiptHandle: str
    RecordId: str
    Data: str
    ApproximateArrivalTimestamp: float
    FirstReceiveTimestamp: float
    ReceiveCount: int
    PartitionKey: str = ""


def answer(kinesis: Kinesis, request: HttpRequest, call: Call, operation: str) -> RawAnswer:
    """Answer a receive, or return the Future of its answer while it waits for a record. Raises AwsError."""
    # Also when the installed botocore is too old to know queues, the generic path says so.
    if request.body_file is not None or operation not in service_model("kinesis").operation_names:
        return None
    content_type = request.headers.get("content-type", codec_json.JSON_1_1)
    params = codec_json.decode_input("kinesis", operation, request.body, content_type)
    if call.permit is not None:
        where = {"account": call.account, "region": call.region}
        call.permit.ask("kinesis", operation, params, **where)
    validate("kinesis", operation, params)
    opened = find_delivering(kinesis, params["QueueARN"], call.now_ms)
    render = functools.partial(_response, opened, operation, content_type)
    receive = receive_of(opened, cast("ReceiveQueueRecordsInput", params), call, operation, render)
    check_key(kinesis, opened)
    outcome = kinesis.queues.receive(opened, receive, call.now_ms)
    if outcome == []:
        return kinesis.queues.wait(opened, receive)
    if isinstance(outcome, Exception):
        raise outcome
    call.waits.append(kinesis.queues.stored())
    return _response(opened, operation, content_type, outcome)


def receive_of(
    opened: OpenQueue,
    request: ReceiveQueueRecordsInput,
    call: Call,
    operation: str,
    render: Callable[[Outcome], Any],
) -> WaitingReceive:
    """Return the receive that a request describes."""
    visibility_s = request.get("VisibilityTimeoutSeconds", opened.queue.visibility_s)
    return WaitingReceive(
        render,
        limit=request.get("Limit", DEFAULT_LIMIT),
        visibility_ms=visibility_s * 1000,
        wait_s=request.get("WaitTimeSeconds", DEFAULT_WAIT_S),
        dead=RECEIVES[operation],
    )


def find_delivering(kinesis: Kinesis, arn: str, now_ms: int) -> OpenQueue:
    """Return a queue that is ACTIVE or UPDATING. Raises AwsError."""
    opened = kinesis.queues.find(arn, now_ms)
    status = opened.queue.status(now_ms)
    if status not in ("ACTIVE", "UPDATING"):
        raise not_delivering(opened.queue, status)
    return opened


def check_key(kinesis: Kinesis, opened: OpenQueue) -> None:
    """Raise AwsError when the KMS key of the queue's stream cannot be used."""
    stream = opened.stream
    if stream.key_id:
        kinesis.registry.keys.usable(stream.key_id, stream.account, stream.region)


def _response(
    opened: OpenQueue, operation: str, content_type: str, outcome: Outcome
) -> HttpResponse:
    """Return the answer to a receive that is over."""
    headers = [("Content-Type", codec_json.answer_type(content_type))]
    if isinstance(outcome, Exception):
        error = outcome if isinstance(outcome, AwsError) else translate(outcome)
        if error is None:
            raise outcome
        headers.append(("x-amzn-ErrorType", error.code))
        return HttpResponse(error.status, headers, codec_json.encode_error(error, content_type))
    if codec_json.is_cbor(content_type):
        output = {"QueueRecords": records_of(opened, outcome)}
        body = codec_json.encode_output("kinesis", operation, output, content_type)
        return HttpResponse(200, headers, body)
    seal = opened.receipts.seal
    rows = [
        _RecordJson(
            seal(one.shard_number, one.index, one.receipt),
            one.record.SequenceNumber,
            one.record.Data,
            one.record.ApproximateArrivalTimestamp,
            one.first_ms / 1000,
            one.receives,
            one.record.PartitionKey,
        )
        for one in outcome
    ]
    return HttpResponse(200, headers, b'{"QueueRecords":' + msgspec.json.encode(rows) + b"}")


def records_of(opened: OpenQueue, received: list[Received]) -> list[QueueRecord]:
    """Return AWS's QueueRecords.

    Assumed: the RecordId is the record's sequence number, which has its form and is the same in every queue.
    """
    return [_record(opened, one) for one in received]


def _record(opened: OpenQueue, one: Received) -> QueueRecord:
    stored = one.record
    record: QueueRecord = {
        "ReceiptHandle": opened.receipts.seal(one.shard_number, one.index, one.receipt),
        "RecordId": stored.SequenceNumber,
        "Data": base64.b64decode(stored.Data),
        "ApproximateArrivalTimestamp": _time(round(stored.ApproximateArrivalTimestamp * 1000)),
        "FirstReceiveTimestamp": _time(one.first_ms),
        "ReceiveCount": one.receives,
    }
    if stored.PartitionKey:
        record["PartitionKey"] = stored.PartitionKey
    return record


def _time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(
        microsecond=timestamp_ms % 1000 * 1000
    )


def wait_for(kinesis: Kinesis, future: Future[Any]) -> Any:
    """Return a Future's result; the calling thread waits, by the cloud's clock."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    kinesis.clock.wait(done, None)
    return future.result()
