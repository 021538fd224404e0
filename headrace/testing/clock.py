"""A clock that follows the machine's clock and that a test can set forward."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable

from headrace.core.clock import SystemClock
from headrace.core.workers import Supervisor

# A waiting thread checks this often whether the time was moved forward.
_LOOK_EVERY_S = 0.02


class WatchedClock:
    """A clock that is moved, and supervisors learn of it: a step that runs meanwhile may not have seen the new time."""

    def __init__(self) -> None:
        self._supervisors: list[Supervisor] = []

    def watch(self, supervisor: Supervisor) -> None:
        """Tell a supervisor of the moves from now on."""
        self._supervisors.append(supervisor)

    def _move(self, move: Callable[[], None]) -> None:
        for supervisor in self._supervisors:
            move = functools.partial(supervisor.move_clock, move)
        move()


class MovableClock(WatchedClock):
    """The machine's clock plus what `advance` has added; waits end by this clock. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._machine = SystemClock()
        self._ahead_s = 0.0

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        if seconds < 0:
            raise ValueError(
                "Time goes forward only: advance() takes seconds, minutes and hours above zero."
            )
        self._move(lambda: self._add(seconds))

    def _add(self, seconds: float) -> None:
        self._ahead_s += seconds

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._machine.now_ms() + round(self._ahead_s * 1000)

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return self._machine.monotonic_s() + self._ahead_s

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """See `Clock.wait`."""
        if timeout_s is None:
            return event.wait()
        end_s = self.monotonic_s() + timeout_s
        while (left_s := end_s - self.monotonic_s()) > 0:
            # Workers of an idle cloud wait for a second or more: only these check for a moved clock.
            if event.wait(min(left_s, _LOOK_EVERY_S)):
                return True
        return event.is_set()


def seconds(*, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> float:
    """Return a span of time in seconds."""
    span_s = seconds + 60 * (minutes + 60 * (hours + 24 * days))
    if not math.isfinite(span_s):
        raise ValueError("A span of time must be finite.")
    return span_s
