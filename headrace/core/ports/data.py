"""The ports through which services read and write S3's objects and streams, and order deliveries of streams.

The port through which a service lets a stream's records be delivered to a bucket or a table, each exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTarget:
    """A bucket to which a delivery writes.

    Attributes:
        arn: the bucket's ARN.
        owner: the account that must own it.
        key_arn: the KMS key that encrypts the objects; "" for the bucket's default encryption.
        storage_class: S3's name of the objects' storage class; "" for the default.
        compression: `UNCOMPRESSED`, `GZIP` or `ZSTD`.
    """

    arn: str
    owner: str
    key_arn: str = ""
    storage_class: str = ""
    compression: str = "UNCOMPRESSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """A table of S3 Tables, which the delivery makes.

    Attributes:
        bucket_arn: the ARN of the table bucket; `namespace` and `name` are the table's.
        compression: of its Parquet files: `NONE`, `ZSTD` or `SNAPPY`.
        partition_columns: the columns whose hours partition it.
        schema_arn: the schema in Glue's registry that describes the records.
        has_header: whether records begin with the registry's header.
        key_arn: the KMS key that encrypts its files; "" for the bucket's default encryption.
        definition, arn: the schema's text and the table's ARN, once it is made; "" before.
    """

    bucket_arn: str
    namespace: str
    name: str
    compression: str
    partition_columns: Sequence[str]
    schema_arn: str
    has_header: bool = False
    key_arn: str = ""
    definition: str = ""
    arn: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredObjects:
    """The figures of a finished delivery: the delivered and the refused records, and how old the oldest one was.

    `stored_bytes` is what was written, compressed.
    """

    records: int
    refused: int
    stored_bytes: int
    age_ms: int


class ObjectOrder(Protocol):
    """What is to be delivered, where and how. Its owner implements it; the members may change while it is delivered.

    Attributes:
        order_id: names the delivery's stored progress; never used again.
        from_ms: records that arrived earlier are left out.
        role_arn: the role that writes the objects.
        interval_s: how long after its first record an object is written, at the latest.
        target: the bucket or the table of the records.
        error_target: the bucket of what is said of records that cannot be delivered.
    """

    @property
    def order_id(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def account(self) -> str: ...  # noqa: D102
    @property
    def region(self) -> str: ...  # noqa: D102
    @property
    def stream_arn(self) -> str: ...  # noqa: D102
    @property
    def from_ms(self) -> int: ...  # noqa: D102
    @property
    def role_arn(self) -> str: ...  # noqa: D102
    @property
    def interval_s(self) -> float: ...  # noqa: D102
    @property
    def target(self) -> BucketTarget | TableTarget: ...  # noqa: D102
    @property
    def error_target(self) -> BucketTarget: ...  # noqa: D102

    def object_key(self, now_ms: int, unique: str) -> str:
        """Return the key of a delivered object; `unique` occurs in no other one."""
        ...

    def error_key(self, now_ms: int, unique: str) -> str:
        """Return the key of an object with errors."""
        ...

    def find_fault(self, data: bytes) -> tuple[str, str] | None:
        """Return why a record cannot be delivered, as a code and a sentence; None if it can be."""
        ...

    def join(self, datas: Sequence[bytes]) -> bytes:
        """Return an object's bytes, before compression."""
        ...

    def describe_fault(self, fault: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the error object's line for a record: `fault` has code, message, shard, number and arrival time."""
        ...

    def note_read(self, records: int, size_bytes: int) -> None:
        """Note that records were read from the stream. Never raises, as all notes."""
        ...

    def note_delivered(self, delivered: DeliveredObjects) -> None:
        """Note that a delivery is done."""
        ...

    def note_error(self, code: str, message: str) -> None:
        """Note why records were not delivered, or not yet."""
        ...

    def note_table(self, definition: str, arn: str) -> None:
        """Store that the table of a `TableTarget` is made, durably."""
        ...

    def note_suspended(self, reason: str) -> None:
        """Note why nothing more is ever delivered, in a sentence."""
        ...


class ObjectDeliveries(Protocol):
    """Delivers streams' records to buckets, each record exactly once, over kills too. Thread-safe."""

    def find_obstacle(self, order: ObjectOrder) -> str:
        """Return a sentence why a new order's buckets or table cannot take records; "" if they can."""
        ...

    def begin(self, order: ObjectOrder) -> None:
        """Store that the order begins at the end of each shard, durably. Nothing runs before `run`."""
        ...

    def run(self, order: ObjectOrder) -> None:
        """Carry the order out from where its stored progress ends."""
        ...

    def make_table(self, order: ObjectOrder) -> None:
        """Make the table of an order's `TableTarget`; an order whose table cannot be made is suspended."""
        ...

    def wake(self, order_id: str) -> None:
        """Look at an order again, for it has changed."""
        ...

    def halt(self, order_id: str) -> None:
        """Stop carrying out an order; its progress stays."""
        ...

    def forget(self, order_id: str) -> None:
        """Stop, and remove the stored progress."""
        ...

    def status(self, order_id: str) -> Mapping[str, Any] | None:
        """Return the delivery's figures as plain JSON; None if it does not run."""
        ...


class NoDeliveries:
    """The `ObjectDeliveries` of a service that is built without a cloud: nothing is delivered."""

    def find_obstacle(self, order: ObjectOrder) -> str:
        """See `ObjectDeliveries.find_obstacle`."""
        return ""

    def begin(self, order: ObjectOrder) -> None:
        """See `ObjectDeliveries.begin`."""

    def run(self, order: ObjectOrder) -> None:
        """See `ObjectDeliveries.run`."""

    def make_table(self, order: ObjectOrder) -> None:
        """See `ObjectDeliveries.make_table`."""

    def wake(self, order_id: str) -> None:
        """See `ObjectDeliveries.wake`."""

    def halt(self, order_id: str) -> None:
        """See `ObjectDeliveries.halt`."""

    def forget(self, order_id: str) -> None:
        """See `ObjectDeliveries.forget`."""

    def status(self, order_id: str) -> Mapping[str, Any] | None:
        """See `ObjectDeliveries.status`."""
        return None


@dataclass(frozen=True, slots=True)
class TrimHorizon:
    """The oldest record that is within the retention period."""


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
    """One record as a consumer sees it; `partition_key` is empty if it was put without one."""

    sequence_number: str
    partition_key: str
    data: bytes
    approximate_arrival_ms: int


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """A shard, its parents and its range of sequence numbers. `closed` shards take no more records."""

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
    """Records, oldest first, and the position of the next read; `next_position` is None at a closed shard's end.

    `expired` counts the records from the requested position on that retention has removed.
    """

    records: list[StreamRecord]
    next_position: AtSequence | AfterSequence | TrimHorizon | None
    millis_behind_latest: int
    expired: int = 0


class StreamReader(Protocol):
    """Reads the shards of streams without the wire. Streams are named by ARN."""

    def shards(self, stream_arn: str) -> list[ShardInfo]:
        """Return all shards that retention has left, open and closed. Raises StreamNotFound."""
        ...

    def pin(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> AtSequence | AfterSequence | TrimHorizon:
        """Turn a position into one that means the same for ever."""
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
        """Return AWS's status of a registered consumer, None when there is no such consumer."""
        ...

    def subscribe(self, stream_arn: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` (quick, from any thread) after each append or reshard; return a function that ends this."""
        ...


class BucketNotFound(Exception):
    """No such bucket."""


class ObjectNotFound(Exception):
    """No such object."""


class KeyRefused(Exception):
    """The KMS key that is to encrypt an object is missing, or cannot be used.

    Attributes:
        code: S3's code, such as `KMS.NotFoundException`.
        message: S3's sentence.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object in a listing."""

    key: str
    size_bytes: int
    etag: str
    last_modified_ms: int


class ObjectStore(Protocol):
    """S3 without the wire. When `put` returns, the object is as durable as `Config.durability` says."""

    def put(
        self,
        bucket: str,
        key: str,
        body: bytes | Path,
        *,
        content_type: str = "binary/octet-stream",
        content_encoding: str | None = None,
        metadata: Mapping[str, str] | None = None,
        kms_key: str = "",
        storage_class: str = "",
    ) -> str:
        """Write an object whole or not at all; return its ETag. A `Path` body is copied.

        `kms_key` names the KMS key that encrypts the object; with "" the bucket's default encryption applies. With
        `storage_class` "" it is S3's default. Raises BucketNotFound, KeyRefused.
        """
        ...

    def home(self, bucket: str) -> tuple[str, str]:
        """Return the account that owns a bucket, and its Region. Raises BucketNotFound."""
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
