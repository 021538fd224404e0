"""Finds the most frequent names in bounded memory: a count-min table and a heap of candidates, both of which merge.

A count-min table of DEPTH rows and WIDTH cells never counts too low, and for n items it counts a name too high by more
than e n / WIDTH with a probability of at most exp(-DEPTH). The heap holds the CANDIDATES names with the highest
estimates.

**Guarantee.** A name with a share s of all items has at least that share in one of the items' partitions. There its
estimate is at least s n. Names with an estimate that high have a true share of s - e / WIDTH or more, so there are
fewer than 1 / (s - e / WIDTH) of them. So a name with s > 1 / CANDIDATES + e / WIDTH is a candidate of that partition,
and the union of the partitions' candidates has it, in any order and number of merges.
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
    """Return the cell of `name` in each of the table's rows."""
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
        # The lowest first. Estimates only grow: an entry lower than its name's estimate in `_estimates` is stale.
        self._heap: list[tuple[int, str]] = []

    def add(self, name: str, count: int = 1) -> None:
        """Count `name`."""
        self.total += count
        places = cells(name)
        for column in places:
            self._table[column] += count
        self._offer(name, min(self._table[column] for column in places))

    def estimate(self, name: str) -> int:
        """Return an estimate of how often `name` came; it is never too low."""
        return min(self._table[cell] for cell in cells(name))

    def candidates(self) -> list[tuple[str, int]]:
        """Return the names with the highest estimates, and these, highest first; at most CANDIDATES."""
        return sorted(self._estimates.items(), key=lambda item: (-item[1], item[0]))

    def merge(self, other: HeavyHitters) -> None:
        """Add the counts of `other`, as if all had been counted here; `other` does not change."""
        self.total += other.total
        for column, count in enumerate(other._table):
            self._table[column] += count
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
    """Return the candidates (name, estimate) of a partition's Arrow batches of one column of names. For mapInArrow."""
    import pyarrow as pa

    counted = HeavyHitters()
    for batch in batches:
        # Each distinct name of a batch, with its count: so Python's work grows with the names, not with the rows.
        for pair in batch.column(0).value_counts().to_pylist():
            if pair["values"] is not None:
                counted.add(pair["values"], pair["counts"])
    candidates = counted.candidates()
    if candidates:
        names, estimates = zip(*candidates)
        columns = [pa.array(names, pa.string()), pa.array(estimates, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, names=["name", "estimate"])
