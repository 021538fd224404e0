"""A clock that moves only when told."""

from __future__ import annotations

import math
import threading

from headrace.core.clock import SystemClock
from headrace.testing.clock import WatchedClock


class FakeClock:
    """A `Clock` for tests: `advance` moves it, and `wait` returns at once having moved it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = float(now_ms)
        self._lock = threading.Lock()

    def advance(self, seconds: float) -> None:
        """Move time forward."""
        with self._lock:
            self._now_ms += seconds * 1000

    def now_ms(self) -> int:
        """See Clock."""
        return int(self._now_ms)

    def monotonic_s(self) -> float:
        """See Clock."""
        return self._now_ms / 1000

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """Move to the end of the wait, unless the event is set already."""
        if not event.is_set() and timeout_s is not None:
            self.advance(timeout_s)
        return event.is_set()


class HandClock(WatchedClock, FakeClock):
    """A clock whose waits last until a test moves the time on, or the event is set."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        WatchedClock.__init__(self)
        FakeClock.__init__(self, now_ms)

    def advance(self, seconds: float) -> None:
        """See FakeClock."""
        self._move(lambda: super(HandClock, self).advance(seconds))

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """See Clock."""
        end_s = math.inf if timeout_s is None else self.monotonic_s() + timeout_s
        while self.monotonic_s() < end_s:
            # The time may be moved at any moment, and nobody tells: it is looked at.
            if event.wait(0.002):
                return True
        return event.is_set()


class ShiftedClock(WatchedClock, SystemClock):
    """The machine's clock, set forward or back: for clouds whose workers really wait."""

    def __init__(self) -> None:
        super().__init__()
        self._shift_ms = 0

    def advance(self, seconds: float) -> None:
        """Set it forward, or back."""
        self._move(lambda: self._shift(seconds))

    def _shift(self, seconds: float) -> None:
        self._shift_ms += round(seconds * 1000)

    def now_ms(self) -> int:
        """See Clock."""
        return super().now_ms() + self._shift_ms


class SwiftClock(ShiftedClock):
    """A `ShiftedClock` that workers see too when it is set forward far: for retries that take minutes.

    A small step moves the time of day only, so that what runs meanwhile gets its time.
    """

    _FAR_S = 10
    # How long a wait may oversleep a step.
    _LOOK_S = 0.02

    def __init__(self) -> None:
        super().__init__()
        self._jumped_s = 0.0

    def _shift(self, seconds: float) -> None:
        super()._shift(seconds)
        if seconds >= self._FAR_S:
            self._jumped_s += seconds

    def monotonic_s(self) -> float:
        """See Clock."""
        return super().monotonic_s() + self._jumped_s

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """See Clock."""
        if timeout_s is None or timeout_s < self._FAR_S:
            return super().wait(event, timeout_s)
        end_s = self.monotonic_s() + timeout_s
        while (left_s := end_s - self.monotonic_s()) > 0:
            if event.wait(min(self._LOOK_S, left_s)):
                return True
        return event.is_set()
