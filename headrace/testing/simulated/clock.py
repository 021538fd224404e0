"""Virtual time: it stands still while code runs, and jumps to the next event."""

from __future__ import annotations

import threading
from collections.abc import Callable

START_MS = 1_700_000_000_000
US = 1_000_000


class VirtualClock:
    """A `Clock` in whole microseconds, so that the same moves give the same times on every machine.

    Attributes:
        now_us: microseconds since the simulation began.
        follow: is called after every move.
        wait_for: runs workers until an event is set or a time has come; the owner of the workers sets it.
    """

    def __init__(self) -> None:
        self._now_us = 0
        self.follow: Callable[[int], None] = lambda _: None
        self.wait_for: Callable[[threading.Event, int | None], None] = self._only_move

    @property
    def now_us(self) -> int:
        """Microseconds since the simulation began."""
        return self._now_us

    @now_us.setter
    def now_us(self, now_us: int) -> None:
        if now_us != self._now_us:
            self._now_us = now_us
            self.follow(now_us)

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return START_MS + self._now_us // 1000

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return self._now_us / US

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """See `Clock.wait`: other workers run meanwhile."""
        if not event.is_set():
            until_us = None if timeout_s is None else self.now_us + round(timeout_s * US)
            self.wait_for(event, until_us)
        return event.is_set()

    def sleep(self, seconds: float) -> None:
        """Let time pass while no worker runs."""
        self.now_us += max(0, round(seconds * US))

    def _only_move(self, _: threading.Event, until_us: int | None) -> None:
        if until_us is not None:
            self.now_us = max(self.now_us, until_us)
