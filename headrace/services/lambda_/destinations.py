"""Sends records of failed batches and asynchronous events to queues, topics, functions, event buses and buckets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import BusEvent, EventBusSender, ObjectStore, QueueSender, TopicPublisher
from headrace.services.lambda_.errors import invalid_parameter

EVERYWHERE = ("sqs", "sns", "lambda", "events", "s3")
_STREAM_FAILURES = ("sqs", "sns")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A document, and the additions that some kinds of destinations need.

    Attributes:
        document: the JSON document.
        object_key: the document's key in a bucket.
        event: the event for an event bus, with the document in `detail`.
        attributes: the message attributes for a queue or a topic.
    """

    document: str
    object_key: str = ""
    event: BusEvent | None = None
    attributes: Mapping[str, str | int] | None = None


class Destinations:
    """Sends documents to destinations. Thread-safe.

    Args:
        queues: SQS.
        topics: SNS.
        invoke: queues an invocation of the function with an ARN, and returns the request id.
        buses: EventBridge.
        objects: S3.
    """

    def __init__(
        self,
        queues: QueueSender,
        topics: TopicPublisher,
        *,
        invoke: Callable[[str, bytes], str] | None = None,
        buses: EventBusSender | None = None,
        objects: ObjectStore | None = None,
    ) -> None:
        self._queues = queues
        self._topics = topics
        self._buses = buses
        self._objects = objects
        self._invoke = invoke

    def send(self, arn: str, document: str, *, object_key: str = "") -> str:
        """Send a document; return its message id. Raises LookupError when the destination does not exist."""
        return self.deliver(arn, Delivery(document, object_key))

    def deliver(self, arn: str, delivery: Delivery) -> str:
        """Send a document; return its message id, or its key in a bucket.

        Raises LookupError when the destination does not exist, AwsError when it refuses the document.
        """
        service = Arn.parse(arn).service
        attributes = () if delivery.attributes is None else (delivery.attributes,)
        if service == "sqs":
            return self._queues.send(arn, delivery.document, *attributes)
        if service == "sns":
            return self._topics.publish(arn, delivery.document, *attributes)
        if service == "lambda" and self._invoke is not None:
            return self._invoke(arn, delivery.document.encode())
        if service == "events" and self._buses is not None and delivery.event is not None:
            return self._buses.put(arn, delivery.event)
        if service == "s3" and self._objects is not None and delivery.object_key:
            return self._put(self._objects, arn, delivery)
        raise LookupError(arn)

    def _put(self, objects: ObjectStore, arn: str, delivery: Delivery) -> str:
        bucket = Arn.parse(arn).resource
        if bucket not in objects.buckets():
            raise LookupError(arn)
        body = delivery.document.encode()
        objects.put(bucket, delivery.object_key, body, content_type="application/json")
        return delivery.object_key


def check_destination(arn: str | None, services: tuple[str, ...] = _STREAM_FAILURES) -> None:
    """Refuse a destination whose service is not one of `services`. Raises AwsError."""
    if not arn:
        return
    try:
        service = Arn.parse(arn).service
    except InvalidArn:
        raise invalid_parameter(f"The destination ARN {arn} is invalid.") from None
    if service not in services:
        raise invalid_parameter(f"The destination ARN {arn} is invalid.")
