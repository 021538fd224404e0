"""Which keys of a shard have its load: SpaceSaving (Metwally et al. 2005), and the hash key that halves the load."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass


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
