"""DeleteStream."""

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import DeleteStreamInput
from headrace.services.kinesis.service import Kinesis


@operation("DeleteStream")
def delete_stream(kinesis: Kinesis, call: Call, request: DeleteStreamInput) -> None:
    """Delete a stream and its records, at once. Source: API_DeleteStream."""
    kinesis.remove(kinesis.find(call.account, call.region, request))
