"""Answers requests before the generic decoder reads them: puts, reads and receives, and SubscribeToShard.

Answers requests with a method, Content-Type or target that Kinesis does not have; AWS does not read their bodies.

Source: kinesalite's index.js and test/connection.js, whose author compared it with Kinesis (observed).

Finds the stream and the shard that a request names, so that injected faults can be limited to them.

ReceiveQueueRecords and ReceiveDeadLetterQueueRecords: a long poll that holds no thread while it waits.
"""

from __future__ import annotations

import base64
import functools
import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call, service_model
from headrace.aws.protocols import codec_json
from headrace.aws.protocols.codec_json import CBOR_1_1, JSON_1_1
from headrace.aws.protocols.service import RawAnswer
from headrace.aws.protocols.validate import validate
from headrace.aws.shapes.kinesis import QueueRecord, ReceiveQueueRecordsInput
from headrace.services.kinesis.actions import stream_consumers
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path import wire
from headrace.services.kinesis.data_path.get import ExpiredIterator
from headrace.services.kinesis.data_path.put import explicit_hash_key
from headrace.services.kinesis.data_path.wire import CBOR, JSON
from headrace.services.kinesis.errors import translate
from headrace.services.kinesis.queues.open_queue import OpenQueue, Outcome, WaitingReceive
from headrace.services.kinesis.queues.queues import not_delivering
from headrace.services.kinesis.queues.state import Received
from headrace.services.kinesis.state import Stream, hash_key_of, shard_id_of, shard_number_of

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


def fault_target(
    kinesis: Kinesis, request: HttpRequest, action: str, call: Call
) -> tuple[str, str]:
    """Return the stream's name and the shard's id; each is "" when the request has none. Raises AwsError.

    PutRecords has no shard, since its records go to many shards.
    """
    content_type = request.headers.get("content-type", codec_json.JSON_1_1)
    params = codec_json.decode_input("kinesis", action, request.body, content_type)
    if action == "GetRecords":
        return _of_iterator(kinesis, params, call)
    if "QueueARN" in params:
        opened = kinesis.queues.by_arn(str(params["QueueARN"]))
        return ("", "") if opened is None else (opened.stream.name, "")
    if "ChannelARN" in params:
        order = kinesis.channels.by_arn(str(params["ChannelARN"]))
        return ("", "") if order is None else (order.stream.name, "")
    name = _stream_name(params)
    shard = ""
    if action == "PutRecord":
        stream = kinesis.streams.get((call.account, call.region, name))
        shard = "" if stream is None else _shard_of_key(stream, params)
    elif "ShardId" in params:
        number = shard_number_of(params["ShardId"])
        shard = "" if number is None else shard_id_of(number)
    elif "ShardToSplit" in params or "ShardToMerge" in params:
        shard = params.get("ShardToSplit", params.get("ShardToMerge", ""))
    return name, shard


def shards_by_stream(kinesis: Kinesis) -> dict[str, set[str]]:
    """Return the ids of all open and closed shards of every account and region, by stream name."""
    shards: dict[str, set[str]] = {}
    with kinesis.lock:
        for stream in kinesis.streams.values():
            shards.setdefault(stream.name, set()).update(s.shard_id for s in stream.shards)
    return shards


def _stream_name(params: Mapping[str, Any]) -> str:
    for member in ("StreamARN", "ConsumerARN", "ResourceARN"):
        if member in params:
            return str(params[member]).partition("stream/")[2].partition("/")[0]
    return str(params.get("StreamName", ""))


def _of_iterator(kinesis: Kinesis, params: Mapping[str, Any], call: Call) -> tuple[str, str]:
    try:
        iterator = kinesis.iterators.open(params.get("ShardIterator", ""), call.now_ms)
    except ExpiredIterator:
        return "", ""
    stream = kinesis.by_id.get(iterator.stream_id)
    return ("", "") if stream is None else (stream.name, shard_id_of(iterator.shard_number))


def _shard_of_key(stream: Stream, params: Mapping[str, Any]) -> str:
    if stream.distribution == "AUTO":
        return ""  # This stream spreads records over all shards, whatever their keys.
    opened, starts = stream.routes
    text = params.get("ExplicitHashKey")
    hash_key = hash_key_of(params["PartitionKey"]) if text is None else explicit_hash_key(text)
    return opened[bisect_right(starts, hash_key) - 1].shard_id if opened else ""


_NO_NAME = b"""<AccessDeniedException>
  <Message>Unable to determine service/operation name to be authorized</Message>
</AccessDeniedException>
"""
_OLD_JSON = "application/json"


def refusal_of(request: HttpRequest) -> HttpResponse | None:
    """Return AWS's response to a request in no protocol of Kinesis, or None for other requests.

    headrace is more lenient than AWS, which answers 404: a request with a target and any Content-Type but
    application/json is read as JSON, because programs that call a local cloud by hand often send text/plain or none.
    """
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if request.method != "POST":
        return HttpResponse(403, [], _NO_NAME)
    if kind == _OLD_JSON:
        return _old_json(request)
    if kind not in (JSON_1_1, CBOR_1_1) and "." not in headers.get("x-amz-target", "").strip("."):
        return HttpResponse(403, [], _NO_NAME)
    return None


def _old_json(request: HttpRequest) -> HttpResponse:
    """Answer in AWS's first JSON protocol, which has no operations any more."""
    try:
        is_read = not request.body or isinstance(msgspec.json.decode(request.body), (dict, list))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        is_read = False
    prefix = "com.amazon.coral.service#"
    output = (
        {"__type": f"{prefix}UnknownOperationException", "message": None}
        if is_read
        else {"__type": f"{prefix}SerializationException", "Message": None}
    )
    body = msgspec.json.encode({"Output": output, "Version": "1.0"})
    return HttpResponse(200, [("Content-Type", _OLD_JSON)], body)


_PREFIX = "Kinesis_20131202."
_SUBSCRIBE = _PREFIX + "SubscribeToShard"
_USUAL_JSON = {
    _PREFIX + "PutRecords": wire.put_json_records,
    _PREFIX + "PutRecord": wire.put_json_record,
    _PREFIX + "GetRecords": wire.get_json_records,
}
_USUAL_CBOR = {
    _PREFIX + "PutRecords": wire.put_cbor_records,
    _PREFIX + "PutRecord": wire.put_cbor_record,
    _PREFIX + "GetRecords": wire.get_cbor_records,
}


class RawRequests:
    """The service's `raw` hook. Thread-safe."""

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis

    def answer_raw(self, request: HttpRequest) -> RawAnswer:
        """Return the response to a request, or None when its action must answer. Raises AwsError."""
        target = request.headers.get("x-amz-target", "")
        content_type = request.headers.get("content-type")
        call = request.call
        if call is None:
            return None
        if content_type == JSON:
            if (usual := _USUAL_JSON.get(target)) is not None:
                try:
                    return usual(self._kinesis, request.body, call)
                except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
                    return None
        elif content_type == CBOR:
            if (usual := _USUAL_CBOR.get(target)) is not None:
                return usual(self._kinesis, request.body, call)
        else:
            refusal = refusal_of(request)
            if refusal is not None:
                return refusal
            if target in _USUAL_JSON:
                return None
        operation = target.removeprefix(_PREFIX)
        if operation in RECEIVES and target != operation:
            return answer(self._kinesis, request, call, operation)
        return (
            stream_consumers.answer(self._kinesis, request, call) if target == _SUBSCRIBE else None
        )
