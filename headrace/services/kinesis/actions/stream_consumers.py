"""Consumers of a stream: register, deregister, describe, list, and subscribe, over HTTP and in process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NotRequired, TypedDict, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call, operation
from headrace.aws.protocols import codec_json, encodings
from headrace.aws.protocols.service import RawAnswer
from headrace.aws.protocols.validate import validate
from headrace.aws.shapes.kinesis import Consumer as ConsumerShape
from headrace.aws.shapes.kinesis import (
    DeregisterStreamConsumerInput,
    DescribeStreamConsumerInput,
    DescribeStreamConsumerOutput,
    ListStreamConsumersInput,
    ListStreamConsumersOutput,
    RegisterStreamConsumerInput,
    RegisterStreamConsumerOutput,
    SubscribeToShardInput,
)
from headrace.services.kinesis.actions.resources import check_tags
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.get import start_index
from headrace.services.kinesis.errors import (
    LIST_CONSUMERS_DEFAULT,
    check_dry_run,
    consumer_not_active,
    consumer_not_found,
    invalid_argument,
    shard_not_found,
)
from headrace.services.kinesis.pushes import Push
from headrace.services.kinesis.resharding import consumer_quota
from headrace.services.kinesis.state import Consumer, Stream


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
    return HttpResponse(200, [("Content-Type", encodings.CONTENT_TYPE)], body)


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


@operation("SubscribeToShard")
def subscribe_to_shard(
    kinesis: Kinesis, call: Call, request: SubscribeToShardInput
) -> dict[str, Push]:
    """Start a subscription; EventStream yields its encoded messages. Source: API_SubscribeToShard."""
    return {"EventStream": subscribe(kinesis, call, request, cbor=False)}


@operation("RegisterStreamConsumer")
def register_stream_consumer(
    kinesis: Kinesis, call: Call, request: RegisterStreamConsumerInput
) -> RegisterStreamConsumerOutput:
    """Register a consumer for enhanced fan-out. Source: API_RegisterStreamConsumer."""
    tags = dict(request.get("Tags", {}))
    check_tags({}, tags, request["ConsumerName"], call.account, "consumer")
    with kinesis.lock:
        stream = kinesis.find_active(call.account, call.region, request, call.now_ms)
        consumer = kinesis.consumers.register(
            stream,
            request["ConsumerName"],
            tags,
            quota=consumer_quota(kinesis, stream, call.now_ms),
            queues=len(kinesis.queues.of_stream(stream, call.now_ms)),
            now_ms=call.now_ms,
        )
    return {"Consumer": _consumer(consumer, call.now_ms)}


@operation("DeregisterStreamConsumer")
def deregister_stream_consumer(
    kinesis: Kinesis, call: Call, request: DeregisterStreamConsumerInput
) -> None:
    """Deregister a consumer; its subscriptions end. Source: API_DeregisterStreamConsumer."""
    with kinesis.lock:
        stream, consumer = find_consumer(kinesis, call, request)
        if consumer.status(call.now_ms) == "DELETING":
            raise consumer_not_active(
                consumer.name, consumer.created_s, stream.name, stream.account
            )
        kinesis.consumers.deregister(consumer, call.now_ms)
    kinesis.wake(stream)


@operation("DescribeStreamConsumer")
def describe_stream_consumer(
    kinesis: Kinesis, call: Call, request: DescribeStreamConsumerInput
) -> DescribeStreamConsumerOutput:
    """Return a consumer. Source: API_DescribeStreamConsumer."""
    stream, consumer = find_consumer(kinesis, call, request)
    return {"ConsumerDescription": {**_consumer(consumer, call.now_ms), "StreamARN": stream.arn}}


@operation("ListStreamConsumers")
def list_stream_consumers(
    kinesis: Kinesis, call: Call, request: ListStreamConsumersInput
) -> ListStreamConsumersOutput:
    """Return a page of a stream's consumers, sorted by name. Source: API_ListStreamConsumers."""
    stream = kinesis.find(call.account, call.region, request)
    token = request.get("NextToken")
    if token is not None and "StreamCreationTimestamp" in request:
        raise invalid_argument("NextToken and StreamCreationTimestamp cannot be provided together.")
    check_creation(stream, request)
    page, next_token = kinesis.tokens.cut_page(
        "ListStreamConsumers",
        kinesis.consumers.of_stream(stream, call.now_ms),
        lambda consumer: consumer.name,
        token=token,
        limit=min(request.get("MaxResults", LIST_CONSUMERS_DEFAULT), LIST_CONSUMERS_DEFAULT),
        now_ms=call.now_ms,
        scope=stream.stream_id,
    )
    answer: ListStreamConsumersOutput = {
        "Consumers": [_consumer(consumer, call.now_ms) for consumer in page]
    }
    if next_token is not None:
        answer["NextToken"] = next_token
    return answer


class NamesCreation(TypedDict):
    """The member by which a request tells streams of one name apart."""

    StreamCreationTimestamp: NotRequired[datetime]


def check_creation(stream: Stream, request: NamesCreation) -> None:
    """Raise ResourceNotFoundException unless StreamCreationTimestamp is the creation time of this stream."""
    stream_creation_timestamp = request.get("StreamCreationTimestamp")
    # Responses show a stream's creation time in whole seconds.
    if (
        stream_creation_timestamp is not None
        and int(stream_creation_timestamp.timestamp()) != stream.created_ms // 1000
    ):
        raise AwsError(
            "ResourceNotFoundException",
            f"Stream {stream.name} under account {stream.account} with creation timestamp"
            f" {int(stream_creation_timestamp.timestamp())} not found.",
        )


def find_consumer(
    kinesis: Kinesis,
    call: Call,
    request: DeregisterStreamConsumerInput | DescribeStreamConsumerInput,
) -> tuple[Stream, Consumer]:
    """Return the consumer that ConsumerARN, or StreamARN and ConsumerName, names. Raises AwsError."""
    arn, name = request.get("ConsumerARN"), request.get("ConsumerName")
    if arn is None and (name is None or "StreamARN" not in request):
        raise invalid_argument(
            "Either ConsumerARN or both StreamARN and ConsumerName should be specified."
        )
    if arn is None:
        stream = kinesis.find(call.account, call.region, request)
        consumer = kinesis.consumers.named(stream, str(name), call.now_ms)
        if consumer is None:
            raise consumer_not_found(str(name), stream.name, stream.account)
        return stream, consumer
    stream, consumer = kinesis.find_consumer(arn, call.now_ms)
    if request.get("StreamARN") not in (None, stream.arn) or name not in (None, consumer.name):
        raise invalid_argument("ConsumerARN, StreamARN and ConsumerName do not name one consumer.")
    return stream, consumer


def _consumer(consumer: Consumer, now_ms: int) -> ConsumerShape:
    return {
        "ConsumerName": consumer.name,
        "ConsumerARN": consumer.arn,
        "ConsumerStatus": consumer.status(now_ms),
        "ConsumerCreationTimestamp": datetime.fromtimestamp(consumer.created_s, UTC),
    }
