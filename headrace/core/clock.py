"""The clock that everything takes as a parameter, so that tests can move the time.

Code that reads the time or waits takes a `Clock`; only this file reads the machine's clock. Tests pass a `FakeClock`
(tests/support/clock.py) and never sleep.

Limits a rate by a token bucket, which holds the tokens of one second at most. Not thread-safe.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class TokenBucket:
    """A token bucket of one second. A larger amount may be taken when the bucket is full, and leaves a debt."""

    __slots__ = ("_at_ms", "_level", "_per_s")

    def __init__(self, per_s: int, now_ms: int) -> None:
        self._per_s = per_s
        self._level = float(per_s)
        self._at_ms = now_ms

    def has(self, amount: int, now_ms: int) -> bool:
        """Whether `amount` may be taken now."""
        if now_ms > self._at_ms:
            more = (now_ms - self._at_ms) * self._per_s / 1000
            self._level = min(float(self._per_s), self._level + more)
            self._at_ms = now_ms
        return self._level >= min(amount, self._per_s)

    def take(self, amount: int) -> None:
        """Take the amount; call `has` first."""
        self._level -= amount

    def is_full(self, now_ms: int) -> bool:
        """Whether the bucket is full, as a new one is."""
        return self.has(self._per_s, now_ms)


class Clock(Protocol):
    """A source of wall time, of elapsed time, and of waiting. Implementations are thread-safe."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970-01-01T00:00:00Z."""
        ...

    def monotonic_s(self) -> float:
        """Return the seconds of a clock that never goes back; only the difference of two readings has a meaning."""
        ...

    def wait(self, event: threading.Event, timeout_s: float | None, /) -> bool:
        """Block until `event` is set or `timeout_s` seconds passed; return whether it is set."""
        ...


class SystemClock:
    """The machine's clock. Thread-safe, stateless."""

    # Without functions of their own around them, which take longer than to read the time.
    monotonic_s = staticmethod(time.monotonic)
    wait = staticmethod(threading.Event.wait)

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000
