"""The clock that producers and consumer groups take as a parameter, so that tests can move the time."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A source of wall time, of elapsed time, and of waiting. Implementations are thread-safe."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970-01-01T00:00:00Z."""
        ...

    def monotonic_s(self) -> float:
        """Return the seconds of a clock that never goes back; only the difference of two readings has a meaning."""
        ...

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        """Wait on a held condition; return False when `timeout_s` seconds passed without a notification."""
        ...


class SystemClock:
    """The machine's clock. Thread-safe, stateless."""

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        """See `Clock.wait`."""
        return condition.wait(timeout_s)
