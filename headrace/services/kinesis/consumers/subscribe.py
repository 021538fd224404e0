"""Starts subscriptions: reads SubscribeToShard's request and answers it over HTTP with a stream of events."""

from __future__ import annotations

from typing import cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call
from headrace.aws.protocols import codec_json, event_stream
from headrace.aws.protocols.service import RawAnswer
from headrace.aws.protocols.validate import validate
from headrace.aws.shapes.kinesis import SubscribeToShardInput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.consumers.pushes import Push
from headrace.services.kinesis.data_path.positions import start_index
from headrace.services.kinesis.errors import (
    check_dry_run,
    consumer_not_active,
    invalid_argument,
    shard_not_found,
)


def answer(kinesis: Kinesis, request: HttpRequest, call: Call) -> RawAnswer:
    """Return SubscribeToShard's response, or None when the body is so large that it is in a file. Raises AwsError."""
    if request.body_file is not None:
        return None
    content_type = request.headers.get("content-type", codec_json.JSON_1_1)
    params = codec_json.decode_input("kinesis", "SubscribeToShard", request.body, content_type)
    if call.permit is not None:
        where = {"account": call.account, "region": call.region}
        call.permit.ask("kinesis", "SubscribeToShard", params, **where)
    validate("kinesis", "SubscribeToShard", params)
    cbor = codec_json.is_cbor(content_type)
    body = subscribe(kinesis, call, cast("SubscribeToShardInput", params), cbor=cbor)
    return HttpResponse(200, [("Content-Type", event_stream.CONTENT_TYPE)], body)


def subscribe(kinesis: Kinesis, call: Call, request: SubscribeToShardInput, *, cbor: bool) -> Push:
    """Start a subscription and return the generator of its messages. Raises AwsError."""
    stream, consumer = kinesis.find_consumer(request["ConsumerARN"], call.now_ms)
    if request.get("StreamId") not in (None, stream.public_id):
        raise invalid_argument("StreamId does not belong to the stream of the consumer.")
    shard = stream.shard(request["ShardId"])
    if shard is None or shard.log is None:
        raise shard_not_found(request["ShardId"], stream.name, stream.account)
    if consumer.status(call.now_ms) != "ACTIVE":
        raise consumer_not_active(consumer.name, consumer.created_s, stream.name, stream.account)
    start = request["StartingPosition"]
    index = start_index(
        stream,
        shard,
        start["Type"],
        start.get("SequenceNumber"),
        start.get("Timestamp"),
        call.now_ms,
        "SubscribeToShard",
    )
    check_dry_run(request)
    try:
        if kinesis.throttle is not None:
            kinesis.throttle.check_call("SubscribeToShard", request, call)
        subscription = kinesis.subscriptions.open(
            stream, shard, consumer, index, cbor=cbor, now_ms=call.now_ms
        )
    except AwsError:
        stream.counters.note("SubscribeToShard.RateExceeded", 1, consumer=consumer.name)
        stream.counters.note("SubscribeToShard.Success", 0, consumer=consumer.name)
        raise
    stream.counters.note("SubscribeToShard.RateExceeded", 0, consumer=consumer.name)
    stream.counters.note("SubscribeToShard.Success", 1, consumer=consumer.name)
    return Push(kinesis.pushes, subscription)
