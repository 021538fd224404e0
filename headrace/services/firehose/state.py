"""Delivery streams, their progress, and deliveries that are decided on: plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.arn import make_arn
from headrace.core.values import listed, mapped


@dataclass(slots=True)
class DeliveryStream:
    """A delivery stream. `destination` is the ExtendedS3 configuration as given, defaults filled in."""

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

    @property
    def arn(self) -> str:
        """The delivery stream's ARN."""
        return make_arn("firehose", self.region, self.account, f"deliverystream/{self.name}")

    @property
    def prefix(self) -> str:
        """The object prefix, unevaluated."""
        return str(self.destination.get("Prefix") or "")

    @property
    def error_prefix(self) -> str:
        """The prefix of error output, unevaluated."""
        return str(self.destination.get("ErrorOutputPrefix") or "")

    @property
    def time_zone(self) -> str:
        """The zone of timestamp expressions."""
        return str(self.destination.get("CustomTimeZone") or "UTC")

    @property
    def bucket(self) -> str:
        """The destination bucket's name."""
        return str(self.destination["BucketARN"]).rpartition(":")[2]

    @property
    def conversion(self) -> dict[str, Any] | None:
        """The format conversion's configuration, when it is on."""
        given = self.destination.get("DataFormatConversionConfiguration")
        return given if given and given.get("Enabled", True) else None

    @property
    def processors(self) -> dict[str, dict[str, str]]:
        """The parameters of the processors that are on, by type."""
        return processors_of(self.destination)


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
        keys: by error type (empty for delivered records), the object's key.
        oldest_ms: when the first of the records arrived.
        newest_ms: when the last of the records arrived.
        decided_ms: when the delivery was decided on.
        counts: by shard, the number of records.
        start: by shard, the position from which to read them.
        last: by shard, the last record's sequence number.
        after: by shard, the position after the records. It also names shards that ended without a record.
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
    """

    positions: dict[str, str] = field(default_factory=dict[str, str])
    intent: Intent | None = None
    delivered_records: int = 0
    delivered_bytes: int = 0
    delivered_objects: int = 0
    failed_records: int = 0
