"""Delivery streams, their progress, and deliveries that are decided on: plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.core.arn import make_arn
from headrace.core.values import listed, mapped

# The backup modes that keep everything that is delivered, beside the destination: AWS has three names for it.
_ALL_BACKED_UP = ("AllDocuments", "AllData", "AllEvents")
# The error-output type of Iceberg tables.
ICEBERG_FAILED = "iceberg-failed"


@dataclass(frozen=True, slots=True)
class Naming:
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
        destination: the destination's configuration, defaults filled in.
        destination_kind: which it is, as `Destination.kind` says.
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
    # Of DirectPut: how much is going to come, which nothing acts on; 0 when nobody said.
    throughput_hint_mb: int = 0
    encryption: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    destination_kind: str = "ExtendedS3"
    # When CREATING or DELETING ends, in epoch milliseconds.
    settles_ms: int = 0
    is_deleting: bool = False
    # When ENABLING or DISABLING of encryption ends.
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
        """The S3 configuration: where delivered records or, of another destination, its errors and backup go."""
        if self.destination_kind == "ExtendedS3":
            return self.destination
        return self.destination["S3Configuration"]

    @property
    def backup(self) -> dict[str, Any] | None:
        """The S3 configuration that everything is backed up to, None without such a backup."""
        mode = self.destination.get("S3BackupMode")
        if mode == "Enabled":
            return mapped(self.destination, "S3BackupConfiguration")
        return self.s3 if mode in _ALL_BACKED_UP else None

    @property
    def has_own_backup(self) -> bool:
        """Whether the backup has a buffer of its own: beside partitions, or by other buffering hints."""
        backup = self.backup
        if backup is None or is_partitioned(self.destination):
            return backup is not None
        hints = self.destination.get("BufferingHints") or self.s3.get("BufferingHints")
        return backup.get("BufferingHints", hints) != hints

    @property
    def has_several_buffers(self) -> bool:
        """Whether what is read is delivered in parts, each in its own time."""
        return self.has_own_backup or is_partitioned(self.destination)

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
        """The error prefixes of Iceberg tables that have one of their own, by error-output type and table."""
        return {
            table_errors(table["DestinationDatabaseName"], table["DestinationTableName"]): str(
                table["S3ErrorOutputPrefix"]
            )
            for table in listed(self.destination, "DestinationTableConfigurationList")
            if table.get("S3ErrorOutputPrefix")
        }

    @property
    def naming(self) -> Naming:
        """What its objects' names are made of."""
        s3 = self.s3
        return Naming(
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
        given = self.destination.get("DataFormatConversionConfiguration")
        return given if given and given.get("Enabled", True) else None

    @property
    def processors(self) -> dict[str, dict[str, str]]:
        """The parameters of the processors that are on, by type."""
        return processors_of(self.destination)


def table_errors(database: str, table: str) -> str:
    """Return what the error output of one Iceberg table is called: its type, a colon, and the table."""
    return f"{ICEBERG_FAILED}:{database}.{table}"


def is_partitioned(destination: Mapping[str, Any]) -> bool:
    """Whether a destination has dynamic partitioning."""
    return bool(mapped(destination, "DynamicPartitioningConfiguration").get("Enabled"))


def processors_of(destination: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the parameters of a destination's processors that are on, by type."""
    processing = mapped(destination, "ProcessingConfiguration")
    if not processing.get("Enabled"):
        return {}
    return {
        processor["Type"]: {
            parameter["ParameterName"]: parameter["ParameterValue"]
            for parameter in listed(processor, "Parameters")
        }
        for processor in listed(processing, "Processors")
    }


@dataclass(frozen=True, slots=True)
class Intent:
    """A delivery that is decided on and stored: which records go into which objects.

    It does not change when the delivery stream does, so that a delivery that a kill cut short can be repeated.

    Attributes:
        version: the version of the delivery stream that had this `destination`.
        keys: by what the object holds (see `failures`; empty for delivered records), the object's key.
        oldest_ms: when the first of the records arrived.
        newest_ms: when the last of the records arrived.
        decided_ms: when the delivery was decided on.
        counts: by shard, how many of the source's records `start` to `last` are; empty with several buffers.
        start: by shard, the position from which to read them.
        last: by shard, the last record's sequence number.
        after: by shard, the position that reading goes on from once this is delivered. It also names shards that ended
            without a record.
        kind: the destination's kind.
        partition: which buffer is delivered: a partition's values, `BACKUP`, or `WHOLE`; see `buffers`.
        attempts: how often it was tried.
        failing_since_ms: when the first try failed; 0 before.
        renamed: bucket and key of objects that an earlier try may have put under names that it no longer has.
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
    """How far a delivery stream has come. It is stored with each delivery.

    Attributes:
        positions: by shard, where to read on: a sequence number (after that record), `AT:` and a sequence number (at
            that record), `TRIM_HORIZON` (the first record), or `END` (nothing more comes).
        intent: a delivery that is decided on and not yet done.
        passed: by partition and shard, the last sequence number whose records are delivered, where that is beyond
            `positions`: other partitions' records between the two still wait.
        held: the destination and its version for which those partitions were made; None when `passed` is empty.
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
    """Return the delivery stream as it was for the partitions that wait: see `Progress.held`."""
    held = progress.held
    if held is None or (not progress.passed and progress.intent is None):
        return replace(stream)
    return replace(stream, version=int(held["version"]), destination=held["destination"])
