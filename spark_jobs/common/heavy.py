"""Finds the most frequent names in bounded memory: a count-min table and a heap of candidates, both of which merge.

A count-min table of DEPTH rows and WIDTH cells never counts too low, and of n items counts one too high by more than
e n / WIDTH with a probability of at most exp(-DEPTH). The heap holds the CANDIDATES names of the highest estimates.

**What is surely found.** A name with a share s of all items has at least that share in one of the parts into which they
are cut. There its estimate is at least s n. Names with as high an estimate have a true share of s - e / WIDTH or more:
there are fewer than 1 / (s - e / WIDTH) of them. So a name with s > 1 / CANDIDATES + e / WIDTH is a candidate of that
part, and the union of the parts' candidates has it, in whatever order and however often they are merged.
"""

from __future__ import annotations

import hashlib
import heapq
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

DEPTH, WIDTH = 5, 1024
CANDIDATES = 256


def cells(name: str) -> list[int]:
    """Return the place of `name` in each of the table's rows."""
    digest = hashlib.blake2b(name.encode(), digest_size=4 * DEPTH).digest()
    return [
        row * WIDTH + int.from_bytes(digest[4 * row : 4 * row + 4], "big") % WIDTH
        for row in range(DEPTH)
    ]


class HeavyHitters:
    """Counts names one by one, in the memory of DEPTH x WIDTH numbers and CANDIDATES names. For one thread."""

    def __init__(self) -> None:
        self.total = 0
        self._table = array("q", bytes(8 * DEPTH * WIDTH))
        self._estimates: dict[str, int] = {}
        # The lowest first. Estimates only grow: an entry lower than its name's in `_estimates` is out of date.
        self._heap: list[tuple[int, str]] = []

    def add(self, name: str, count: int = 1) -> None:
        """Count `name`."""
        self.total += count
        places = cells(name)
        for place in places:
            self._table[place] += count
        self._offer(name, min(self._table[place] for place in places))

    def estimate(self, name: str) -> int:
        """Return how often `name` came: never too low."""
        return min(self._table[place] for place in cells(name))

    def candidates(self) -> list[tuple[str, int]]:
        """Return the names of the highest estimates, highest first, with these; at most CANDIDATES."""
        return sorted(self._estimates.items(), key=lambda item: (-item[1], item[0]))

    def merge(self, other: HeavyHitters) -> None:
        """Take in what `other` has counted, as if all had been counted here; `other` stays as it is."""
        self.total += other.total
        for place, count in enumerate(other._table):
            self._table[place] += count
        names = {*self._estimates, *other._estimates}
        self._estimates, self._heap = {}, []
        for name in names:
            self._offer(name, self.estimate(name))

    def _offer(self, name: str, estimate: int) -> None:
        known = name in self._estimates
        if not known and len(self._estimates) >= CANDIDATES:
            lowest, least = self._lowest()
            if estimate <= lowest:
                return
            heapq.heappop(self._heap)
            del self._estimates[least]
        self._estimates[name] = estimate
        if not known:
            heapq.heappush(self._heap, (estimate, name))

    def _lowest(self) -> tuple[int, str]:
        while True:
            estimate, name = self._heap[0]
            now = self._estimates[name]
            if now == estimate:
                return estimate, name
            heapq.heapreplace(self._heap, (now, name))


def candidates_of(batches: Iterable[Any]) -> Iterator[Any]:
    """Return, of a partition's Arrow batches (one column of names), its candidates: name, estimate. For mapInArrow."""
    import pyarrow as pa

    counted = HeavyHitters()
    for batch in batches:
        # Every name of a batch once, with its count: Python's own work is by names, not by rows.
        for pair in batch.column(0).value_counts().to_pylist():
            if pair["values"] is not None:
                counted.add(pair["values"], pair["counts"])
    found = counted.candidates()
    if found:
        names, estimates = zip(*found)
        columns = [pa.array(names, pa.string()), pa.array(estimates, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, names=["name", "estimate"])
