"""A clock for a cloud in process and for the clients of headrace.client alike; it moves only when told."""

from __future__ import annotations

import threading
from typing import Any

from tests.support.clock import HandClock


class OneClock(HandClock):
    """Events wait, as the cloud's workers do; a pause on a condition moves the time on by itself."""

    def wait(self, event: Any, timeout_s: float | None) -> bool:
        if isinstance(event, threading.Event):
            return super().wait(event, timeout_s)
        self.advance(timeout_s or 0.0)
        return False
