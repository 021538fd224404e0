"""Jobs of `spark_jobs/` said in SQL, equal row by row to pandas, to which the jobs' own tests hold the jobs.

The first third of a month in the runner without Spark; nightly the month, and the year with Spark. SQL has no p95 of departures, does not drop repeated
events, and joins no Parquet folder, so that `departures` is without its percentile, and `fleet_enrich` is not here.
`device_sessions` is said as `aircraft_days` is; `sketches` are no rows, `compact` has tables of any columns, and
`batch_view`, `serve` and `replay` are no streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from headrace.sql.analysis import read_script
from headrace.sql.fold import Fold, Record
from scripts import reference, reference_streams
from tests.spark_jobs.feed import Event, cut, flights
from tests.spark_jobs.sql_job import run_job
from tests.spark_jobs.sql_job import sql_settings as sql_settings  # a fixture
from tests.support.flights import weather

QUERIES = """
CREATE STREAM flights (event_id VARCHAR KEY, event_time VARCHAR, origin VARCHAR, tailnum VARCHAR, dep_delay INT,
  distance INT, cancelled BOOLEAN)
  WITH (stream = 'flights', timestamp = 'event_time', timestamp_format = 'yyyy-MM-dd''T''HH:mm:ssX');
CREATE TABLE departures AS SELECT origin, SUM(CASE WHEN cancelled THEN 0 ELSE 1 END) AS departures,
  SUM(CASE WHEN cancelled THEN 1 ELSE 0 END) AS cancellations, AVG(CASE WHEN NOT cancelled THEN dep_delay END) AS mean_delay
  FROM flights WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 2 DAYS) GROUP BY origin;
CREATE TABLE rolling_delays AS SELECT origin, COUNT(*) AS departures, SUM(CASE WHEN dep_delay >= 15 THEN 1 ELSE 0 END) AS delayed,
  AVG(dep_delay) AS mean_delay, MAX(dep_delay) AS max_delay
  FROM flights WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 15 MINUTES, GRACE PERIOD 2 DAYS)
  WHERE NOT cancelled AND dep_delay IS NOT NULL GROUP BY origin;
CREATE TABLE aircraft_days AS SELECT tailnum, COUNT(*) AS flights, SUM(distance) AS miles, SUM(dep_delay) AS delay_minutes,
  MAX(dep_delay) AS worst_delay
  FROM flights WINDOW SESSION (8 HOURS, GRACE PERIOD 2 HOURS)
  WHERE NOT cancelled AND dep_delay IS NOT NULL AND tailnum IS NOT NULL GROUP BY tailnum EMIT FINAL;
CREATE TABLE airport_board AS SELECT origin, SUM(CASE WHEN cancelled THEN 0 ELSE 1 END) AS departures,
  SUM(CASE WHEN cancelled THEN 1 ELSE 0 END) AS cancellations, SPLIT(MAX(event_time || ' ' || event_id), ' ')[2] AS event_id
  FROM flights GROUP BY origin;
CREATE TABLE live_view AS SELECT SUBSTRING(event_time, 1, 10) AS day, origin, COUNT(*) AS flights,
  SUM(CASE WHEN cancelled THEN 1 ELSE 0 END) AS cancellations, SUM(CASE WHEN cancelled THEN 0 ELSE 1 END) AS departures,
  COALESCE(SUM(CASE WHEN NOT cancelled THEN dep_delay END), 0) AS delay_minutes
  FROM flights GROUP BY SUBSTRING(event_time, 1, 10), origin;
"""
WEATHER = """
CREATE STREAM flights (event_id VARCHAR KEY, event_time VARCHAR, origin VARCHAR)
  WITH (stream = 'flights', timestamp = 'event_time', timestamp_format = 'yyyy-MM-dd''T''HH:mm:ssX');
CREATE STREAM weather (event_id VARCHAR KEY, event_time VARCHAR, origin VARCHAR, temp DOUBLE, wind_speed DOUBLE)
  WITH (stream = 'weather', timestamp = 'event_time', timestamp_format = 'yyyy-MM-dd''T''HH:mm:ssX');
CREATE STREAM weather_delays AS SELECT f.event_id, f.origin, w.event_time AS reported, w.temp, w.wind_speed
  FROM flights f LEFT JOIN weather w WITHIN (3599999 MILLISECONDS, 0 MILLISECONDS) GRACE PERIOD 2 HOURS
  ON f.origin = w.origin;
"""
NAMES = ("departures", "rolling_delays", "aircraft_days", "airport_board", "live_view")
# A day without a flight ends the row; a match is the whole row, where the job writes each flight from the third on.
CASCADES = """
CREATE STREAM flights (event_id VARCHAR KEY, event_time VARCHAR, tailnum VARCHAR, dep_delay INT, cancelled BOOLEAN)
  WITH (stream = 'flights', timestamp = 'event_time', timestamp_format = 'yyyy-MM-dd''T''HH:mm:ssX');
CREATE STREAM departed AS SELECT event_id, tailnum, dep_delay, ROWTIME AS ms FROM flights
  WHERE NOT cancelled AND tailnum IS NOT NULL AND dep_delay IS NOT NULL;
CREATE STREAM cascades AS SELECT * FROM departed MATCH_RECOGNIZE (
  PARTITION BY tailnum ORDER BY ROWTIME
  MEASURES event_id AS event_id, FIRST(ms) AS started_ms, COUNT(*) AS flights, SUM(dep_delay) AS delay_minutes
  PATTERN (late{3,}) GRACE PERIOD 2 HOURS
  DEFINE late AS dep_delay >= 15 AND COALESCE(ms - LAST(late.ms, 1) <= 86400000, TRUE));
"""


def frame(rows: Sequence[dict[str, Any]], key: str) -> pd.DataFrame:
    """Return the last row of each window, with its bounds as times."""
    table = pd.DataFrame(list(rows)).drop_duplicates([key, "WINDOWSTART"], keep="last")
    for bound in ("start", "end"):
        times = pd.to_datetime(table[f"WINDOW{bound.upper()}"], unit="ms", utc=True)
        table[f"window_{bound}"] = table[f"session_{bound}"] = times
    return table


def compare(rows: dict[str, Sequence[dict[str, Any]]], events: list[Event]) -> None:
    kept = reference_streams.kept([events], pd.Timedelta(0)).rows
    hours = reference.hourly_departures(events)
    wanted = hours[["window_start", "origin", "departures", "cancellations", "mean_delay"]]
    windows, origin = ["window_start", "origin"], "origin"
    departures = frame(rows["departures"], origin)
    assert reference_streams.differing(wanted, departures, windows).empty
    rolling = frame(rows["rolling_delays"], origin)
    wanted = reference_streams.rolling_delays(kept)
    assert reference_streams.differing(wanted, rolling, windows).empty
    sessions = frame(rows["aircraft_days"], "tailnum")
    # The job's sessions end with their gap, KSQL's with their last row.
    sessions["session_end"] += pd.Timedelta(hours=8)
    # Of those that are closed: by the newest departure, which WHERE leaves, less the time that a row may be late.
    newest = kept[kept["dep_time"].notna() & kept["tailnum"].notna()]["event_time"].max()
    wanted = reference_streams.aircraft_days(kept, newest - pd.Timedelta(hours=2))
    assert reference_streams.differing(wanted, sessions, ["tailnum", "session_start"]).empty
    board = {row["origin"]: row for row in rows["airport_board"]}
    flights_of = pd.DataFrame(events)
    newest_first = flights_of.sort_values(["event_time", "event_id"], ascending=False)
    for origin, own in newest_first.groupby("origin"):
        row = board[str(origin)]
        counts = (row["departures"], row["cancellations"])
        assert counts == (int((~own["cancelled"]).sum()), int(own["cancelled"].sum()))
        assert row["event_id"] == own.iloc[0]["event_id"]
    departed = flights_of["dep_delay"].where(~flights_of["cancelled"])
    by_day = flights_of.assign(
        day=flights_of["event_time"].str[:10], delay_minutes=departed, flights=1
    ).groupby(["day", "origin"], as_index=False)
    expected = by_day.agg(
        flights=("flights", "sum"),
        cancellations=("cancelled", "sum"),
        delay_minutes=("delay_minutes", "sum"),
    )
    view = pd.DataFrame(list(rows["live_view"])).drop_duplicates(["day", "origin"], keep="last")
    assert reference_streams.differing(expected, view, ["day", "origin"]).empty


def test_flights_of_a_month_have_the_jobs_rows_without_spark(nightly: bool) -> None:
    events, script = flights(month=1)[: None if nightly else 9_000], read_script(QUERIES)
    fold = Fold(script)
    fold.take_batch(("flights", Record(event, event["event_id"])) for event in events)
    fold.settle()
    compare({name: [row.columns for row in fold.results[name]] for name in NAMES}, events)


def test_late_flights_in_a_row_are_a_row_pattern() -> None:
    """`cascades` said with MATCH_RECOGNIZE: what it wrote last of each row of late flights."""
    events, script = flights(month=1)[:9_000], read_script(CASCADES)
    fold = Fold(script)
    fold.take_batch(("flights", Record(event, event["event_id"])) for event in events)
    fold.end()
    actual = pd.DataFrame([row.columns for row in fold.results["cascades"]])
    actual["started"] = pd.to_datetime(actual["started_ms"], unit="ms", utc=True)
    kept = reference_streams.kept([events], pd.Timedelta(0)).rows
    expected = reference_streams.cascades(kept, kept["event_time"].max())
    expected = expected.drop_duplicates(["tailnum", "started"], keep="last")
    assert len(expected) > 30
    assert reference_streams.differing(expected, actual, ["tailnum", "started"]).empty


def test_a_flight_has_the_weather_of_its_hour() -> None:
    """`weather_delays`: the report of the hour before, and NULL where the station has sent none."""
    events = flights(month=1)[:1_600]
    reports = weather(max(event["event_time"] for event in events))
    # A station that is silent every fifth time.
    reports = [one for number, one in enumerate(reports) if number % 5]
    both = [("weather", one) for one in reports] + [("flights", one) for one in events]
    fold = Fold(read_script(WEATHER))
    for stream, one in sorted(both, key=lambda pair: pair[1]["event_time"]):
        fold.take(stream, Record(one, one["event_id"]))
    fold.end()
    actual = pd.DataFrame([row.columns for row in fold.results["weather_delays"]])
    actual["weather_time"] = pd.to_datetime(actual["reported"], utc=True)
    kept = [reference_streams.kept([rows], pd.Timedelta(0)) for rows in (events, reports)]
    # The end closes all.
    whole = replace(kept[0], closed=kept[0].rows["event_time"].max())
    expected = reference_streams.weather_delays(whole, kept[1])
    assert expected["weather_time"].isna().sum() > 10
    assert reference_streams.differing(expected, actual, ["event_id"]).empty


@pytest.mark.slow
def test_the_years_flights_have_the_jobs_rows_with_spark(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    events = flights(month=None)
    batches = [
        [("flights", event["event_id"], event) for event in part]
        for part in cut(events, -(-len(events) // 4))
    ]
    read = run_job(read_script(QUERIES), batches, tmp_path)
    compare({name: read(name) for name in NAMES}, events)
