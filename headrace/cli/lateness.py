"""Decides how late a replayed event comes: a seeded model, pure arithmetic without a clock.

An event is late with probability `share`. The delay of a late event is exponentially distributed with mean `mean_s`,
and cut at `max_s` (so a share of exp(-max/mean) of the late events is exactly `max_s` late); all other events are on
time. Both random draws come from a hash of the seed and the event: the same seed and event give the same delay in every
run, whatever the other events and their order are.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DRAW = 2.0**64


@dataclass(frozen=True, slots=True)
class Lateness:
    """A delay model: `share` of 0 to 1, `mean_s` and `max_s` in seconds of event time, and the seed."""

    share: float
    mean_s: float
    max_s: float
    seed: int = 0

    def delay_s(self, event: dict[str, Any]) -> float:
        """Return by how many seconds of event time `event` is late; 0 when it is on time."""
        text = f"{self.seed}:{json.dumps(event, sort_keys=True)}".encode()
        digest = hashlib.blake2b(text, digest_size=16).digest()
        if int.from_bytes(digest[:8], "big") / _DRAW >= self.share:
            return 0.0
        # The largest draws round to 1.0, for which the logarithm is not defined.
        draw = min(int.from_bytes(digest[8:], "big") / _DRAW, 1.0 - 2.0**-53)
        return min(-self.mean_s * math.log1p(-draw), self.max_s)


def parse_lateness(text: str, seed: int) -> Lateness:
    """Return the model of `share=0.1,mean=30m,max=6h` (units s, m, h, d; `max` is by default ten means).

    Raises ValueError with one sentence.
    """
    settings: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in ("share", "mean", "max") or name in settings:
            raise ValueError(f"lateness is share=0.1,mean=30m,max=6h, not {text!r}")
        settings[name] = value
    if not {"share", "mean"} <= settings.keys():
        raise ValueError(f"lateness needs a share and a mean, as in share=0.1,mean=30m: {text!r}")
    try:
        share = float(settings["share"])
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"the share of late events is 0 to 1, not {settings['share']!r}")
    mean_s = _seconds(settings["mean"])
    return Lateness(
        share, mean_s, _seconds(settings["max"]) if "max" in settings else 10 * mean_s, seed
    )


def arrivals(
    events: Iterable[dict[str, Any]], time_field: str, lateness: Lateness | None
) -> list[tuple[datetime, dict[str, Any]]]:
    """Yield `events` with their arrival times, in the order of arrival.

    Without `lateness`, each arrives at its event time, in the given order; with it, events with the same arrival time
    keep their order. Raises KeyError for an event without the field, ValueError for an invalid time.
    """
    timed = [(event_time(event[time_field]), event) for event in events]
    if lateness is None:
        return timed
    late = [(at + timedelta(seconds=lateness.delay_s(event)), event) for at, event in timed]
    return sorted(late, key=lambda arrival: arrival[0])


def event_time(text: str) -> datetime:
    """Return the time of an ISO 8601 text, in UTC unless the text has an offset."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if match is None or float(match.group(1)) <= 0:
        raise ValueError(f"a delay is a number and a unit, such as 30m or 6h, not {text!r}")
    return float(match.group(1)) * _UNITS_S[match.group(2)]
