"""RegisterStreamConsumer, DeregisterStreamConsumer, DescribeStreamConsumer and ListStreamConsumers."""

from datetime import UTC, datetime
from typing import NotRequired, TypedDict

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import Consumer as ConsumerShape
from headrace.aws.shapes.kinesis import (
    DeregisterStreamConsumerInput,
    DescribeStreamConsumerInput,
    DescribeStreamConsumerOutput,
    ListStreamConsumersInput,
    ListStreamConsumersOutput,
    RegisterStreamConsumerInput,
    RegisterStreamConsumerOutput,
)
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import (
    consumer_not_active,
    consumer_not_found,
    invalid_argument,
)
from headrace.services.kinesis.limits import LIST_CONSUMERS_DEFAULT
from headrace.services.kinesis.quotas import consumer_quota
from headrace.services.kinesis.state import Consumer, Stream
from headrace.services.kinesis.tagging import check_tags


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
