"""The ports through which services use SQS queues, SNS topics and EventBridge buses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class QueueSender(Protocol):
    """Sends to SQS queues named by ARN."""

    def send(
        self, queue_arn: str, body: str, attributes: Mapping[str, str | int] | None = None
    ) -> str:
        """Send one message; return its message id. Raises LookupError when there is no queue."""
        ...


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message that was received from a queue.

    Attributes:
        attributes: the message's system attributes, which SQS sets.
        message_attributes: the sender's attributes, in SQS's shape.
        attributes_md5: the MD5 of the sender's attributes; empty when there are none.
    """

    message_id: str
    receipt_handle: str
    body: str
    body_md5: str
    attributes: Mapping[str, str]
    message_attributes: Mapping[str, Mapping[str, Any]]
    attributes_md5: str = ""


class QueueReceiver(Protocol):
    """Receives from SQS queues named by ARN. Every method raises LookupError when there is no queue."""

    def visibility_timeout_s(self, queue_arn: str) -> int:
        """Return the queue's visibility timeout: for how long a received message is hidden from other receivers."""
        ...

    def is_empty(self, queue_arn: str) -> bool:
        """Whether `receive` would return no message now; true while that is unknown. Never waits."""
        ...

    def message_count(self, queue_arn: str) -> int:
        """Return how many messages a queue has: visible, delayed, and in flight."""
        ...

    def receive(self, queue_arn: str, *, most: int) -> list[QueueMessage]:
        """Return up to `most` messages (10 at most), which are now in flight; never waits."""
        ...

    def delete(self, queue_arn: str, receipt_handles: Sequence[str]) -> None:
        """Delete messages that were received."""
        ...


class MessageQueues(QueueSender, QueueReceiver, Protocol):
    """Sends to and receives from SQS."""


class TopicPublisher(Protocol):
    """Publishes to SNS topics named by ARN."""

    def publish(
        self, topic_arn: str, message: str, attributes: Mapping[str, str | int] | None = None
    ) -> str:
        """Publish one message; return its message id. Raises LookupError when there is no topic."""
        ...


@dataclass(frozen=True, slots=True)
class BusEvent:
    """One EventBridge event; `detail` is JSON."""

    source: str
    detail_type: str
    detail: str
    resources: tuple[str, ...] = ()


class EventBusSender(Protocol):
    """Puts events on EventBridge buses named by ARN."""

    def put(self, bus_arn: str, event: BusEvent) -> str:
        """Put one event; return its id. Raises LookupError when there is no bus."""
        ...
