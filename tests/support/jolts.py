"""A plug-in of pytest that finds races: threads hand over late, by chance, as on a machine that is busy.

Steps of workers and calls of thread pools begin and end up to `JOLTS_S` seconds later (0.05), and threads take turns a
hundred times as often. `JOLTS_SEED` chooses other delays; the order of threads is the machine's all the same.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import thread as pools
from typing import Any

from headrace.core.workers import Supervisor

_LONGEST_S = float(os.environ.get("JOLTS_S", "0.05"))
_CHANCE = 0.3
_random = random.Random(int(os.environ.get("JOLTS_SEED", "1")))


def _jolt() -> None:
    if _random.random() < _CHANCE:
        time.sleep(_random.random() * _LONGEST_S)


def _delay(call: Callable[..., Any]) -> Callable[..., Any]:
    def call_late(*args: Any, **named: Any) -> Any:
        _jolt()
        try:
            return call(*args, **named)
        finally:
            _jolt()

    return call_late


def pytest_configure() -> None:
    """Delay the hand-overs of this process."""
    sys.setswitchinterval(sys.getswitchinterval() / 100)
    supervisor: Any = Supervisor
    supervisor._step = staticmethod(_delay(Supervisor._step))
    item: Any = pools._WorkItem
    item.run = _delay(item.run)
