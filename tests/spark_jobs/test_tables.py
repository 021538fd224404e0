"""A stream beside tables: one that changes under way, and one that the stream keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_jobs import airport_board, fleet_enrich
from spark_jobs.airport_board import Board
from spark_jobs.common import events
from tests.spark_jobs.feed import Event, Feed, arguments, cut, flights, late, table

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def write_planes(folder: Path, seats: dict[str, int]) -> None:
    folder.mkdir(exist_ok=True)
    rows = {
        "tailnum": list(seats),
        "year": pa.array([2001] * len(seats), pa.int32()),
        "manufacturer": ["BOEING"] * len(seats),
        "model": ["737"] * len(seats),
        "seats": pa.array(seats.values(), pa.int32()),
    }
    pq.write_table(pa.table(rows), folder / "planes.parquet")


def test_a_flight_is_joined_with_the_register_as_it_stands_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    some = [flight for flight in flights(60) if flight["tailnum"]]
    first, second = cut(some, 30)[:2]
    known = sorted({flight["tailnum"] for flight in some})[1:]
    feed, planes = Feed(spark, tmp_path / "input"), tmp_path / "planes"
    argv = arguments(tmp_path, "--planes", planes.as_uri())
    for batch, seats in ((first, 100), (second, 200)):
        write_planes(planes, dict.fromkeys(known, seats))
        feed.put(batch)
        fleet_enrich.JOB.run(spark, fleet_enrich.JOB.parse(argv), feed.stream())

    found = table(tmp_path / "output" / "flights").set_index("event_id")["plane_seats"]
    wanted = {
        flight["event_id"]: seats if flight["tailnum"] in known else None
        for batch, seats in ((first, 100), (second, 200))
        for flight in batch
    }
    assert None in wanted.values()
    assert {name: None if pd.isna(n) else int(n) for name, n in found.items()} == wanted


def test_a_register_with_an_aircraft_twice_does_not_double_its_flights(
    spark: SparkSession, tmp_path: Path
) -> None:
    flight = next(flight for flight in flights(9) if flight["tailnum"])
    feed = Feed(spark, tmp_path / "input")
    feed.put([flight])
    rows: list[tuple[Any, ...]] = [(flight["tailnum"], year, "B", "7", 9) for year in (1999, 2005)]
    planes = spark.createDataFrame(rows, fleet_enrich.PLANES_SCHEMA)

    joined = fleet_enrich.transform(events.flights(feed.batch()), planes).collect()

    assert [row["plane_year"] for row in joined] == [2005]


def board_of(events: list[Event]) -> dict[str, tuple[int, int, str]]:
    """The board by airport in plain Python: departures, cancellations, the latest flight."""
    found: dict[str, tuple[int, int, str]] = {}
    for origin in {event["origin"] for event in events}:
        own = [event for event in events if event["origin"] == origin]
        newest = max(own, key=lambda event: (event["event_time"], event["event_id"]))
        gone = sum(event["cancelled"] for event in own)
        found[origin] = (len(own) - gone, gone, newest["event_id"])
    return found


def rows_of(board: Board) -> dict[str, tuple[int, int, str]]:
    return {
        row["origin"]: (row["departures"], row["cancellations"], row["event_id"])
        for row in board.table().collect()
    }


def test_the_board_is_every_airports_latest_state_whatever_the_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    some = late(flights(500))
    feed = Feed(spark, tmp_path / "input")
    for batch in cut(some, 100):
        feed.put(batch)
    argv = arguments(tmp_path, "--compact-every", "2", "--watermark", "30 days")

    said = airport_board.JOB.run(spark, airport_board.JOB.parse(argv), feed.stream())

    board = Board(spark, (tmp_path / "output").as_uri() + "/")
    assert said["dropped as late"] == 0
    assert rows_of(board) == board_of(some)
    assert (board.base(), board.deltas()) == (3, [4])
    assert [path.name for path in (tmp_path / "output" / "base").iterdir()] == ["upto=3"]


def test_a_micro_batch_done_again_counts_once_before_and_after_compaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    some = flights(40)
    feed = Feed(spark, tmp_path / "input")
    feed.put(some)
    delta = airport_board.transform(events.flights(feed.batch())).cache()
    board = Board(spark, tmp_path.as_uri() + "/board/")

    board.upsert(delta, 0)
    board.upsert(delta, 0)
    assert rows_of(board) == board_of(some)
    board.compact(0)
    board.upsert(delta, 0)
    board.compact(0)

    assert rows_of(board) == board_of(some)
    assert board.deltas() == []
    delta.unpersist()


def test_a_compaction_that_died_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    some = flights(40)
    feed = Feed(spark, tmp_path / "input")
    feed.put(some)
    delta = airport_board.transform(events.flights(feed.batch()))
    folder = tmp_path / "board"
    board = Board(spark, folder.as_uri() + "/")
    board.upsert(delta, 0)
    # Died before the base was whole ...
    torn = folder / "base" / "upto=0"
    torn.mkdir(parents=True)
    (torn / "part-0.parquet").write_bytes(b"torn")
    assert rows_of(board) == board_of(some)
    # ... and after, with the deltas still there.
    delta_file = next((folder / "deltas" / "batch=0").glob("*.parquet")).read_bytes()
    board.compact(0)
    left = folder / "deltas" / "batch=0"
    left.mkdir(parents=True)
    (left / "part-0.parquet").write_bytes(delta_file)
    (left / "_SUCCESS").touch()
    assert rows_of(board) == board_of(some)
    board.clean()

    assert not left.exists()
    assert rows_of(board) == board_of(some)
