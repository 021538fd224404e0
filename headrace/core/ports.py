"""The protocols through which services meet. Data crosses here; control crosses `ControlPlane`.

A service declares what it needs as one of these and is handed an implementation by `headrace.cloud`;
no service imports another. All implementations are thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

# --- streams ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrimHorizon:
    """The oldest record that retention has left."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Just after the newest record at the time of asking. Pin it with `StreamReader.pin`."""


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record that arrived at or after `timestamp_ms`."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtSequence:
    """The record with this sequence number, or the first after it."""

    sequence_number: str


@dataclass(frozen=True, slots=True)
class AfterSequence:
    """The first record after this sequence number."""

    sequence_number: str


Position = TrimHorizon | Latest | AtTimestamp | AtSequence | AfterSequence


class StreamNotFound(Exception):
    """No such stream."""


class ShardNotFound(Exception):
    """No such shard, or retention has removed it."""


# Not a dataclass: making one takes a fifth of the time, and every record that is read is one.
class StreamRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as a consumer sees it."""

    sequence_number: str
    partition_key: str
    data: bytes
    approximate_arrival_ms: int


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """A shard and its place in the stream's lineage. `closed` shards take no more records."""

    shard_id: str
    parent_ids: tuple[str, ...]
    starting_hash_key: int
    ending_hash_key: int
    starting_sequence_number: str
    ending_sequence_number: str | None

    @property
    def closed(self) -> bool:
        """Whether a split or a merge has ended this shard."""
        return self.ending_sequence_number is not None


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Records, oldest first, and where to go on: `next_position` is None at a closed shard's end.

    `expired` counts the records behind the position that the stream no longer has.
    """

    records: list[StreamRecord]
    next_position: AtSequence | AfterSequence | TrimHorizon | None
    millis_behind_latest: int
    expired: int = 0


class StreamReader(Protocol):
    """Reads shards of Kinesis streams without the wire. Streams are named by ARN."""

    def shards(self, stream_arn: str) -> list[ShardInfo]:
        """Return all shards that retention has left, open and closed. Raises StreamNotFound."""
        ...

    def pin(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> AtSequence | AfterSequence | TrimHorizon:
        """Turn `Latest` and `AtTimestamp` into a position that means the same for ever."""
        ...

    def read(
        self,
        stream_arn: str,
        shard_id: str,
        position: Position,
        *,
        max_records: int,
        max_bytes: int,
    ) -> ReadResult:
        """Return up to `max_records` and about `max_bytes` of data (at least one record if any).

        Never waits. Raises StreamNotFound, ShardNotFound.
        """
        ...

    def consumer_status(self, consumer_arn: str) -> str | None:
        """Return a registered consumer's status in AWS's word, None when there is no such consumer."""
        ...

    def subscribe(self, stream_arn: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` (quick, from any thread) after each append or reshard; returns the undo."""
        ...


# --- functions -------------------------------------------------------------------------------


class FunctionNotFound(Exception):
    """No such function, version or alias."""


class FunctionThrottled(Exception):
    """The function's concurrency is used up; try again later."""


@dataclass(frozen=True, slots=True)
class InvokeResult:
    """What a function answered. `function_error` is None, `Handled` or `Unhandled`."""

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


# --- objects ---------------------------------------------------------------------------------


class BucketNotFound(Exception):
    """No such bucket."""


class ObjectNotFound(Exception):
    """No such object."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object in a listing."""

    key: str
    size_bytes: int
    etag: str
    last_modified_ms: int


class ObjectStore(Protocol):
    """S3 without the wire. An object that `put` returned from is durable as the cloud is set."""

    def put(
        self,
        bucket: str,
        key: str,
        body: bytes | Path,
        *,
        content_type: str = "binary/octet-stream",
        content_encoding: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        """Write an object whole or not at all; return its ETag. A `Path` body is copied."""
        ...

    def get(self, bucket: str, key: str) -> bytes:
        """Return an object's bytes. Raises BucketNotFound, ObjectNotFound."""
        ...

    def delete(self, bucket: str, key: str) -> None:
        """Remove an object; a missing one is no error."""
        ...

    def list(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose keys start with `prefix`, in key order."""
        ...

    def file(self, bucket: str, key: str) -> Path:
        """Return the plain file that holds the object, for reading only."""
        ...

    def buckets(self) -> Mapping[str, Path]:
        """Return every bucket with the directory that holds its objects as plain files."""
        ...


# --- queues, topics, metrics, logs, schemas --------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class Metric:
    """One CloudWatch datum: a value, or many as their statistics.

    Attributes:
        statistics: count, sum, least and most; then `value` is not sent.
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


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log event."""

    timestamp_ms: int
    message: str


class LogSink(Protocol):
    """Takes log lines for CloudWatch Logs; makes group and stream. Never raises, never blocks."""

    def put(
        self, group: str, stream: str, lines: Sequence[LogLine], *, account: str, region: str
    ) -> None:
        """Queue lines for a log stream."""
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
        """Return a table's schema, of the latest or another version. Raises SchemaNotFound."""
        ...


# --- permissions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acting:
    """The identity under which a service calls another in process, where there is no signed request.

    Attributes:
        arn: a role's or a user's, or a service's name such as `events.amazonaws.com`.
        session: the name of a role's session.
        source_arn: the resource for which a service acts, which a resource's policy may ask for.
        source_account: the account of that resource, where its ARN does not say it, as a bucket's.
    """

    arn: str
    session: str = ""
    source_arn: str = ""
    source_account: str = ""


# Values of condition keys.
Keys = Mapping[str, tuple[str, ...]]


class Guard(Protocol):
    """Decides whether a service may do something on behalf of a role or a user. Never blocks for long."""

    def denial(
        self, acting: Acting, action: str, resource: str, context: Keys | None = None
    ) -> str:
        """Return the sentence with which AWS refuses an action, such as `kinesis:GetRecords`; empty to go on.

        Empty too where a refusal is only noted (`--iam report`). After the first call it costs a dictionary's lookup.
        `context`: values of condition keys, in lower case, beyond those that the caller and the resource have.
        """
        ...

    def note(self, acting: Acting, action: str, resource: str) -> None:
        """Note an action for the report, also where all others are enforced. Never blocks."""
        ...


class NoGuard:
    """A `Guard` that lets everything pass, for services that are built without a cloud around them."""

    def denial(
        self, acting: Acting, action: str, resource: str, context: Keys | None = None
    ) -> str:
        """See `Guard.denial`."""
        return ""

    def note(self, acting: Acting, action: str, resource: str) -> None:
        """See `Guard.note`."""


# --- control ---------------------------------------------------------------------------------


class ControlPlane(Protocol):
    """Any AWS operation of any service in this cloud, by name, in process."""

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str | None = None,
        region: str | None = None,
        acting: Acting | None = None,
    ) -> dict[str, Any]:
        """Run an operation as boto3 would name it (`"lambda"`, `"CreateFunction"`).

        Without `acting`, it is the cloud itself that calls, which may do everything. Blobs are bytes (a streaming body
        comes back as bytes), timestamps aware datetimes.
        Raises headrace.aws.errors.AwsError.
        """
        ...


FidelityLevel = Literal["enforced", "stored", "ignored"]


class JobCredentials(Protocol):
    """Gives Spark jobs the credentials with which they sign requests."""

    def __call__(
        self,
        account: str,
        role: str,
        session: str,
        policy: str = "",
        policy_arns: tuple[str, ...] = (),
    ) -> Mapping[str, str]:
        """Return the environment variables of a job's credentials, as a session of its role.

        `role` is a role's ARN, or the name or ARN of an instance profile; without one it is the account itself.
        `policy` and `policy_arns` are session policies, which limit the role: a document, and managed ones.
        """
        ...


def any_credentials(
    account: str, role: str, session: str, policy: str = "", policy_arns: tuple[str, ...] = ()
) -> Mapping[str, str]:
    """Return credentials of an account, for services that are built without a cloud around them."""
    return {"AWS_ACCESS_KEY_ID": account, "AWS_SECRET_ACCESS_KEY": "headrace"}
