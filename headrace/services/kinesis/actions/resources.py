"""Finding and storing the stream or the consumer that a ResourceARN names."""

from typing import NotRequired, TypedDict

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import consumer_not_active, invalid_argument, not_active
from headrace.services.kinesis.state import Consumer, Stream


class NamesResource(TypedDict):
    """The members by which a request names a stream or a consumer."""

    ResourceARN: str
    StreamId: NotRequired[str]


def find_resource(
    kinesis: Kinesis, call: Call, request: NamesResource
) -> tuple[Stream, Stream | Consumer]:
    """Return (the stream, the resource that ResourceARN names). Raises AwsError."""
    arn = request["ResourceARN"]
    if "/consumer/" in arn:
        stream, resource = kinesis.find_consumer(arn, call.now_ms)
    else:
        kinesis.remove_deleted()
        found = kinesis.find_arn(arn)
        if found is None:
            raise AwsError("ResourceNotFoundException", f"Resource {arn} not found.")
        stream, resource = found, found
    if request.get("StreamId") not in (None, stream.public_id):
        raise invalid_argument("StreamId does not belong to the resource that is named.")
    return stream, resource


def find_active_resource(
    kinesis: Kinesis, call: Call, request: NamesResource
) -> tuple[Stream, Stream | Consumer]:
    """Do what `find_resource` does, and require that the resource is ACTIVE."""
    stream, resource = find_resource(kinesis, call, request)
    status = resource.status(call.now_ms)
    if status != "ACTIVE":
        if isinstance(resource, Consumer):
            raise consumer_not_active(
                resource.name, resource.created_s, stream.name, stream.account
            )
        raise not_active(stream.name, stream.account, status)
    return stream, resource


def save_resource(kinesis: Kinesis, resource: Stream | Consumer) -> None:
    """Store a changed stream or consumer; the change is durable when this returns."""
    if isinstance(resource, Consumer):
        kinesis.consumers.save(resource)
    else:
        kinesis.save(resource)
