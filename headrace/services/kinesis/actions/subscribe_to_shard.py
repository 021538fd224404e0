"""SubscribeToShard: the request; `headrace.services.kinesis.subscriptions` has what follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.aws import codec_json, event_stream
from headrace.aws.errors import AwsError
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.operation import Call, operation
from headrace.aws.service import RawAnswer
from headrace.aws.validate import validate
from headrace.services.kinesis.actions.stream_consumers import consumer_of_arn, not_active
from headrace.services.kinesis.errors import check_dry_run, invalid_argument, shard_not_found
from headrace.services.kinesis.positions import start_index
from headrace.services.kinesis.pushes import Push

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis

TARGET = "Kinesis_20131202.SubscribeToShard"


class SubscribeToShardWire:
    """Answers the operation on the wire, where its output is not one structure but a stream."""

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis

    def handle(self, request: HttpRequest) -> RawAnswer:
        """Return the stream; None for any other operation. Raises AwsError."""
        if request.headers.get("x-amz-target") != TARGET or request.call is None:
            return None
        if request.body_file is not None:
            return None
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        params = codec_json.decode_input("kinesis", "SubscribeToShard", request.body, content_type)
        validate("kinesis", "SubscribeToShard", params)
        cbor = codec_json.is_cbor(content_type)
        body = subscribe(self._kinesis, request.call, params, cbor=cbor)
        return HttpResponse(200, [("Content-Type", event_stream.CONTENT_TYPE)], body)


@operation("SubscribeToShard")
def subscribe_to_shard(kinesis: Kinesis, call: Call, request: Mapping[str, Any]) -> Any:
    """Begin a subscription; EventStream gives its messages' bytes. Source: API_SubscribeToShard."""
    return {"EventStream": subscribe(kinesis, call, request, cbor=False)}


def subscribe(kinesis: Kinesis, call: Call, request: Mapping[str, Any], *, cbor: bool) -> Push:
    """Return a new subscription's bytes. Raises AwsError."""
    stream, consumer = consumer_of_arn(kinesis, request["ConsumerARN"], call.now_ms)
    if request.get("StreamId") not in (None, stream.public_id):
        raise invalid_argument("StreamId does not belong to the stream of the consumer.")
    shard = stream.shard(request["ShardId"])
    if shard is None or shard.log is None:
        raise shard_not_found(request["ShardId"], stream.name, stream.account)
    if consumer.status(call.now_ms) != "ACTIVE":
        raise not_active(stream, consumer)
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
        stream.meter.note("SubscribeToShard.RateExceeded", 1, consumer=consumer.name)
        stream.meter.note("SubscribeToShard.Success", 0, consumer=consumer.name)
        raise
    stream.meter.note("SubscribeToShard.RateExceeded", 0, consumer=consumer.name)
    stream.meter.note("SubscribeToShard.Success", 1, consumer=consumer.name)
    return Push(kinesis.pushes, subscription)
