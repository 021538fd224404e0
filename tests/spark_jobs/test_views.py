"""Lambda and Kappa: Batch(old) + Stream(new) = Batch(all) = Replay(all), of flights that come late and twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from scripts import reference_streams as reference
from spark_jobs import batch_view, serve, speed_view
from spark_jobs.common import views
from tests.spark_jobs.feed import Event, Feed, arguments, cut, flights, late

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

CUT = "2013-01-02T03:00:00Z"
END = "2014-01-01T00:00:00Z"

View = dict[tuple[str, str], tuple[int, int, int, int]]


def plainly(events: list[Event]) -> View:
    """The view in plain Python."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for event in {event["event_id"]: event for event in events}.values():
        numbers = found.setdefault((event["event_time"][:10], event["origin"]), Counter())
        numbers["flights"] += 1
        numbers["cancellations" if event["cancelled"] else "departures"] += 1
        numbers["delay_minutes"] += event["dep_delay"] or 0
    return {key: tuple(numbers[name] for name in views.NUMBERS) for key, numbers in found.items()}  # type: ignore[misc]


def collected(frame: DataFrame) -> View:
    rows = frame.collect()
    assert len({(row["day"], row["origin"]) for row in rows}) == len(rows)
    return {
        (str(row["day"]), row["origin"]): tuple(row[name] for name in views.NUMBERS)  # type: ignore[misc]
        for row in rows
    }


def test_batch_of_the_old_and_stream_of_the_new_are_batch_of_all_and_replay_of_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    some = late(flights(1500))
    some += some[200:300]
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "flights.json").write_text("\n".join(map(json.dumps, some)))
    feed = Feed(spark, tmp_path / "input")
    for batch in cut(some, 800):
        feed.put(batch)

    def batch_of(before: str, name: str) -> str:
        argv = ["--archive", str(tmp_path / "archive"), "--before", before]
        output = (tmp_path / name).as_uri()
        batch_view.JOB.run(spark, batch_view.JOB.parse([*argv, "--output", output]))
        return output

    def stream_of(name: str, *since: str) -> str:
        argv = arguments(tmp_path / name, "--watermark", "60 days", *since)
        said = speed_view.JOB.run(spark, speed_view.JOB.parse(argv), feed.stream())
        assert said["dropped as late"] == 0
        return (tmp_path / name / "output").as_uri()

    old, new = batch_of(CUT, "old"), stream_of("new", "--since", CUT)
    served = (tmp_path / "served").as_uri()
    argv = ["--batch", old, "--speed", new, "--output", served]
    serve.JOB.run(spark, serve.JOB.parse(argv))
    batch_all = collected(views.table_of(spark, batch_of(END, "all") + "/").read())
    replay_all = collected(speed_view.read_view(spark, stream_of("replayed") + "/"))

    lambda_all = collected(views.table_of(spark, served + "/").read())
    assert lambda_all == batch_all == replay_all == plainly(some)
    assert (
        0
        < sum(row[0] for row in collected(views.table_of(spark, old + "/").read()).values())
        < 1500
    )


def test_a_stream_not_yet_read_serves_the_batch_view(spark: SparkSession, tmp_path: Path) -> None:
    empty = speed_view.read_view(spark, tmp_path.as_uri() + "/none/")
    some = flights(100)
    feed = Feed(spark, tmp_path / "input")
    feed.put(some)

    batch = batch_view.transform(feed.batch(), END)

    assert collected(serve.transform(batch, empty)) == plainly(some)


@pytest.mark.slow
def test_with_dropped_flights_and_restarts_the_speed_view_is_of_those_kept_and_the_batch_heals_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    some = late(flights(3000))
    batches = cut(some, 500)
    batches[3] += batches[2][::10]
    kept = reference.kept(batches, pd.Timedelta(hours=2))
    assert kept.dropped > 20
    in_time = set(kept.rows["event_id"])
    lost = [event for event in some if event["event_id"] not in in_time]
    assert {event["event_time"] < CUT for event in lost} == {True, False}
    feed = Feed(spark, tmp_path / "input")
    dropped = 0
    streams = {"new": ["--since", CUT], "replayed": []}
    for start in range(0, len(batches), 2):
        for batch in batches[start : start + 2]:
            feed.put(batch)
        # A run of its own for every two: it goes on from the checkpoint of the one before.
        for name, since in streams.items():
            argv = arguments(tmp_path / name, "--watermark", "2 hours", *since)
            said = speed_view.JOB.run(spark, speed_view.JOB.parse(argv), feed.stream())
            dropped += said["dropped as late"]

    assert dropped == 2 * kept.dropped
    new, replayed = (
        speed_view.read_view(spark, (tmp_path / name / "output").as_uri() + "/") for name in streams
    )
    whole = feed.batch()
    # The batch view has every flight before the cut, the speed view those from it on that came in time.
    served = collected(serve.transform(batch_view.transform(whole, CUT), new))
    assert served == plainly([e for e in some if e["event_time"] < CUT or e["event_id"] in in_time])
    assert collected(replayed) == plainly([e for e in some if e["event_id"] in in_time])
    # The next batch view reaches further and has what the stream let fall.
    assert collected(batch_view.transform(whole, END)) == plainly(some) != served
    argv = arguments(tmp_path / "wide", "--watermark", "60 days")
    said = speed_view.JOB.run(spark, speed_view.JOB.parse(argv), feed.stream())
    wide = speed_view.read_view(spark, (tmp_path / "wide" / "output").as_uri() + "/")
    assert said["dropped as late"] == 0
    assert collected(wide) == plainly(some)
