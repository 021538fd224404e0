"""Delivery streams, their progress and their intents (planned deliveries): records, and their storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec

from headrace.core.arn import make_arn
from headrace.core.values import get_list, get_mapping
from headrace.core.workers import WorkerDone
from headrace.store.database import Database, Documents

# The backup modes that back up every delivered record: AWS has three names for it.
_ALL_BACKED_UP = ("AllDocuments", "AllData", "AllEvents")
# The error-output type of Iceberg tables.
ICEBERG_FAILED = "iceberg-failed"


@dataclass(frozen=True, slots=True)
class ObjectNaming:
    """What a delivery stream says of its objects' names; the prefixes are not evaluated.

    Attributes:
        begin: what the names begin with after their prefix.
        own_errors: the error prefixes of tables, see `DeliveryStream.own_errors`.
        time_zone: the zone of timestamp expressions.
        s3: the S3 configuration of delivered records and of errors.
        backup: that of the backup.
        conversion: the format conversion's configuration, when it is on.
    """

    begin: str
    prefix: str
    error_prefix: str
    own_errors: Mapping[str, str]
    time_zone: str
    s3: Mapping[str, Any]
    backup: Mapping[str, Any]
    conversion: Mapping[str, Any] | None


@dataclass(slots=True)
class DeliveryStream:
    """A delivery stream.

    Attributes:
        destination: the destination's configuration, with defaults.
        destination_kind: its `Destination.kind`.
    """

    name: str
    account: str
    region: str
    stream_id: str
    kind: str
    created_ms: int
    destination: dict[str, Any]
    updated_ms: int = 0
    version: int = 1
    source_arn: str = ""
    source_role_arn: str = ""
    source_from_ms: int = 0
    # DirectPut's throughput hint, which has no effect; 0 if not given.
    throughput_hint_mb: int = 0
    encryption: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    destination_kind: str = "ExtendedS3"
    # When CREATING or DELETING ends, in epoch milliseconds.
    settles_ms: int = 0
    is_deleting: bool = False
    # When the encryption state ENABLING or DISABLING ends.
    encryption_settles_ms: int = 0

    def status(self, now_ms: int) -> str:
        """Return AWS's DeliveryStreamStatus."""
        if self.is_deleting:
            return "DELETING"
        return "CREATING" if now_ms < self.settles_ms else "ACTIVE"

    def encryption_status(self, now_ms: int) -> str:
        """Return AWS's DeliveryStreamEncryptionStatus."""
        if now_ms < self.encryption_settles_ms:
            return "ENABLING" if self.encryption else "DISABLING"
        return "ENABLED" if self.encryption else "DISABLED"

    @property
    def s3(self) -> dict[str, Any]:
        """The S3 configuration for delivered records or, with another destination, for its errors and backup."""
        if self.destination_kind == "ExtendedS3":
            return self.destination
        return self.destination["S3Configuration"]

    @property
    def backup(self) -> dict[str, Any] | None:
        """The S3 configuration for the backup of all records; None without such a backup."""
        mode = self.destination.get("S3BackupMode")
        if mode == "Enabled":
            return get_mapping(self.destination, "S3BackupConfiguration")
        return self.s3 if mode in _ALL_BACKED_UP else None

    @property
    def has_own_backup(self) -> bool:
        """Whether the backup has its own buffer: with partitions, or with other buffering hints."""
        backup = self.backup
        if backup is None or is_partitioned(self.destination):
            return backup is not None
        hints = self.destination.get("BufferingHints") or self.s3.get("BufferingHints")
        return backup.get("BufferingHints", hints) != hints

    @property
    def has_several_buffers(self) -> bool:
        """Whether there is more than one buffer, each delivered at its own time."""
        return self.has_own_backup or is_partitioned(self.destination)

    @property
    def has_aggregates(self) -> bool:
        """Whether records of the Kinesis Producer Library are taken apart."""
        return bool(self.source_arn)

    @property
    def arn(self) -> str:
        """The delivery stream's ARN."""
        return make_arn("firehose", self.region, self.account, f"deliverystream/{self.name}")

    @property
    def prefix(self) -> str:
        """The object prefix, unevaluated."""
        return str(self.s3.get("Prefix") or "")

    @property
    def error_prefix(self) -> str:
        """The prefix of error output, unevaluated."""
        return str(self.s3.get("ErrorOutputPrefix") or "")

    @property
    def own_errors(self) -> dict[str, str]:
        """The error prefixes of Iceberg tables with their own prefix, by error-output type and table."""
        return {
            table_errors(table["DestinationDatabaseName"], table["DestinationTableName"]): str(
                table["S3ErrorOutputPrefix"]
            )
            for table in self.destination.get("DestinationTableConfigurationList") or ()
            if table.get("S3ErrorOutputPrefix")
        }

    @property
    def naming(self) -> ObjectNaming:
        """What its objects' names are made of."""
        s3 = self.s3
        return ObjectNaming(
            begin=f"{self.name}-{self.version}",
            prefix=self.prefix,
            error_prefix=self.error_prefix,
            own_errors=self.own_errors,
            time_zone=str(s3.get("CustomTimeZone") or "UTC"),
            s3=s3,
            backup=self.backup or s3,
            conversion=self.conversion,
        )

    @property
    def bucket(self) -> str:
        """The destination bucket's name."""
        return str(self.s3["BucketARN"]).rpartition(":")[2]

    @property
    def conversion(self) -> dict[str, Any] | None:
        """The format conversion's configuration, when it is on."""
        settings = self.destination.get("DataFormatConversionConfiguration")
        return settings if settings and settings.get("Enabled", True) else None

    @property
    def processors(self) -> dict[str, dict[str, str]]:
        """The parameters of the enabled processors, by type."""
        return processors_of(self.destination)


def table_errors(database: str, table: str) -> str:
    """Return the name of an Iceberg table's error output: the type, a colon, and the table."""
    return f"{ICEBERG_FAILED}:{database}.{table}"


def is_partitioned(destination: Mapping[str, Any]) -> bool:
    """Return whether a destination has dynamic partitioning."""
    return bool(get_mapping(destination, "DynamicPartitioningConfiguration").get("Enabled"))


def processors_of(destination: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the parameters of a destination's enabled processors, by type."""
    processing = get_mapping(destination, "ProcessingConfiguration")
    if not processing.get("Enabled"):
        return {}
    return {
        processor["Type"]: {
            parameter["ParameterName"]: parameter["ParameterValue"]
            for parameter in get_list(processor, "Parameters")
        }
        for processor in get_list(processing, "Processors")
    }


@dataclass(frozen=True, slots=True)
class Intent:
    """A planned delivery, which is stored before it begins: which records go into which objects.

    It does not change when the delivery stream does, so that a delivery can be repeated after a kill.

    Attributes:
        version: the delivery stream's version with this `destination`.
        keys: the object keys by kind (see `records.py`; the empty text for delivered records).
        oldest_ms: when the first of the records arrived.
        newest_ms: when the last of the records arrived.
        decided_ms: when the delivery was planned.
        counts: by shard, how many source records are from `start` to `last`; empty with several buffers.
        start: by shard, the position from which to read them.
        last: by shard, the last record's sequence number.
        after: by shard, the position where reading continues after this delivery, also for shards that ended without a
            record.
        kind: the destination's kind.
        partition: the buffer to deliver: a partition's values, `BACKUP`, or `WHOLE`; see `reading.py`.
        attempts: how many tries there were.
        failing_since_ms: when the first try failed; 0 if none did.
        renamed: bucket and key of objects that an earlier try may have put under former keys.
    """

    version: int
    destination: dict[str, Any]
    keys: dict[str, str]
    oldest_ms: int
    newest_ms: int
    decided_ms: int
    counts: dict[str, int]
    start: dict[str, str]
    last: dict[str, str]
    after: dict[str, str]
    kind: str = "ExtendedS3"
    partition: str = ""
    attempts: int = 0
    failing_since_ms: int = 0
    renamed: list[list[str]] = field(default_factory=list[list[str]])

    @property
    def records(self) -> int:
        """The number of records of all shards."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a delivery stream. It is stored with each delivery.

    Attributes:
        positions: by shard, where reading continues: a sequence number (after that record), `AT:` and a sequence number
            (at that record), `TRIM_HORIZON` (the first record), or `END` (the shard is finished).
        intent: a delivery that is planned and not yet done.
        passed: by partition and shard, the last delivered sequence number, if it is after `positions`: records of other
            partitions between the two still wait.
        held: the destination, and its version, of those partitions; None when `passed` is empty.
    """

    positions: dict[str, str] = field(default_factory=dict[str, str])
    intent: Intent | None = None
    delivered_records: int = 0
    delivered_bytes: int = 0
    delivered_objects: int = 0
    failed_records: int = 0
    passed: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    held: dict[str, Any] | None = None


def as_held(stream: DeliveryStream, progress: Progress) -> DeliveryStream:
    """Return the delivery stream with the destination of the waiting partitions: see `Progress.held`."""
    held = progress.held
    if held is None or (not progress.passed and progress.intent is None):
        return replace(stream)
    return replace(stream, version=int(held["version"]), destination=held["destination"])


class DeliveryStreams:
    """All delivery streams and their progress. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._streams = database.documents("firehose_streams")
        self._progress = database.documents("firehose_progress")
        self._routes = database.documents("firehose_routes")

    def load(self) -> list[DeliveryStream]:
        """Return all stored delivery streams."""
        return [DeliveryStream(**value) for _, value in self._streams.items()]

    def save(self, stream: DeliveryStream) -> None:
        """Store a delivery stream; durable on return."""
        self._streams.put(stream.stream_id, asdict(stream))

    def restore(self, stream: DeliveryStream) -> None:
        """Undo the changes to a delivery stream since it was stored."""
        stored: dict[str, Any] = self._streams.get(stream.stream_id) or {}
        for name, value in stored.items():
            setattr(stream, name, value)

    def progress(self, stream_id: str) -> Progress:
        """Return a delivery stream's progress."""
        value = self._progress.get(stream_id)
        if value is None:
            return Progress()
        intent = value.pop("intent")
        return Progress(**value, intent=None if intent is None else Intent(**intent))

    def save_progress(self, stream_id: str, progress: Progress) -> None:
        """Store progress; durable on return."""
        self._progress.put(stream_id, msgspec.to_builtins(progress))

    def delete(self, stream_id: str) -> None:
        """Delete a delivery stream and its progress."""
        self._streams.delete(stream_id)
        self._progress.delete(stream_id)
        routes = self.routes(stream_id)
        for name in routes.load():
            routes.delete(name)

    def routes(self, stream_id: str) -> StreamRoutes:
        """Return the routes of one delivery stream."""
        return StreamRoutes(self._routes, stream_id)


class StreamProgress:
    """The progress of one delivery stream, in memory never ahead of the disk. One thread at a time saves.

    Attributes:
        saved: the progress that was saved last.
    """

    def __init__(
        self, streams: DeliveryStreams, stream_id: str, is_current: Callable[[], bool]
    ) -> None:
        self.saved = streams.progress(stream_id)
        self._streams = streams
        self._stream_id = stream_id
        self._is_current = is_current

    def save(self, progress: Progress) -> None:
        """Store it; durable on return. Raises WorkerDone when the delivery stream is deleted."""
        if not self._is_current():
            raise WorkerDone
        self._streams.save_progress(self._stream_id, progress)
        self.saved = progress


class StreamRoutes:
    """The routes of one delivery stream: see `RouteStore`. Thread-safe."""

    def __init__(self, documents: Documents, stream_id: str) -> None:
        self._documents = documents
        self._begin = f"{stream_id}:"

    def load(self) -> dict[str, dict[str, Any]]:
        """See `RouteStore.load`."""
        return {
            key.removeprefix(self._begin): value
            for key, value in self._documents.items()
            if key.startswith(self._begin)
        }

    def put(self, name: str, piece: dict[str, Any]) -> None:
        """See `RouteStore.put`."""
        self._documents.put(self._begin + name, piece)

    def delete(self, name: str) -> None:
        """See `RouteStore.delete`."""
        self._documents.delete(self._begin + name)
