"""Estimates quantiles of numbers in bounded memory: a mergeable KLL sketch. Spark itself has one only from 4.1 on.

The sketch keeps its numbers in levels; a number in level h stands for 2**h numbers. A full level is sorted, and every
second of its numbers, starting with the first or the second as a coin decides, moves up; the others are dropped. Each
level below the highest is smaller by a third: K numbers in the highest, at most 3 K in all (Karnin, Lang, Liberty:
"Optimal Quantile Approximation in Streams", 2016). With K = 200, a number's rank is wrong by at most 1.65 % of all
numbers in 99 % of cases.

The coin is a hash of the level's numbers: the same numbers in the same order give the same sketch in every run.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

K = 200
SHRINK = 2 / 3
LEAST = 8


class Quantiles:
    """A sketch of whole numbers that estimates their quantiles. For one thread.

    Attributes:
        count: the number of numbers added.
    """

    def __init__(self) -> None:
        self.count = 0
        self._levels: list[list[int]] = [[]]

    def add(self, values: Iterable[int]) -> None:
        """Add `values`."""
        for value in values:
            self.count += 1
            self._levels[0].append(value)
            if len(self._levels[0]) >= self._room(0):
                self._compact()

    def merge(self, other: Quantiles) -> None:
        """Add the numbers of `other`, which does not change."""
        self.count += other.count
        for height, values in enumerate(other._levels):
            if height == len(self._levels):
                self._levels.append([])
            self._levels[height] += values
        self._compact()

    def quantile(self, share: float) -> int | None:
        """Return the smallest number with at least a `share` (0 to 1) of all numbers up to it; None if empty."""
        weighted = sorted(
            (value, 1 << height) for height, level in enumerate(self._levels) for value in level
        )
        target_weight = max(1, math.ceil(share * sum(weight for _, weight in weighted)))
        passed = 0
        for value, weight in weighted:
            passed += weight
            if passed >= target_weight:
                return value
        return None

    def pack(self) -> bytes:
        """Return the sketch as JSON; `unpack` reads it."""
        return json.dumps({"count": self.count, "levels": self._levels}).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Quantiles:
        """Return the sketch from the JSON of `pack`."""
        read = json.loads(data)
        result = cls()
        result.count, result._levels = read["count"], read["levels"]
        return result

    def _room(self, height: int) -> int:
        """Return how many numbers fit into a level."""
        return max(LEAST, math.ceil(K * SHRINK ** (len(self._levels) - 1 - height)))

    def _compact(self) -> None:
        """Halve every level that is full, from the lowest up."""
        height = 0
        while height < len(self._levels):
            level = self._levels[height]
            if len(level) >= self._room(height):
                if height + 1 == len(self._levels):
                    self._levels.append([])
                coin = zlib.crc32(repr((height, level)).encode()) & 1
                # Of an odd number of numbers, one stays.
                rest = [level.pop()] if len(level) % 2 else []
                level.sort()
                self._levels[height + 1] += level[coin::2]
                self._levels[height] = rest
            height += 1


def sketches_of(batches: Iterable[Any]) -> Iterator[Any]:
    """Return each name and its sketch from a partition's Arrow batches (name, whole number). For mapInArrow."""
    import pyarrow as pa

    quantiles: dict[str, Quantiles] = {}
    for batch in batches:
        for name, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist()):
            quantiles.setdefault(name, Quantiles()).add((value,))
    if quantiles:
        columns = [
            pa.array(list(quantiles), pa.string()),
            pa.array([sketch.pack() for sketch in quantiles.values()], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["name", "sketch"])


def merged(packed: Iterable[bytes]) -> Quantiles:
    """Return the merged sketch of several packed ones."""
    result = Quantiles()
    for data in packed:
        result.merge(Quantiles.unpack(data))
    return result
