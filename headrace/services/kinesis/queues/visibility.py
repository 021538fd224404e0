"""The times at which records in flight become visible again: a heap of lots, each from one receive.

Acknowledged records stay in the heap until their time, or until they outnumber those in flight; then it is swept.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

Place = tuple[int, int]
_STALE_AT_MOST = 1024


class VisibilityTimes:
    """Not thread-safe; the queue's deliveries hold their lock around every call.

    Attributes:
        count: the records in the heap, those that were acknowledged or received again included.
    """

    def __init__(self) -> None:
        self.count = 0
        self._heap: list[tuple[int, int, int, list[Place]]] = []
        self._turn = 0

    def add(self, visible_ms: int, receipt: int, places: list[Place]) -> None:
        """Note that the records at `places` (shard number, index) become visible at a time."""
        self._turn += 1
        self.count += len(places)
        heapq.heappush(self._heap, (visible_ms, self._turn, receipt, places))

    @property
    def next_ms(self) -> int | None:
        """The earliest time in the heap, or None."""
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[tuple[int, Place]]:
        """Remove and yield (receipt, place) of the records whose time has come, in the order of their times."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, receipt, places = heapq.heappop(self._heap)
            self.count -= len(places)
            for record_key in places:
                yield receipt, record_key

    def sweep(self, in_flight: int, is_current: Callable[[int, int, Place], bool]) -> None:
        """Drop outdated entries once they are the most. `is_current` takes a time, a receipt and a place."""
        if self.count <= 2 * in_flight + _STALE_AT_MOST:
            return
        swept: list[tuple[int, int, int, list[Place]]] = []
        for visible_ms, turn, receipt, places in self._heap:
            left = [
                record_key for record_key in places if is_current(visible_ms, receipt, record_key)
            ]
            if left:
                swept.append((visible_ms, turn, receipt, left))
        heapq.heapify(swept)
        self._heap = swept
        self.count = sum(len(places) for _, _, _, places in swept)
