"""Hopping and session windows over flights that come late, against pandas, micro-batch by micro-batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from scripts import reference_streams as reference
from scripts import simulated_devices
from spark_jobs import aircraft_days, device_sessions, rolling_delays
from spark_jobs.common import events, queries
from tests.spark_jobs.feed import Feed, arguments, cut, flights, late, table

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

WATERMARK, DELAY = "2 hours", pd.Timedelta(hours=2)


@pytest.mark.slow
def test_rolling_windows_of_late_flights_are_those_of_pandas_and_of_no_dropped_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = cut(late(flights(1600)), 400)
    batches[1] += batches[0][:50]
    expected = reference.kept(batches, DELAY)
    feed = Feed(spark, tmp_path / "input")
    for batch in batches:
        feed.put(batch)

    said = rolling_delays.JOB.run(
        spark,
        rolling_delays.JOB.parse(arguments(tmp_path, "--watermark", WATERMARK)),
        feed.stream(),
    )

    assert expected.dropped > 20
    assert said == {"read": 1650, "unreadable": 0, "dropped as late": expected.dropped}
    windows = table(tmp_path / "output" / "windows", "window_start", "origin")
    wanted = reference.rolling_delays(expected.rows)
    assert reference.differing(wanted, windows, ["window_start", "origin"]).empty
    assert (windows["window_end"] - windows["window_start"]).eq(pd.Timedelta(hours=1)).all()


def test_a_batch_gives_the_windows_of_all_flights(spark: SparkSession, tmp_path: Path) -> None:
    some = flights(600)
    feed = Feed(spark, tmp_path / "input")
    feed.put(some)

    rolling_delays.transform(feed.batch(), WATERMARK).write.parquet(str(tmp_path / "windows"))

    wanted = reference.rolling_delays(reference.kept([some], DELAY).rows)
    found = table(tmp_path / "windows")
    assert reference.differing(wanted, found, ["window_start", "origin"]).empty


def test_sessions_of_late_flights_are_those_of_pandas_each_once(
    spark: SparkSession, tmp_path: Path, nightly: bool
) -> None:
    count = 3200 if nightly else 1600
    batches = cut(late(flights(count)), count // 4)
    expected = reference.kept(batches, DELAY)
    feed = Feed(spark, tmp_path / "input")
    argv = arguments(tmp_path, "--watermark", WATERMARK)
    said = {"dropped as late": 0}
    # Two runs: what is open at the end of the first is closed by the second.
    for half in (batches[:2], batches[2:]):
        for batch in half:
            feed.put(batch)
        run = aircraft_days.JOB.run(spark, aircraft_days.JOB.parse(argv), feed.stream())
        said = {"dropped as late": said["dropped as late"] + run["dropped as late"]}

    assert said["dropped as late"] == expected.dropped > 20
    wanted = reference.aircraft_days(expected.rows, expected.closed)
    found = table(tmp_path / "output" / "sessions")
    assert wanted["flights"].max() > 2
    assert len(wanted) > count // 12
    assert reference.differing(wanted, found, ["tailnum", "session_start"]).empty


@pytest.mark.slow
def test_sessions_of_devices_are_those_of_pandas(spark: SparkSession, tmp_path: Path) -> None:
    minutes = list(simulated_devices.readings(40, 61, 7))
    feed, argv = Feed(spark, tmp_path / "input"), arguments(tmp_path, "--watermark", "10 minutes")
    rows: list[tuple[str, dict[str, Any]]] = []
    closed = pd.Timestamp(0, tz="UTC")
    for part in (minutes[:60], minutes[60:]):
        sent = [reading for minute in part for reading in minute]
        if rows:
            hour = simulated_devices.table_of(rows)
            closed = hour["event_time"].max() - pd.Timedelta("10min")
        rows += sent
        feed.put([{**reading, "device": name} for name, reading in [*sent, *sent[:5]]])
        said = device_sessions.JOB.run(spark, device_sessions.JOB.parse(argv), feed.stream())
        assert said["unreadable"] == 0
    wanted = simulated_devices.expected_sessions(simulated_devices.table_of(rows), closed)
    found = table(tmp_path / "output" / "sessions")
    assert len(wanted) > 3
    assert reference.differing(wanted, found, ["device", "session_start"]).empty


def test_what_is_no_flight_is_quarantined_with_its_reason_and_counted_by_one_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[StreamingQuery] = []

    def start(*parts: Any, start: Any = queries.start) -> StreamingQuery:
        started.append(start(*parts))
        return started[-1]

    monkeypatch.setattr(queries, "start", start)
    flight = flights(1)[0]
    poison = {
        b"": "empty",
        b"\xff\x00": "no JSON object",
        b"[1]": "no JSON object",
        b'{"event_id": ': "no JSON object",
        b"{}": "missing: event_id, event_time, carrier, origin, dest, cancelled",
        b'{"event_id": "a", "event_time": "2013-01-01T00:00:00Z", "carrier": "UA", "origin": "JFK",'
        b' "dest": "BOS", "cancelled": false, "dep_delay": "much"}': "a value of another type",
        b'{"event_id": "a", "event_time": "never", "carrier": "UA", "origin": "JFK",'
        b' "dest": "BOS", "cancelled": false}': "a value of another type",
        b'{"event_id": "a", "event_time": "2013-01-01T00:00:00Z", "carrier": null,'
        b' "origin": "JFK", "dest": "BOS", "cancelled": false}': "missing: carrier",
    }
    feed = Feed(spark, tmp_path / "input")
    feed.put([*poison, flight])
    argv = arguments(tmp_path, "--quarantine", (tmp_path / "quarantine").as_uri())

    said = rolling_delays.JOB.run(spark, rolling_delays.JOB.parse(argv), feed.stream())

    assert said == {"read": 9, "unreadable": 8, "dropped as late": 0, "quarantined": 8}
    found = table(tmp_path / "quarantine")
    assert dict(zip(found["data"], found["reason"])) == poison
    # A source that two parts of a plan read has its rows counted twice.
    (query,) = started
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == 9


def test_fields_unknown_and_fields_dispensable_do_not_matter(
    spark: SparkSession, tmp_path: Path
) -> None:
    flight = flights(1)[0] | {"gate": {"number": 7}, "engines": [1, 2]}
    for name in ("tailnum", "distance", "arr_delay"):
        del flight[name]
    feed = Feed(spark, tmp_path / "input")
    feed.put([flight])

    row = events.flights(feed.batch()).collect()[0]

    assert (row["origin"], row["tailnum"], row["distance"]) == (flight["origin"], None, None)
