"""Paces the reads of a shard: Kinesis allows five calls and 2 MiB a second.

Documented: a call may give up to 10 MiB at once, and the calls of the next five seconds are then refused. So a call
waits until what the last ones gave has been paid for.
"""

from __future__ import annotations

_CALLS_AT_ONCE = 5
_NOTHING_S = 1e-6


class Pace:
    """One shard's allowance. Times are seconds of a clock that only goes forward. Used by one thread at a time.

    Args:
        interval_s: between two calls on average; up to five may come at once.
        bytes_per_s: on average; one call may give more, and the next waits for as long as that takes.
    """

    def __init__(self, interval_s: float, bytes_per_s: float) -> None:
        self._interval_s = interval_s
        self._bytes_per_s = bytes_per_s
        # When the allowance would be full again, were nothing more taken.
        self._calls_full_s = float("-inf")
        self._bytes_full_s = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """Return how long the next call must wait; 0 when it need not."""
        calls = self._calls_full_s - (_CALLS_AT_ONCE - 1) * self._interval_s - now_s
        wait = max(calls, self._bytes_full_s - now_s)
        return wait if wait > _NOTHING_S else 0.0

    def spend(self, data_bytes: int, now_s: float) -> None:
        """Count a call that has given so many bytes."""
        self._calls_full_s = max(self._calls_full_s, now_s) + self._interval_s
        self._bytes_full_s = max(self._bytes_full_s, now_s) + data_bytes / self._bytes_per_s
