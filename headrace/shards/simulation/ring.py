"""The shards of a simulated stream, and the load that each has."""

from __future__ import annotations

import itertools
from bisect import bisect_left

import numpy as np

from headrace.client.hash_keys import HASH_KEYS, ShardRange
from headrace.shards.policy import Action, Merge, Resize, Split
from headrace.shards.simulation.keyed_load import Floats, KeyedLoad
from headrace.shards.sketch import Cut, HotKey


class Ring:
    """Open shards by their first hash keys."""

    def __init__(self, load: KeyedLoad, count: int) -> None:
        """Take a load, and how many shards of equal width there are at first."""
        self._load, self._made = load, 0
        self._row = -1
        self._sums: Floats = np.zeros(0)
        # Another list after each change: a look keeps its own.
        self.shards: list[ShardRange] = []
        self._by_id: dict[str, ShardRange] = {}
        self._edges = np.zeros(0, dtype=np.int64)
        self._rates: Floats = np.zeros(0)
        self._resize(count)

    def __len__(self) -> int:
        return len(self.shards)

    def rates(self, step: int) -> Floats:
        """Return the records per second that producers offer to each shard."""
        row = int(self._load.row_of[step])
        if row != self._row:
            self._row = row
            self._sums = np.concatenate(([0.0], np.cumsum(self._load.rates[row])))
            self._rates = np.diff(self._sums[self._edges])
        result: Floats = self._rates * self._load.scales[step]
        return result

    def apply(self, action: Action) -> None:
        """Take an action of the policy."""
        match action:
            case Split():
                index = self._place_of(action.shard_id)
                shard = self.shards[index]
                children = [
                    self._new(shard.start, action.at - 1),
                    self._new(action.at, shard.end),
                ]
                self.shards = [*self.shards[:index], *children, *self.shards[index + 1 :]]
                self._edges = np.insert(self._edges, index + 1, self._edge(action.at))
            case Merge():
                index = self._place_of(action.shard_id)
                left, right = self.shards[index : index + 2]
                child = self._new(left.start, right.end)
                self.shards = [*self.shards[:index], child, *self.shards[index + 2 :]]
                self._edges = np.delete(self._edges, index + 1)
            case Resize():
                self._resize(action.count)
                return
        self._rates = np.diff(self._sums[self._edges])

    # The keys of each shard; see `headrace.shards.loads.LoadsByShard`.

    def get(self, shard_id: str, /) -> ShardKeys:
        """Return a shard's keys."""
        index = self._place_of(shard_id)
        first, last = int(self._edges[index]), int(self._edges[index + 1])
        return ShardKeys(self._load, self._row, first, last)

    def _resize(self, count: int) -> None:
        self._by_id.clear()
        starts = [HASH_KEYS * i // count for i in range(count + 1)]
        self.shards = [self._new(start, end - 1) for start, end in itertools.pairwise(starts)]
        self._edges = np.array([*map(self._edge, starts[:-1]), len(self._load.hashes)])
        if self._row >= 0:
            self._rates = np.diff(self._sums[self._edges])

    def _edge(self, hash_key: int) -> int:
        return bisect_left(self._load.hashes, hash_key)

    def _new(self, start: int, end: int) -> ShardRange:
        self._made += 1
        shard = ShardRange(f"shardId-{self._made:012d}", start, end)
        self._by_id[shard.shard_id] = shard
        return shard

    def _place_of(self, shard_id: str) -> int:
        start = self._by_id[shard_id].start
        return bisect_left(self.shards, start, key=lambda shard: shard.start)


class ShardKeys:
    """The keys of one shard; see `headrace.shards.loads.KeyLoads`."""

    def __init__(self, load: KeyedLoad, row: int, first: int, last: int) -> None:
        self._load, self._first = load, first
        self._rates: Floats = load.rates[row, first:last]

    def hottest(self, count: int) -> list[HotKey]:
        """See `KeyLoads`."""
        total = float(self._rates.sum())
        best = np.argsort(self._rates)[::-1][:count]
        return [
            HotKey(
                self._load.hashes[self._first + i],
                self._load.names[self._first + i],
                float(self._rates[i]) / total,
            )
            for i in map(int, best)
            if self._rates[i] > 0
        ]

    def cut(self, start: int, end: int) -> Cut | None:
        """See `KeyLoads`."""
        sums = np.cumsum(self._rates)
        if len(sums) < 2 or sums[-1] <= 0:
            return None
        # Between each key and the next: what the heavier side has.
        heavier = np.maximum(sums[:-1], sums[-1] - sums[:-1]) / sums[-1]
        best = int(heavier.argmin())
        left, right = self._load.hashes[self._first + best : self._first + best + 2]
        middle = min(max((left + right + 1) // 2, start + 2), end - 1)
        return Cut(middle, float(heavier[best])) if left < middle <= right else None
