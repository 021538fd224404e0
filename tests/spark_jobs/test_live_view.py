"""The job that runs on: one read for flights and quarantine, tables that change at once, nothing counted twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import live_view
from spark_jobs.common import events, views
from spark_jobs.common.day_tables import KEPT_VERSIONS, DayTable
from tests.spark_jobs.feed import Feed, arguments, flights
from tests.support.server import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

SCHEMA = "day DATE, n INT"


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.slow
def test_a_running_query_keeps_the_view_and_the_quarantine(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(spark, tmp_path / "input")
    some = flights(200)
    bad = (tmp_path / "bad").as_uri()
    parsed = live_view.parse(
        [*arguments(tmp_path, "--quarantine", bad), "--trigger", "100 milliseconds"]
    )
    # A flight twice, two equal records that are none, and one of a time far ahead.
    feed.put([*some[:120], some[0], b"junk", b"junk"])
    query = live_view.start(spark, parsed, feed.stream())
    view = live_view.view_table(spark, parsed.output)
    quarantine = DayTable(spark, parsed.quarantine, live_view.BAD_SCHEMA)

    def counted(number: int) -> bool:
        if query.exception() is not None:
            raise AssertionError(query.exception())
        return sum(row["flights"] for row in view.read().collect()) == number

    try:
        wait_until(lambda: counted(120), within_s=120, what="the first flights")
        feed.put([*some[100:], b"{}"])
        wait_until(lambda: counted(200), within_s=120, what="all flights")
        progress = query.lastProgress
        assert progress is not None
        assert progress["stateOperators"][0]["numRowsTotal"] >= 200
    finally:
        query.stop()
    every = views.view(events.flights_once(feed.batch(), "2 days"))
    assert rows_of(view.read().select(every.columns)) == rows_of(every)
    reasons = [(row["reason"], bytes(row["data"])) for row in quarantine.read().collect()]
    missing, *junk = sorted(reasons)
    assert junk == [("no JSON object", b"junk")] * 2
    assert missing[0].startswith("missing: event_id")


def test_a_micro_batch_that_is_repeated_changes_nothing_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(spark, tmp_path / "input")
    feed.put([*flights(50), b"junk"])
    parsed = live_view.parse(arguments(tmp_path, "--quarantine", (tmp_path / "bad").as_uri()))
    rows = live_view.transform(feed.batch(), "2 days")
    write = live_view.sink(spark, parsed)
    # The driver dies after the quarantine's half of the micro-batch.
    bad = DayTable(spark, parsed.quarantine, live_view.BAD_SCHEMA)
    half = rows.where("reason IS NOT NULL").selectExpr("to_date(arrived) AS day", "reason", "data")
    bad.add(half, 0)
    for _ in range(2):
        write(rows, 0)
    assert sum(row["flights"] for row in live_view.read_view(spark, parsed.output).collect()) == 50
    assert bad.read().count() == 1
    write(rows, 1)
    assert bad.read().count() == 2


def test_a_table_is_refused_to_another_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    row = spark.sql("SELECT DATE'2013-01-01' AS day, 1 AS n")
    tables: list[DayTable] = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata").write_text(f'{{"id": "{name}"}}')
        checkpoint = f"{(tmp_path / name).as_uri()}/"
        tables.append(DayTable(spark, f"{tmp_path.as_uri()}/table/", SCHEMA, checkpoint=checkpoint))
    own, foreign = tables
    own.add(row, 0)
    own.add(row, 1)
    # A new checkpoint counts from 0: its rows would be passed over, or lie behind newer ones.
    with pytest.raises(ValueError, match=r"does not belong to the checkpoint .*other/"):
        foreign.add(row, 1)
    # An old copy of the checkpoint.
    with pytest.raises(ValueError, match="which is at micro-batch 0"):
        own.add(row, 0)
    assert own.read().count() == 2


@pytest.mark.slow
def test_a_tables_folders_are_as_many_as_its_days_and_readers_see_whole_versions(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = DayTable(spark, f"{tmp_path.as_uri()}/", SCHEMA)
    assert table.read().collect() == []

    def add(number: int, day: int) -> None:
        row = spark.sql(f"SELECT DATE'2013-01-0{day}' AS day, {number} AS n")
        table.add(row, number)

    add(0, 1)
    reader = table.read()
    for number in range(1, KEPT_VERSIONS + 3):
        add(number, 2)
        if number == 3:
            assert [row["n"] for row in reader.collect()] == [0]
    # A micro-batch without rows is one, too.
    table.add(spark.createDataFrame([], SCHEMA), KEPT_VERSIONS + 3)
    assert [row["n"] for row in sorted(table.read().collect())] == list(range(KEPT_VERSIONS + 3))
    assert len(list((tmp_path / "versions").glob("*.json"))) == KEPT_VERSIONS
    # Day 1's, and those of the kept versions.
    assert len(list((tmp_path / "data").iterdir())) <= KEPT_VERSIONS + 1
