"""DeleteStream."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import DeleteStreamInput
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import in_use, not_active


@operation("DeleteStream")
def delete_stream(kinesis: Kinesis, call: Call, request: DeleteStreamInput) -> None:
    """Delete a stream, its records and, with EnforceConsumerDeletion, its consumers. Source: API_DeleteStream."""
    with kinesis.lock:
        stream = kinesis.find(call.account, call.region, request)
        status = stream.status(call.now_ms)
        if status in ("CREATING", "DELETING"):
            raise not_active(stream.name, stream.account, status)
        queues = kinesis.queues.of_stream(stream, call.now_ms)
        if queues:
            # The sentence is assumed.
            raise in_use(
                f"Stream {stream.name} under account {stream.account} has {len(queues)} queues. Delete them first."
            )
        channels = kinesis.channels.of_stream(stream, call.now_ms)
        if channels:
            # Documented at DeleteChannel; code and sentence are assumed.
            raise in_use(
                f"Stream {stream.name} under account {stream.account} has {len(channels)} channels. Delete them first."
            )
        consumers = kinesis.consumers.of_stream(stream, call.now_ms)
        if consumers and not request.get("EnforceConsumerDeletion", False):
            raise in_use(
                f"Stream {stream.name} under account {stream.account} has {len(consumers)} registered consumers."
                " Deregister them, or set EnforceConsumerDeletion."
            )
        kinesis.delete(stream, call.now_ms)
