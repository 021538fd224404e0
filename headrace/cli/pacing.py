"""Computes when a replayed event is due: pure arithmetic, no clock."""

from __future__ import annotations

import re
from datetime import datetime


def parse_speed(text: str) -> float | None:
    """Return how many seconds of event time pass in one second; None for as fast as possible.

    `text` is `max`, `1x`, `3600x` and so on. Raises ValueError with one sentence.
    """
    if text == "max":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x", text)
    if match is None or float(match.group(1)) <= 0:
        raise ValueError(f"a speed is 'max' or a number of times such as '3600x', not {text!r}")
    return float(match.group(1))


def due_s(event_time: datetime, first: datetime, speed: float | None) -> float:
    """Return the seconds after the start of the replay at which an event is due, never negative."""
    if speed is None:
        return 0.0
    return max(0.0, (event_time - first).total_seconds() / speed)
