"""Limits the rate of a shard's reads: Kinesis allows five calls and 2 MiB a second.

Documented: a call may return up to 10 MiB at once, and then calls are refused for five seconds. So a call waits until
the earlier calls' bytes are within the rate.
"""

from __future__ import annotations

_CALLS_AT_ONCE = 5
_NOTHING_S = 1e-6


class Pace:
    """One shard's allowance. Times are seconds of a clock that only goes forward. Used by one thread at a time.

    Args:
        interval_s: the average interval between two calls; up to five may come at once.
        bytes_per_s: the average rate; one call may return more, and the next one waits accordingly.
    """

    def __init__(self, interval_s: float, bytes_per_s: float) -> None:
        self._interval_s = interval_s
        self._bytes_per_s = bytes_per_s
        # When the allowance is full again if there are no more calls.
        self._calls_full_s = float("-inf")
        self._bytes_full_s = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """Return how long the next call must wait, or 0."""
        calls = self._calls_full_s - (_CALLS_AT_ONCE - 1) * self._interval_s - now_s
        wait = max(calls, self._bytes_full_s - now_s)
        return wait if wait > _NOTHING_S else 0.0

    def spend(self, data_bytes: int, now_s: float) -> None:
        """Count a call that returned so many bytes."""
        self._calls_full_s = max(self._calls_full_s, now_s) + self._interval_s
        self._bytes_full_s = max(self._bytes_full_s, now_s) + data_bytes / self._bytes_per_s
