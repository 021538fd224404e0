"""Queues, topics and event buses, as another service sends to them or receives."""

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
    """A message as it was received.

    Attributes:
        attributes: SQS's own.
        message_attributes: the sender's, in SQS's shape.
        attributes_md5: of the sender's; empty when there are none.
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
        """Return for how long a received message is hidden from others."""
        ...

    def is_empty(self, queue_arn: str) -> bool:
        """Whether `receive` would find nothing now, or nothing is known yet. Costs microseconds; never waits."""
        ...

    def message_count(self, queue_arn: str) -> int:
        """Return how many messages a queue has: those to be received, delayed ones, and those in flight."""
        ...

    def receive(self, queue_arn: str, *, most: int) -> list[QueueMessage]:
        """Return up to `most` messages (10 at most), hidden from now on; never waits."""
        ...

    def delete(self, queue_arn: str, receipt_handles: Sequence[str]) -> None:
        """Remove received messages."""
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
