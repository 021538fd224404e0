"""Two streams joined, both late, against pandas on what the common watermark leaves of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from scripts import reference_streams as reference
from spark_jobs import weather_delays
from tests.spark_jobs.feed import Feed, arguments, cut, flights, late, table
from tests.support.flights import weather as reports

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

DELAY = pd.Timedelta(hours=2)


def test_late_flights_with_late_weather_are_those_of_pandas(
    spark: SparkSession, tmp_path: Path
) -> None:
    fed = late(flights(1600))
    weather = late(reports(max(e["event_time"] for e in fed)))
    flight_batches = cut(fed, 400)
    weather_batches = cut(weather, -(-len(weather) // len(flight_batches)))
    marks = [
        min(both)
        for both in zip(
            *(reference.watermarks(b, DELAY) for b in (flight_batches, weather_batches)),
        )
    ]
    kept = [reference.kept(b, DELAY, marks) for b in (flight_batches, weather_batches)]
    feeds = [Feed(spark, tmp_path / name) for name in ("flights", "weather")]
    for feed, batches in zip(feeds, (flight_batches, weather_batches)):
        for batch in batches:
            feed.put(batch)
    argv = arguments(tmp_path, "--watermark", "2 hours", "--weather-stream", "weather")

    said = weather_delays.JOB.run(
        spark, weather_delays.JOB.parse(argv), feeds[0].stream(), feeds[1].stream()
    )

    # The flights that still wait for a report, and more.
    assert said.pop("rows waiting in state") > 20
    assert kept[0].dropped > 20
    assert kept[1].dropped > 2
    assert said == {
        "read": 1600 + len(weather),
        "unreadable": 0,
        "dropped as late": kept[0].dropped + kept[1].dropped,
    }
    wanted, found = reference.weather_delays(*kept), table(tmp_path / "output" / "joined")
    assert wanted["weather_time"].isna().sum() > 20
    assert reference.differing(wanted, found, ["event_id"]).empty


def test_poison_is_quarantined_by_stream_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    feeds = [Feed(spark, tmp_path / name) for name in ("flights", "weather")]
    flight, report = flights(1)[0], reports("2013-01-01T12:00:00Z")[0]
    feeds[0].put([flight, b"{}"])
    feeds[1].put([report, report | {"event_id": "b", "temp": "warm"}, b"rain"])
    argv = arguments(tmp_path, "--quarantine", (tmp_path / "bad").as_uri())
    argv += ["--weather-stream", "weather"]

    said = weather_delays.JOB.run(
        spark, weather_delays.JOB.parse(argv), feeds[0].stream(), feeds[1].stream()
    )

    assert said.pop("rows waiting in state") > 0
    assert said == {
        "read": 5,
        "unreadable": 3,
        "dropped as late": 0,
        "quarantined flights": 1,
        "quarantined weather": 2,
    }
    reasons = sorted(table(tmp_path / "bad" / "weather")["reason"])
    assert reasons == ["a value of another type", "no JSON object"]
    assert len(table(tmp_path / "bad" / "flights")) == 1


def test_a_report_off_the_hour_is_for_the_hour_from_then_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    base = flights(1)[0] | {"origin": "JFK"}
    report = {"event_id": "w", "event_time": "2013-01-01T10:20:00Z", "origin": "JFK", "temp": 5.0}
    feeds = [Feed(spark, tmp_path / name) for name in ("flights", "weather")]
    times = {"10:19:59": None, "10:20:00": 5.0, "11:00:00": 5.0, "11:19:59": 5.0, "11:20:00": None}
    feeds[0].put([base | {"event_id": at, "event_time": f"2013-01-01T{at}Z"} for at in times])
    feeds[1].put([report])

    joined = weather_delays.transform(feeds[0].batch(), feeds[1].batch(), "2 hours").collect()

    assert {row["event_id"]: row["temp"] for row in joined} == times
    assert len(joined) == len(times)
