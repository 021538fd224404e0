"""Estimates quantiles of numbers in bounded memory: a KLL sketch, which merges. Spark itself has one from 4.1 on only.

The numbers lie in levels; one of level h stands for 2**h numbers. A level that is full is sorted, and every second of
its numbers, from the first or the second on as a coin falls, moves up; the others go. Levels below the highest are
smaller by a third each: K numbers in the highest, 3 K in all at most (Karnin, Lang, Liberty: "Optimal Quantile
Approximation in Streams", 2016). With K = 200, a number's rank is wrong by at most 1.65 % of all numbers in 99 % of
cases.

The coin is a hash of what the level holds: the same numbers in the same order give the same sketch in every run.
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
    """Takes whole numbers, and estimates their quantiles. For one thread.

    Attributes:
        count: how many numbers it has taken.
    """

    def __init__(self) -> None:
        self.count = 0
        self._levels: list[list[int]] = [[]]

    def add(self, values: Iterable[int]) -> None:
        """Take `values` in."""
        for value in values:
            self.count += 1
            self._levels[0].append(value)
            if len(self._levels[0]) >= self._room(0):
                self._compact()

    def merge(self, other: Quantiles) -> None:
        """Take in what `other` has taken; `other` stays as it is."""
        self.count += other.count
        for height, values in enumerate(other._levels):
            if height == len(self._levels):
                self._levels.append([])
            self._levels[height] += values
        self._compact()

    def quantile(self, share: float) -> int | None:
        """Return the least number that has at least a `share` (0 to 1) of all up to it; None when there is none."""
        weighted = sorted(
            (value, 1 << height) for height, level in enumerate(self._levels) for value in level
        )
        wanted = max(1, math.ceil(share * sum(weight for _, weight in weighted)))
        passed = 0
        for value, weight in weighted:
            passed += weight
            if passed >= wanted:
                return value
        return None

    def pack(self) -> bytes:
        """Return it as JSON; `unpack` reads it."""
        return json.dumps({"count": self.count, "levels": self._levels}).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Quantiles:
        """Return the sketch that `pack` has written."""
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
                # One is left over of an odd number: it stays.
                rest = [level.pop()] if len(level) % 2 else []
                level.sort()
                self._levels[height + 1] += level[coin::2]
                self._levels[height] = rest
            height += 1


def sketches_of(batches: Iterable[Any]) -> Iterator[Any]:
    """Return, of a partition's Arrow batches (name, whole number), each name and its sketch. For mapInArrow."""
    import pyarrow as pa

    found: dict[str, Quantiles] = {}
    for batch in batches:
        for name, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist()):
            found.setdefault(name, Quantiles()).add((value,))
    if found:
        columns = [
            pa.array(list(found), pa.string()),
            pa.array([sketch.pack() for sketch in found.values()], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["name", "sketch"])


def merged(packed: Iterable[bytes]) -> Quantiles:
    """Return the sketch of all that several packed ones have taken."""
    result = Quantiles()
    for data in packed:
        result.merge(Quantiles.unpack(data))
    return result
