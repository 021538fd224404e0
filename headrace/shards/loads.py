"""What a policy sees of a stream: its open shards, how much of each is used, and which keys use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.client.hash_keys import ShardRange
from headrace.shards.sketch import Cut, HotKey

# A shard's write quotas (documented: service-sizes-and-limits.html).
SHARD_BYTES_PER_S = 1 << 20
SHARD_RECORDS_PER_S = 1000


class KeyLoads(Protocol):
    """The keys of one shard."""

    def hottest(self, count: int) -> list[HotKey]:
        """Return the keys with the highest loads, the highest first."""
        ...

    def cut(self, start: int, end: int) -> Cut | None:
        """Return where a split parts the load best, or None when nothing parts it."""
        ...


class LoadsByShard(Protocol):
    """The keys of each shard, by its id."""

    def get(self, shard_id: str, /) -> KeyLoads | None:
        """Return a shard's keys, or None when nothing is known of them."""
        ...


@dataclass(frozen=True, slots=True)
class StreamLoad:
    """One look at a stream. The columns have one entry for each shard, in the order of `shards`; nothing changes later.

    Attributes:
        shards: the open shards, by their first hash key.
        utilisation: the used share of each shard's write quota, bytes or records, whichever is more; beyond 1 when
            more was offered than taken.
        keys: the keys of each shard.
        throttled: records per second that a shard refused, by its id; those without are not known to refuse any.
        iterator_age_ms: how far its slowest reader is behind, by its id, where that is known.
        bytes_per_s, records_per_s: of the whole stream.
        record_bytes: the sizes of the records that were read, keys included.
    """

    shards: Sequence[ShardRange]
    utilisation: Sequence[float]
    keys: LoadsByShard = field(default_factory=dict[str, KeyLoads])
    throttled: Mapping[str, float] = field(default_factory=dict[str, float])
    iterator_age_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    bytes_per_s: float = 0.0
    records_per_s: float = 0.0
    record_bytes: Sequence[int] = ()


def utilisation_of(bytes_per_s: float, records_per_s: float) -> float:
    """Return the used share of a shard's write quota."""
    return max(bytes_per_s / SHARD_BYTES_PER_S, records_per_s / SHARD_RECORDS_PER_S)


def weight_of(data_bytes: int) -> float:
    """Return the share of a shard's second that a record takes."""
    return max(data_bytes / SHARD_BYTES_PER_S, 1 / SHARD_RECORDS_PER_S)
