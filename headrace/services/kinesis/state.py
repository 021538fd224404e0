"""Dataclasses for streams, shards, consumers and commitments, their stored documents, and their counts.

Counts the requests and records of each stream for CloudWatch: a statistic for each metric.

A request does as little counting as possible; once a minute `metrics` turns the counts into AWS's metrics.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from headrace.core.arn import make_arn
from headrace.core.ports import ShardInfo
from headrace.services.kinesis.errors import HASH_KEYS
from headrace.store.sequence import MAX_INDEX, SequenceBase
from headrace.store.shard_log import ShardLog


class Stat:
    """Count, sum, minimum and maximum of a metric's values."""

    __slots__ = ("count", "least", "most", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.least = 0
        self.most = 0

    def note(self, value: int) -> None:
        """Add one value."""
        if not self.count or value < self.least:
            self.least = value
        if value > self.most:
            self.most = value
        self.count += 1
        self.total += value

    def note_many(self, value: int, times: int) -> None:
        """Add the same value several times."""
        if times > 0:
            self.note(value)
            self.count += times - 1
            self.total += value * (times - 1)

    def note_all(self, values: Sequence[int]) -> None:
        """Add several values (at least one)."""
        least, most = min(values), max(values)
        self.least = least if not self.count else min(self.least, least)
        self.most = max(self.most, most)
        self.count += len(values)
        self.total += sum(values)

    def merge(self, other: Stat) -> None:
        """Add the values of another statistic."""
        if not other.count:
            return
        self.least = other.least if not self.count else min(self.least, other.least)
        self.most = max(self.most, other.most)
        self.count += other.count
        self.total += other.total


# PutRecord's values are collected and added 512 at a time, which halves the time that counting takes.
FOLD_AT = 512

# (metric, shard id or "", consumer name or "")
Key = tuple[str, str, str]


class StreamCounters:
    """The counts of one stream. Thread-safe; `take` resets them."""

    __slots__ = ("_get_records", "_put_record", "_put_records", "_singles", "lock", "stats")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._singles: deque[tuple[int, int]] = deque()
        self._start()

    def _start(self) -> None:
        self.stats: defaultdict[Key, Stat] = defaultdict(Stat)
        stats = self.stats
        # Look these up once: a dictionary lookup with a tuple costs more than the counting.
        self._put_record = [stats["PutRecord." + n, "", ""] for n in ("Bytes", "Latency")]
        names = ("Bytes", "Latency", "SuccessfulRecords", "TotalRecords")
        self._put_records = [stats["PutRecords." + name, "", ""] for name in names]
        names = ("Bytes", "Latency", "Records")
        self._get_records = [stats["GetRecords." + name, "", ""] for name in names]
        self._get_records.append(stats["GetRecords.IteratorAgeMilliseconds", "", ""])

    def take(self) -> dict[Key, Stat]:
        """Return the counts since the last call, and reset them."""
        with self.lock:
            self._fold()
            taken = self.stats
            self._start()
        return {key: stat for key, stat in taken.items() if stat.count}

    def put_record(self, data_bytes: int, latency_ms: int) -> None:
        """Count a PutRecord that stored its record."""
        # No lock is needed: append and popleft of a deque are atomic.
        self._singles.append((data_bytes, latency_ms))
        if len(self._singles) >= FOLD_AT:
            with self.lock:
                self._fold()

    def put_record_often(self, sizes: Sequence[int], latency_ms: int) -> None:
        """Count PutRecords, at least one, that have stored records of these sizes together."""
        with self.lock:
            size, latency = self._put_record
            size.note_all(sizes)
            latency.note_many(latency_ms, len(sizes))

    def _fold(self) -> None:
        singles = self._singles
        lot = [singles.popleft() for _ in range(len(singles))]
        if lot:
            size, latency = self._put_record
            size.note_all([data_bytes for data_bytes, _ in lot])
            latency.note_all([latency_ms for _, latency_ms in lot])

    def put_records(self, data_bytes: int, stored: int, total: int, latency_ms: int) -> None:
        """Count a PutRecords."""
        with self.lock:
            size, latency, successful, records = self._put_records
            size.note(data_bytes)
            latency.note(latency_ms)
            successful.note(stored)
            records.note(total)
            if not stored:
                self.stats["PutRecords.Success", "", ""].note(0)

    def refused(self, operation: str, throttled: int, failed: int) -> None:
        """Count the records of one request that were not stored."""
        with self.lock:
            stats = self.stats
            if operation == "PutRecords":
                stats["PutRecords.ThrottledRecords", "", ""].note(throttled)
                stats["PutRecords.FailedRecords", "", ""].note(failed)
            else:
                stats["PutRecord.Success", "", ""].note(0)
            if throttled:
                stats["WriteProvisionedThroughputExceeded", "", ""].note(throttled)

    def get_records(self, data_bytes: int, records: int, behind_ms: int, latency_ms: int) -> None:
        """Count a GetRecords."""
        with self.lock:
            size, latency, count, age = self._get_records
            size.note(data_bytes)
            latency.note(latency_ms)
            count.note(records)
            age.note(behind_ms)

    def note(self, metric: str, value: int, *, shard: str = "", consumer: str = "") -> None:
        """Count a value of any metric of the stream, of a shard or of a consumer."""
        with self.lock:
            self.stats[metric, shard, consumer].note(value)


Wake = Callable[[], None]
StreamMode = Literal["PROVISIONED", "ON_DEMAND"]
Distribution = Literal["USER_PARTITION_KEY", "AUTO"]
StreamStatus = Literal["CREATING", "ACTIVE", "UPDATING", "DELETING"]
ConsumerStatus = Literal["CREATING", "ACTIVE", "DELETING"]
CommitmentStatus = Literal["ENABLED", "DISABLED", "ENABLED_UNTIL_EARLIEST_ALLOWED_END"]

COMMITMENT_MS = 24 * 3_600_000
_SHARD_ID = re.compile(r"(?:[^-]*-)?0*([0-9]{1,10})")


@dataclass(slots=True)
class Shard:
    """A shard: its hash key range, its parents and its log.

    `closed_ms` is the time of the split or merge that closed the shard, or None while it is open; see `set_closed`.
    """

    number: int
    starting_hash_key: int
    ending_hash_key: int
    created_ms: int
    created_s: int
    parent: str | None = None
    adjacent_parent: str | None = None
    closed_ms: int | None = None
    log: ShardLog | None = None
    # AWS's id: `shardId-` and twelve digits. Stored in a field, since every put needs it.
    shard_id: str = field(init=False)
    # The part that all sequence numbers of the shard have in common; every read needs it.
    base: SequenceBase = field(init=False)
    # What consumers are told of the shard; they ask before every read.
    info: ShardInfo = field(init=False)

    def __post_init__(self) -> None:
        self.shard_id = shard_id_of(self.number)
        self.base = SequenceBase(self.created_s, self.number)
        self.set_closed(self.closed_ms)

    def set_closed(self, closed_ms: int | None) -> None:
        """Note when a reshard closed the shard, or with None that it is open."""
        self.closed_ms = closed_ms
        self.info = ShardInfo(
            shard_id=self.shard_id,
            parent_ids=tuple(self.parents),
            starting_hash_key=self.starting_hash_key,
            ending_hash_key=self.ending_hash_key,
            ending_sequence_number=self.ending_sequence_number,
            starting_sequence_number=self.starting_sequence_number,
        )

    @property
    def starting_sequence_number(self) -> str:
        """A sequence number below that of every record."""
        return self.base.text(0, self.created_s * 1000)

    @property
    def ending_sequence_number(self) -> str | None:
        """A sequence number above that of every record; None while the shard is open."""
        if self.closed_ms is None:
            return None
        return self.base.text(MAX_INDEX, self.closed_ms)

    @property
    def parents(self) -> list[str]:
        """The ids of the parent shards."""
        return [parent for parent in (self.parent, self.adjacent_parent) if parent]

    def document(self) -> dict[str, Any]:
        """Return the shard's document."""
        value = {name: getattr(self, name) for name in _SHARD_FIELDS}
        # Hash keys are stored as text: SQLite and others read at most 64 bits from a JSON number.
        value["starting_hash_key"] = str(self.starting_hash_key)
        value["ending_hash_key"] = str(self.ending_hash_key)
        return value

    @staticmethod
    def from_document(value: dict[str, Any]) -> Shard:
        """Return the shard that a document describes."""
        fields = dict(value)
        fields["starting_hash_key"] = int(value["starting_hash_key"])
        fields["ending_hash_key"] = int(value["ending_hash_key"])
        return Shard(**fields)


_SHARD_FIELDS = (
    "number",
    "starting_hash_key",
    "ending_hash_key",
    "created_ms",
    "created_s",
    "parent",
    "adjacent_parent",
    "closed_ms",
)


@dataclass(slots=True)
class Stream:
    """A stream of one account and region. A stream that is deleted and created again has a new `stream_id`."""

    name: str
    account: str
    region: str
    stream_id: str
    created_ms: int
    mode: StreamMode = "PROVISIONED"
    retention_hours: int = 24
    max_record_bytes: int = 1024 * 1024
    encryption_type: str = "NONE"
    key_id: str | None = None
    tags: dict[str, str] = field(default_factory=dict[str, str])
    enhanced_metrics: list[str] = field(default_factory=list[str])
    warm_throughput_mibps: int | None = None
    distribution: Distribution = "USER_PARTITION_KEY"
    policy: str | None = None
    # The status that was set last, and when it ends; ACTIVE and 0 when no change is in progress.
    latest_status: StreamStatus = "ACTIVE"
    settles_ms: int = 0
    # The times of recent calls, for each operation with a quota per rolling day.
    used_ms: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    # On-demand streams only: the busiest minute's traffic, in shards, for each day (counted from 1970).
    daily_peaks: dict[str, float] = field(default_factory=dict[str, float])
    shards: list[Shard] = field(default_factory=list[Shard])
    # Not stored: the counts for CloudWatch's metrics.
    counters: StreamCounters = field(default_factory=StreamCounters)
    # Not stored: the open shard that takes the next record, if records are spread evenly.
    turn: int = 0
    # Not stored: called when there are new records. `StreamRegistry.subscribe` replaces the whole tuple.
    listeners: tuple[Wake, ...] = ()
    # Not stored: the open shards sorted by range, and the first hash key (16 bytes) of each. A reshard replaces the
    # whole tuple, so that a simultaneous put sees either the old shards or the new ones.
    routes: tuple[list[Shard], list[bytes]] = field(default_factory=lambda: ([], []))

    @property
    def arn(self) -> str:
        """The stream's ARN."""
        return make_arn("kinesis", self.region, self.account, f"stream/{self.name}")

    def status(self, now_ms: int) -> StreamStatus:
        """Return AWS's status. A stream that is DELETING stays so until it is removed."""
        if self.latest_status not in ("ACTIVE", "DELETING") and now_ms >= self.settles_ms:
            self.latest_status, self.settles_ms = "ACTIVE", 0
        return self.latest_status

    @property
    def created_at(self) -> datetime:
        """The creation time in whole seconds, as AWS shows it."""
        return datetime.fromtimestamp(self.created_ms // 1000, UTC)

    @property
    def public_id(self) -> str:
        """AWS's StreamId. A stream that is deleted and created again has a new one."""
        return f"{self.stream_id[:20]}-{self.stream_id[20:23]}"

    @property
    def open_shards(self) -> list[Shard]:
        """The shards that take records, sorted by hash key range."""
        return self.routes[0]

    def index_routes(self) -> None:
        """Set `routes` from the present shards."""
        opened = sorted(
            (shard for shard in self.shards if shard.closed_ms is None),
            key=lambda shard: shard.starting_hash_key,
        )
        starts = [shard.starting_hash_key.to_bytes(16, "big") for shard in opened]
        self.routes = (opened, starts)

    def shard(self, shard_id: str) -> Shard | None:
        """Return a shard by id, open or closed."""
        number = shard_number_of(shard_id)
        if number is None:
            return None
        # Shard numbers ascend and are never reused; retention mostly removes the first shards.
        first = self.shards[0].number if self.shards else 0
        at = number - first
        if 0 <= at < len(self.shards) and self.shards[at].number == number:
            return self.shards[at]
        return next((shard for shard in self.shards if shard.number == number), None)

    def document(self) -> dict[str, Any]:
        """Return the stream's document."""
        value = {name: getattr(self, name) for name in _STREAM_FIELDS}
        value["passing"] = self.latest_status
        value["shards"] = [shard.document() for shard in self.shards]
        return value

    def restore(self, stored: Stream) -> None:
        """Set every stored field, except the shards, to its value in `stored`."""
        for name in (*_STREAM_FIELDS, "latest_status"):
            setattr(self, name, getattr(stored, name))

    @staticmethod
    def from_document(value: dict[str, Any]) -> Stream:
        """Return the stream that a document describes; its shards have no logs yet."""
        # A document from an older version may lack fields; they get their defaults.
        fields = {name: value[name] for name in _STREAM_FIELDS if name in value}
        stream = Stream(**fields, latest_status=value.get("passing", "ACTIVE"))
        stream.shards = [Shard.from_document(shard) for shard in value["shards"]]
        return stream


_STREAM_FIELDS = (
    "name",
    "account",
    "region",
    "stream_id",
    "created_ms",
    "mode",
    "retention_hours",
    "max_record_bytes",
    "encryption_type",
    "key_id",
    "tags",
    "enhanced_metrics",
    "warm_throughput_mibps",
    "distribution",
    "policy",
    "settles_ms",
    "used_ms",
    "daily_peaks",
)


@dataclass(slots=True)
class Consumer:
    """A consumer (enhanced fan-out) of the stream with `stream_id`.

    `active_at_ms` ends CREATING; `gone_at_ms`, set when it is deregistered, ends DELETING.
    """

    name: str
    stream_id: str
    arn: str
    created_ms: int
    active_at_ms: int
    gone_at_ms: int | None = None
    tags: dict[str, str] = field(default_factory=dict[str, str])
    policy: str | None = None

    def status(self, now_ms: int) -> ConsumerStatus:
        """Return AWS's status."""
        if self.gone_at_ms is not None:
            return "DELETING"
        return "ACTIVE" if now_ms >= self.active_at_ms else "CREATING"

    @property
    def created_s(self) -> int:
        """The creation time in seconds, which is part of the ARN."""
        return self.created_ms // 1000


@dataclass(frozen=True, slots=True)
class Commitment:
    """The minimum throughput billing commitment of an account in a region.

    `started_ms` is 0 when there never was a commitment; `ends_ms` is None until somebody ends it. A commitment lasts at
    least 24 hours, even when it is ended earlier. Source: API_UpdateAccountSettings and the developer guide's page on
    on-demand Advantage (documented).
    """

    started_ms: int = 0
    ends_ms: int | None = 0

    @property
    def earliest_end_ms(self) -> int:
        """The earliest time at which the commitment may end."""
        return self.started_ms + COMMITMENT_MS

    def status(self, now_ms: int) -> CommitmentStatus:
        """Return AWS's status."""
        if self.ends_ms is None:
            return "ENABLED"
        return "ENABLED_UNTIL_EARLIEST_ALLOWED_END" if self.ends_ms > now_ms else "DISABLED"


@functools.lru_cache(maxsize=10_000)
def shard_id_of(number: int) -> str:
    """Return `shardId-000000000007` for 7."""
    return f"shardId-{number:012d}"


@functools.lru_cache(maxsize=10_000)
def shard_number_of(shard_id: str) -> int | None:
    """Return 7 for `shardId-000000000007`, `shard-7`, `-7` and `7`, as AWS does, or None for any other text.

    Source: kinesalite (observed).
    """
    match = _SHARD_ID.fullmatch(shard_id)
    number = -1 if match is None else int(match[1])
    return number if 0 <= number < 1 << 31 else None


def even_ranges(count: int) -> list[tuple[int, int]]:
    """Divide the 2^128 hash keys into `count` equal ranges as AWS does: the last one takes the remainder."""
    step = HASH_KEYS // count
    return [
        (i * step, (i + 1) * step - 1 if i < count - 1 else HASH_KEYS - 1) for i in range(count)
    ]


def even_shards(count: int, now_ms: int) -> list[Shard]:
    """Return the shards of a new stream, which divide the hash keys evenly."""
    return [
        Shard(
            number=number,
            starting_hash_key=start,
            ending_hash_key=end,
            created_ms=now_ms,
            created_s=now_ms // 1000,
        )
        for number, (start, end) in enumerate(even_ranges(count))
    ]


def _quickest_md5() -> Callable[..., Any]:
    """Return Python's built-in MD5 if this Python has it: for short texts it takes half the time of OpenSSL's."""
    try:
        return importlib.import_module("_md5").md5
    except ImportError:
        return hashlib.md5


_md5 = _quickest_md5()


@functools.lru_cache(maxsize=65_536)
def hash_key_of(partition_key: str) -> bytes:
    """Return the 128-bit hash key of a partition key, which is its MD5. Cached, since keys repeat."""
    return _md5(partition_key.encode(), usedforsecurity=False).digest()
