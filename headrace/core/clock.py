"""The clock that everything takes as a parameter, so that tests can move the time.

Code that reads the time or waits takes a `Clock`; only this file reads the machine's clock. Tests pass a `FakeClock`
(tests/support/clock.py) and never sleep.
"""

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

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """Block until `event` is set or `timeout_s` seconds passed; return whether it is set."""
        ...


class SystemClock:
    """The machine's clock. Thread-safe, stateless."""

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return time.monotonic()

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """See `Clock.wait`."""
        return event.wait(timeout_s)
