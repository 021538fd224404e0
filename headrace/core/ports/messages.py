"""The ports to what other services take or tell: messages, invocations, metrics, log lines, schemas, domains.

SQS queues, SNS topics, EventBridge buses, Lambda functions, CloudWatch, the Glue Data Catalog, and the servers of
OpenSearch domains. All implementations are thread-safe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from headrace.core.ports.control import CallerIdentity


class Metric(NamedTuple):
    """One CloudWatch datum: a value, or the statistics of many values.

    Attributes:
        statistics: sample count, sum, minimum and maximum; when they are set, `value` is not sent.
    """

    namespace: str
    name: str
    value: float
    unit: str
    dimensions: tuple[tuple[str, str], ...]
    timestamp_ms: int
    statistics: tuple[float, float, float, float] | None = None


class MetricSink(Protocol):
    """Takes metrics. Never raises and never blocks: metrics must not harm what they measure."""

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        """Queue metrics for CloudWatch."""
        ...


class LogLine(NamedTuple):
    """One log event."""

    timestamp_ms: int
    message: str


class LogSink(Protocol):
    """Takes log lines for CloudWatch Logs. Never raises, never blocks."""

    def put(
        self,
        group: str,
        stream: str,
        lines: Sequence[LogLine],
        *,
        account: str,
        region: str,
        acting: CallerIdentity | None = None,
        makes: bool = True,
    ) -> None:
        """Queue lines for a log stream.

        A missing group and stream are made by `acting`, if it may, by default by the cloud itself; without `makes` the
        lines are lost there.
        """
        ...


class SearchDomainNotFound(Exception):
    """No such OpenSearch domain or collection; the message is one sentence."""


class SearchServer(Protocol):
    """A server that answers OpenSearch's REST API."""

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; return the answer's status and body."""
        ...


class SearchDomains(Protocol):
    """Finds the servers of OpenSearch domains: the index in the data directory, or a real OpenSearch at its URL."""

    def of_domain(self, name: str, *, account: str, region: str) -> SearchServer | str:
        """Return a domain's server. Raises SearchDomainNotFound."""
        ...

    def of_endpoint(self, url: str, *, account: str, region: str) -> SearchServer | str:
        """Return the server at the endpoint of a domain or collection. Raises SearchDomainNotFound."""
        ...


class SchemaNotFound(Exception):
    """No such database or table."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A Glue table: column name and Hive type, in order, without the partition keys."""

    columns: tuple[tuple[str, str], ...]


class SchemaCatalog(Protocol):
    """Looks tables up in the Glue Data Catalog."""

    def table(
        self, database: str, table: str, *, account: str, region: str, version: str = "LATEST"
    ) -> TableSchema:
        """Return a table's schema, of the latest version or of the one that is named. Raises SchemaNotFound."""
        ...


class FunctionNotFound(Exception):
    """No such function, version or alias."""


class FunctionThrottled(Exception):
    """The function's concurrency is used up; try again later."""


class InvokeResult(NamedTuple):
    """The answer of a function. `function_error` is None, `Handled` or `Unhandled`."""

    payload: bytes
    function_error: str | None
    executed_version: str
    request_id: str
    log_tail: bytes = b""


class FunctionInvoker(Protocol):
    """Invokes Lambda functions synchronously."""

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        """Run the function and wait. Raises FunctionNotFound, FunctionThrottled."""
        ...


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
