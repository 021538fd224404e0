"""Aggregates the metrics of puts and calls, so that CloudWatch gets one value a second instead of one per request."""

from __future__ import annotations

import threading

from headrace.services.firehose.metrics import EMITTED, Measure

Statistics = tuple[float, float, float, float]


class Tally:
    """The count, sum, minimum and maximum of each metric. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, Statistics] = {}

    def note(self, *values: tuple[str, float]) -> None:
        """Add metric values."""
        with self._lock:
            tally = self._found
            for name, value in values:
                known = tally.get(name)
                if known is None:
                    tally[name] = (1, value, value, value)
                    continue
                count, total, least, most = known
                tally[name] = (count + 1, total + value, min(least, value), max(most, value))

    def take(self) -> list[tuple[Measure, Statistics]]:
        """Return the values since the last call, and reset them."""
        with self._lock:
            tally, self._found = self._found, {}
        return [((name, 0.0, EMITTED[name]), statistics) for name, statistics in tally.items()]
