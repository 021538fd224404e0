"""Where failed batches and asynchronous events go: SQS queues and SNS topics, by ARN."""

from __future__ import annotations

from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import QueueSender, TopicPublisher
from headrace.services.lambda_.errors import invalid_parameter

_SERVICES = ("sqs", "sns")


class Destinations:
    """Sends documents to destinations. Thread-safe."""

    def __init__(self, queues: QueueSender, topics: TopicPublisher) -> None:
        self._queues = queues
        self._topics = topics

    def send(self, arn: str, document: str) -> str:
        """Send a document; return its message id. Raises LookupError when there is no such place."""
        if Arn.parse(arn).service == "sns":
            return self._topics.publish(arn, document)
        return self._queues.send(arn, document)


def check_destination(arn: str | None) -> None:
    """Refuse a destination that `send` could not reach. Raises AwsError."""
    if not arn:
        return
    try:
        service = Arn.parse(arn).service
    except InvalidArn:
        raise invalid_parameter(f"The destination ARN {arn} is invalid.") from None
    if service not in _SERVICES:
        raise invalid_parameter(
            f"headrace sends to SQS queues and SNS topics only, not to the destination {arn}"
        )
