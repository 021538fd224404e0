"""Finding and storing the stream, the consumer, the queue or the channel that a ResourceARN names."""

from typing import NotRequired, TypedDict

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.channels.state import Channel
from headrace.services.kinesis.errors import (
    consumer_not_active,
    in_use,
    invalid_argument,
    not_active,
)
from headrace.services.kinesis.queues.state import Queue
from headrace.services.kinesis.state import Consumer, Stream

Resource = Stream | Consumer | Queue | Channel


class NamesResource(TypedDict):
    """The members by which a request names a stream, a consumer, a queue or a channel."""

    ResourceARN: str
    StreamId: NotRequired[str]


def find_resource(kinesis: Kinesis, call: Call, request: NamesResource) -> tuple[Stream, Resource]:
    """Return (the stream, the resource that ResourceARN names). Raises AwsError."""
    arn = request["ResourceARN"]
    resource: Resource
    if ":queue/" in arn:
        opened = kinesis.queues.find(arn, call.now_ms)
        stream, resource = opened.stream, opened.queue
    elif ":channel/" in arn:
        order = kinesis.channels.find(arn, call.now_ms)
        stream, resource = order.stream, order.channel
    elif "/consumer/" in arn:
        stream, resource = kinesis.find_consumer(arn, call.now_ms)
    else:
        kinesis.remove_deleted()
        stream_found = kinesis.find_arn(arn)
        if stream_found is None:
            raise AwsError("ResourceNotFoundException", f"Resource {arn} not found.")
        stream, resource = stream_found, stream_found
    if request.get("StreamId") not in (None, stream.public_id):
        raise invalid_argument("StreamId does not belong to the resource that is named.")
    return stream, resource


def find_active_resource(
    kinesis: Kinesis, call: Call, request: NamesResource
) -> tuple[Stream, Resource]:
    """Do what `find_resource` does, and require that the resource is ACTIVE."""
    stream, resource = find_resource(kinesis, call, request)
    status = resource.status(call.now_ms)
    if status != "ACTIVE":
        if isinstance(resource, Queue | Channel):
            kind = type(resource).__name__
            raise in_use(f"{kind} {resource.arn} is not ACTIVE, instead in state {status}.")
        if isinstance(resource, Consumer):
            raise consumer_not_active(
                resource.name, resource.created_s, stream.name, stream.account
            )
        raise not_active(stream.name, stream.account, status)
    return stream, resource


def save_resource(kinesis: Kinesis, resource: Resource) -> None:
    """Store a changed stream, consumer, queue or channel; the change is durable when this returns."""
    if isinstance(resource, Queue):
        kinesis.queues.save(resource)
    elif isinstance(resource, Channel):
        kinesis.channels.save(resource)
    elif isinstance(resource, Consumer):
        kinesis.consumers.save(resource)
    else:
        kinesis.save(resource)
