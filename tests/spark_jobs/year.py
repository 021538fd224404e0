"""All flights of 2013 as a stream gives them: 10 % late, by ten days in the mean, and 1 % twice."""

from __future__ import annotations

from functools import lru_cache

import pandas as pd

from scripts import reference_streams as reference
from tests.spark_jobs.feed import Event, cut, flights, late

WATERMARK, DELAY = "2 days", pd.Timedelta(days=2)
BATCHES = 24
DAY_S = 86_400.0


@lru_cache(maxsize=1)
def arrived() -> tuple[Event, ...]:
    """The year's flights in the order in which they come."""
    return tuple(late(flights(month=None), share=0.1, mean_s=10 * DAY_S))


def in_batches(events: tuple[Event, ...] | list[Event], count: int = BATCHES) -> list[list[Event]]:
    """The events in `count` micro-batches, each with 1 % of the one before again."""
    batches = cut(list(events), -(-len(events) // count))
    again = [before[::100] for before in batches[:-1]]
    return [batches[0], *(own + more for own, more in zip(batches[1:], again))]


@lru_cache(maxsize=1)
def batches() -> list[list[Event]]:
    """The flights' micro-batches; not to be changed."""
    return in_batches(arrived())


@lru_cache(maxsize=1)
def kept() -> reference.Kept:
    """What the watermark leaves of `batches()`, by pandas."""
    return reference.kept(batches(), DELAY)
