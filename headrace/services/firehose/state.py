"""Delivery streams as values, and where they are kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.core.arn import make_arn
from headrace.store.database import Database


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


@dataclass(frozen=True, slots=True)
class Intent:
    """A delivery that has been decided on: which records, and where they go, whatever happens in between.

    Attributes:
        version: of the delivery stream whose `destination` this is.
        keys: by error type (empty for what went well), the object's key.
        oldest_ms: when the first of the records arrived.
        newest_ms: when the last did.
        decided_ms: when it was decided.
        counts: by shard, how many records.
        start: by shard, the position to read them from.
        last: by shard, the sequence number of the last.
        after: by shard, the position that follows; also of shards that only ended.
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
        """How many records it is about."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a delivery stream has come: durable, and written with each delivery.

    Attributes:
        positions: by shard: a sequence number after which to go on, `AT:` and a number at which to,
            `TRIM_HORIZON`, or `END` when the shard is done.
        intent: a delivery that has been decided on and not yet been recorded as done.
    """

    positions: dict[str, str] = field(default_factory=dict[str, str])
    intent: Intent | None = None
    delivered_records: int = 0
    delivered_bytes: int = 0
    delivered_objects: int = 0
    failed_records: int = 0


class DeliveryStreams:
    """All delivery streams and their progress. Thread-safe as the database is."""

    def __init__(self, database: Database) -> None:
        self._streams = database.documents("firehose_streams")
        self._progress = database.documents("firehose_progress")

    def load(self) -> list[DeliveryStream]:
        """Return what is stored."""
        return [DeliveryStream(**value) for _, value in self._streams.items()]

    def save(self, stream: DeliveryStream) -> None:
        """Store a delivery stream; durable on return."""
        self._streams.put(stream.stream_id, asdict(stream))

    def take_back(self, stream: DeliveryStream) -> None:
        """Set a delivery stream to what is stored."""
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
        self._progress.put(stream_id, asdict(progress))

    def delete(self, stream_id: str) -> None:
        """Forget a delivery stream."""
        self._streams.delete(stream_id)
        self._progress.delete(stream_id)
