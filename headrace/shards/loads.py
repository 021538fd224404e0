"""What a policy sees of a stream (open shards, use of each, which keys use it), and the policy's settings.

Which keys of a shard have its load: SpaceSaving (Metwally et al. 2005), and the hash key that halves the load.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.client.hash_keys import ShardRange


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key and its share (0 to 1) of its shard's load, at least."""

    hash_key: int
    key: str
    share: float


@dataclass(frozen=True, slots=True)
class Cut:
    """Where to split a shard.

    Attributes:
        hash_key: the first hash key of the second child.
        heavier: the share of the load (0 to 1) that the child with more of it gets.
    """

    hash_key: int
    heavier: float


class KeySketch:
    """The loads of the heaviest keys in bounded memory. Not thread-safe.

    A key's load is too high by at most `total / most_keys`; how much that may be is kept for each. With fewer keys
    than `most_keys` all loads are exact.
    """

    def __init__(self, most_keys: int = 256) -> None:
        """Take how many keys are kept."""
        self._most_keys = most_keys
        # By hash key: its load, how much of that may be other keys', its name.
        self._counters: dict[int, tuple[float, float, str]] = {}
        # Loads as they were, the least first: a counter has grown since, so that they are looked at again.
        self._least: list[tuple[float, int]] = []
        self.total = 0.0

    def add(self, hash_key: int, key: str, weight: float) -> None:
        """Add the load of a record."""
        self.total += weight
        counters = self._counters
        counter = counters.get(hash_key)
        if counter is not None:
            counters[hash_key] = (counter[0] + weight, counter[1], counter[2])
            return
        excess = 0.0
        if len(counters) >= self._most_keys:
            excess, least = self._pop_least()
            del counters[least]
        counters[hash_key] = (excess + weight, excess, key)
        heapq.heappush(self._least, (excess + weight, hash_key))

    def _pop_least(self) -> tuple[float, int]:
        while True:
            load, hash_key = self._least[0]
            now = self._counters[hash_key][0]
            if now == load:
                return heapq.heappop(self._least)
            heapq.heapreplace(self._least, (now, hash_key))

    def hottest(self, count: int) -> list[HotKey]:
        """Return the keys with the highest loads, the highest first."""
        sure = [(load - excess, h, key) for h, (load, excess, key) in self._counters.items()]
        best = heapq.nlargest(count, sure)
        return [HotKey(h, key, load / self.total) for load, h, key in best if load > 0]

    def cut(self, start: int, end: int) -> Cut | None:
        """Return where to split a shard of these hash keys; None when no hash key would part its load."""
        points = ((h, load - excess) for h, (load, excess, _) in self._counters.items())
        return cut_of(points, self.total, start, end)


def cut_of(points: Iterable[tuple[int, float]], total: float, start: int, end: int) -> Cut | None:
    """Return the cut between two keys that parts the load best, or None.

    Args:
        points: hash keys and their loads.
        total: of all keys; what no point has is taken to lie on both sides alike.
        start: the shard's first hash key.
        end: its last.
    """
    inside = sorted((h, load) for h, load in points if start <= h <= end and load > 0)
    known = sum(load for _, load in inside)
    rest = max(0.0, total - known) / 2
    best: Cut | None = None
    left = 0.0
    for (hash_key, load), (following, _) in itertools.pairwise(inside):
        left += load
        # SplitShard takes what leaves more than one hash key on either side (observed: InvalidArgumentException).
        middle = min(max((hash_key + following + 1) // 2, start + 2), end - 1)
        if not max(hash_key, start + 1) < middle <= following:
            continue
        heavier = (max(left, known - left) + rest) / (known + 2 * rest)
        if best is None or heavier < best.heavier:
            best = Cut(middle, heavier)
    return best


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


MOST_SHARDS = 10_000  # UpdateShardCount's own limit (documented: API_UpdateShardCount)


@dataclass(frozen=True, slots=True)
class Settings:
    """How shards follow the load. Raises ValueError for what makes no sense.

    Attributes:
        min_shards, max_shards: the bounds of the count of open shards.
        target_utilisation: the share of its quota that a shard shall use. A shard is hot in the upper half of what is
            left above it; two neighbours are cold when they would use less than `merge_share` of it together. The
            wide gap keeps shards from being split and merged in turn.
        merge_share: see above.
        hot_periods: how many periods in a row a shard is hot before it is split; one that is full is split at once.
        cold_for_s: how long neighbours are cold before they are merged.
        reshard_s: how long one split or merge takes, until another one is measured; AWS does one after the other
            (assumed: half a minute; users report 20 to 40 s).
        resize_after_s: when single splits or merges would take longer, UpdateShardCount is looked at.
        may_resize: whether it may be called; else it is only advised.
        behind_ms: readers further behind than this keep their shards from being merged.
        period_s: how long it is from one look to the next.
    """

    min_shards: int = 1
    max_shards: int = 500
    target_utilisation: float = 0.6
    merge_share: float = 0.6
    hot_periods: int = 2
    cold_for_s: float = 600.0
    reshard_s: float = 30.0
    resize_after_s: float = 900.0
    may_resize: bool = True
    behind_ms: float = 60_000.0
    period_s: float = 60.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_shards <= self.max_shards <= MOST_SHARDS:
            raise ValueError(
                f"min_shards and max_shards are 1 to {MOST_SHARDS}, the lower one first,"
                f" not {self.min_shards} and {self.max_shards}"
            )
        if not 0.1 <= self.target_utilisation <= 0.9:
            raise ValueError(
                f"target_utilisation is between 0.1 and 0.9, not {self.target_utilisation}"
            )
        if not 0 < self.merge_share < 1 or self.hot_periods < 1 or self.cold_for_s < 0:
            raise ValueError(
                "merge_share is between 0 and 1, hot_periods at least 1, cold_for_s not negative"
            )
        if self.period_s <= 0 or self.reshard_s < 0:
            raise ValueError("period_s is positive, reshard_s not negative")

    @property
    def split_at(self) -> float:
        """The utilisation from which on a shard is hot."""
        return (1 + self.target_utilisation) / 2

    @property
    def merge_at(self) -> float:
        """The utilisation of two neighbours together up to which they are cold."""
        return self.target_utilisation * self.merge_share
