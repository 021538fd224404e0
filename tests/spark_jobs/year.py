"""All flights of 2013 as a stream gives them: 10 % late, by ten days in the mean, and 1 % twice."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pandas as pd

from headrace.cli.flights import iter_events
from scripts import reference_streams as reference
from tests.spark_jobs.feed import Event, cut, late

WATERMARK, DELAY = "2 days", pd.Timedelta(days=2)
BATCHES = 24
DAY_S = 86_400.0


@cache
def arrived() -> tuple[Event, ...]:
    """The year's flights in the order in which they come."""
    events = [e | {"cancelled": e["dep_time"] is None} for e in iter_events()]
    return tuple(late(events, share=0.1, mean_s=10 * DAY_S))


def in_batches(events: tuple[Event, ...] | list[Event], count: int = BATCHES) -> list[list[Event]]:
    """The events in `count` micro-batches, each with 1 % of the one before again."""
    batches = cut(list(events), -(-len(events) // count))
    again = [before[::100] for before, _ in pairwise(batches)]
    return [batches[0], *(own + more for own, more in zip(batches[1:], again, strict=True))]


@cache
def batches() -> list[list[Event]]:
    """The flights' micro-batches; not to be changed."""
    return in_batches(arrived())


@cache
def kept() -> reference.Kept:
    """What the watermark leaves of `batches()`, by pandas."""
    return reference.kept(batches(), DELAY)
