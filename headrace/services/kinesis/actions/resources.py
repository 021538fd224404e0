"""What ResourceARN names: a stream, or a consumer of one."""

from collections.abc import Mapping
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call
from headrace.services.kinesis.actions.stream_consumers import consumer_of_arn, not_active
from headrace.services.kinesis.consumers import Consumer
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.errors import not_active as stream_not_active
from headrace.services.kinesis.service import Kinesis
from headrace.services.kinesis.state import Stream


def find_resource(
    kinesis: Kinesis, call: Call, request: Mapping[str, Any]
) -> tuple[Stream, Stream | Consumer]:
    """Return (the stream, the resource that ResourceARN names). Raises AwsError."""
    arn = request["ResourceARN"]
    if "/consumer/" in arn:
        stream, resource = consumer_of_arn(kinesis, arn, call.now_ms)
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
    kinesis: Kinesis, call: Call, request: Mapping[str, Any]
) -> tuple[Stream, Stream | Consumer]:
    """As `find_resource`, for what only an ACTIVE resource takes."""
    stream, resource = find_resource(kinesis, call, request)
    status = resource.status(call.now_ms)
    if status != "ACTIVE":
        if isinstance(resource, Consumer):
            raise not_active(stream, resource)
        raise stream_not_active(stream.name, stream.account, status)
    return stream, resource


def save_resource(kinesis: Kinesis, resource: Stream | Consumer) -> None:
    """Store a changed resource; durable when this returns."""
    if isinstance(resource, Consumer):
        kinesis.consumers.save(resource)
    else:
        kinesis.save(resource)
