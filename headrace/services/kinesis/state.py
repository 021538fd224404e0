"""Streams and shards as values, and their JSON documents."""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.core.arn import make_arn
from headrace.services.kinesis.limits import HASH_KEYS
from headrace.services.kinesis.meters import StreamMeter
from headrace.store.sequence import MAX_INDEX, SequenceBase
from headrace.store.shard_log import ShardLog

StreamMode = Literal["PROVISIONED", "ON_DEMAND"]
Distribution = Literal["USER_PARTITION_KEY", "AUTO"]
StreamStatus = Literal["CREATING", "ACTIVE", "UPDATING", "DELETING"]


@dataclass(slots=True)
class Shard:
    """A shard: its range of hash keys, its lineage, and its log.

    `closed_ms` is when a split or merge ended it, None while it takes records.
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

    @property
    def shard_id(self) -> str:
        """AWS's id: `shardId-` and twelve digits."""
        return shard_id_of(self.number)

    @property
    def base(self) -> SequenceBase:
        """What its sequence numbers have in common."""
        return SequenceBase(self.created_s, self.number)

    @property
    def starting_sequence_number(self) -> str:
        """Below every record's."""
        return self.base.text(0, self.created_s * 1000)

    @property
    def ending_sequence_number(self) -> str | None:
        """Above every record's, once closed."""
        if self.closed_ms is None:
            return None
        return self.base.text(MAX_INDEX, self.closed_ms)

    @property
    def parents(self) -> list[str]:
        """The ids of the shards it was made from."""
        return [parent for parent in (self.parent, self.adjacent_parent) if parent]

    def document(self) -> dict[str, Any]:
        """Return what is stored."""
        value = {name: getattr(self, name) for name in _SHARD_FIELDS}
        # SQLite's JSON readers and others' keep 64 bits at most.
        value["starting_hash_key"] = str(self.starting_hash_key)
        value["ending_hash_key"] = str(self.ending_hash_key)
        return value

    @staticmethod
    def from_document(value: dict[str, Any]) -> Shard:
        """Return the shard that `document` stored."""
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
    """A stream of one account and region. `stream_id` tells its incarnations apart."""

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
    # What it is on its way through, until when; ACTIVE and 0 when it has settled.
    passing: StreamStatus = "ACTIVE"
    settles_ms: int = 0
    # When quotas of a rolling day were used, by quota.
    used_ms: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    # Of on-demand streams: the most shards' worth of traffic a minute of each day (days since 1970) had.
    daily_peaks: dict[str, float] = field(default_factory=dict[str, float])
    shards: list[Shard] = field(default_factory=list[Shard])
    # Not stored: what metrics count.
    meter: StreamMeter = field(default_factory=StreamMeter)
    # Not stored: the next record's turn among the open shards, when they are spread evenly.
    turn: int = 0
    # Derived: one value, so that whoever routes meanwhile sees the old or the new, never halves.
    _routes: tuple[list[Shard], list[bytes]] = field(default_factory=lambda: ([], []))

    @property
    def arn(self) -> str:
        """The stream's ARN."""
        return make_arn("kinesis", self.region, self.account, f"stream/{self.name}")

    def status(self, now_ms: int) -> StreamStatus:
        """Return AWS's word for its state. One that is DELETING stays so until it is gone."""
        if self.passing not in ("ACTIVE", "DELETING") and now_ms >= self.settles_ms:
            self.passing, self.settles_ms = "ACTIVE", 0
        return self.passing

    @property
    def public_id(self) -> str:
        """AWS's StreamId: tells incarnations of one name apart."""
        return f"{self.stream_id[:20]}-{self.stream_id[20:23]}"

    @property
    def open_shards(self) -> list[Shard]:
        """The shards that take records, by the start of their range."""
        return self._routes[0]

    def index_routes(self) -> None:
        """Make `shard_for` see the present shards."""
        opened = sorted(
            (shard for shard in self.shards if shard.closed_ms is None),
            key=lambda shard: shard.starting_hash_key,
        )
        starts = [shard.starting_hash_key.to_bytes(16, "big") for shard in opened]
        self._routes = (opened, starts)

    @property
    def routes(self) -> tuple[list[Shard], list[bytes]]:
        """The open shards, and the first hash key of each (16 bytes); both replaced whole by a reshard."""
        return self._routes

    def shard(self, shard_id: str) -> Shard | None:
        """Return a shard by id, open or closed."""
        number = shard_number_of(shard_id)
        if number is None:
            return None
        # Numbers are given in order and never reused; retention removes from the front.
        first = self.shards[0].number if self.shards else 0
        at = number - first
        if 0 <= at < len(self.shards) and self.shards[at].number == number:
            return self.shards[at]
        return next((shard for shard in self.shards if shard.number == number), None)

    def document(self) -> dict[str, Any]:
        """Return what is stored."""
        value = {name: getattr(self, name) for name in _STREAM_FIELDS}
        value["shards"] = [shard.document() for shard in self.shards]
        return value

    def take_back(self, stored: Stream) -> None:
        """Set everything but the shards to what was stored."""
        for name in _STREAM_FIELDS:
            setattr(self, name, getattr(stored, name))

    @staticmethod
    def from_document(value: dict[str, Any]) -> Stream:
        """Return the stream that `document` stored; its shards have no logs yet."""
        # A field that the version which stored it did not have yet takes its default.
        fields = {name: value[name] for name in _STREAM_FIELDS if name in value}
        stream = Stream(**fields)
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
    "passing",
    "settles_ms",
    "used_ms",
    "daily_peaks",
)


@functools.lru_cache(maxsize=10_000)
def shard_id_of(number: int) -> str:
    """Return `shardId-000000000007` for 7."""
    return f"shardId-{number:012d}"


def shard_number_of(shard_id: str) -> int | None:
    """Return 7 for `shardId-000000000007` and for `7`, as AWS does; None for anything else."""
    text = shard_id.removeprefix("shardId-")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else None


def even_ranges(count: int) -> list[tuple[int, int]]:
    """Return `count` hash-key ranges as AWS divides 2^128: equal, the last takes the rest."""
    step = HASH_KEYS // count
    return [
        (i * step, (i + 1) * step - 1 if i < count - 1 else HASH_KEYS - 1) for i in range(count)
    ]


def _quickest_md5() -> Callable[..., Any]:
    """Return Python's own MD5, half as long on the way as OpenSSL's for short texts, where it was built in."""
    try:
        return importlib.import_module("_md5").md5
    except ImportError:
        return hashlib.md5


_md5 = _quickest_md5()


@functools.lru_cache(maxsize=65_536)
def hash_key_of(partition_key: str) -> bytes:
    """Return a partition key's 128-bit hash key: its MD5. Cached: keys come again and again."""
    return _md5(partition_key.encode(), usedforsecurity=False).digest()
