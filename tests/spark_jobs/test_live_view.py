"""Jobs that run on: tables that change at once, whose parts are few, and nothing counted twice."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from scripts import reference_streams as reference
from spark_jobs import aircraft_days, live_view, rolling_delays, speed_view
from spark_jobs.common import events, outputs, queries, views
from spark_jobs.common.day_tables import (
    KEPT_VERSIONS,
    MERGED_AT,
    DayTable,
    Part,
    days_of,
    parts_due,
)
from spark_jobs.common.job import Job
from tests.spark_jobs.feed import Feed, arguments, flights, table
from tests.support.server import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

SCHEMA = "day DATE, n INT"


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def start(
    spark: SparkSession, job: Job, parsed: argparse.Namespace, *records: DataFrame
) -> StreamingQuery:
    rows, sink = job.query(spark, parsed, *records)
    return queries.start(spark, rows, job.name, job.mode, parsed, sink)


@pytest.mark.slow
def test_a_running_query_keeps_the_view_and_the_quarantine(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(spark, tmp_path / "input")
    some = flights(200)
    bad = (tmp_path / "bad").as_uri()
    assert live_view.JOB.parse(arguments(tmp_path)).trigger == "30 seconds"
    argv = [*arguments(tmp_path, "--quarantine", bad), "--trigger", "100 milliseconds"]
    parsed = live_view.JOB.parse(argv)
    # A flight twice, and two equal records that are none.
    feed.put([*some[:120], some[0], b"junk", b"junk"])
    query = start(spark, live_view.JOB, parsed, feed.stream())

    def counted(number: int) -> bool:
        if query.exception() is not None:
            raise AssertionError(query.exception())
        view = speed_view.read_view(spark, parsed.output)
        return sum(row["flights"] for row in view.collect()) == number

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
    view = speed_view.read_view(spark, parsed.output)
    assert rows_of(view.select(every.columns)) == rows_of(every)
    quarantine = DayTable(spark, parsed.quarantine)
    reasons = [(row["reason"], bytes(row["data"])) for row in quarantine.read().collect()]
    missing, *junk = sorted(reasons)
    assert junk == [("no JSON object", b"junk")] * 2
    assert missing[0].startswith("missing: event_id")


@pytest.mark.slow
def test_a_query_that_runs_on_writes_what_its_watermark_passes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Sessions wait until the watermark has passed them: without a later run, and without input."""
    feed = Feed(spark, tmp_path / "input")
    some = flights(1600)
    argv = arguments(tmp_path, "--watermark", "2 hours", "--trigger", "100 milliseconds")
    feed.put(some)
    query = start(spark, aircraft_days.JOB, aircraft_days.JOB.parse(argv), feed.stream())
    expected = reference.kept([some, []], reference.pd.Timedelta(hours=2))
    wanted = reference.aircraft_days(expected.rows, expected.closed)
    place = tmp_path / "output" / "sessions"
    assert len(wanted) > 100

    def is_written() -> bool:
        if query.exception() is not None:
            raise AssertionError(query.exception())
        return (place / "versions" / f"{1:010}.json").exists()

    try:
        wait_until(is_written, within_s=120, what="the micro-batch without input")
    finally:
        query.stop()
    assert reference.differing(wanted, table(place), ["tailnum", "session_start"]).empty


def test_a_micro_batch_that_is_repeated_changes_nothing_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(spark, tmp_path / "input")
    feed.put([*flights(50), b"junk"])
    argv = arguments(tmp_path, "--quarantine", (tmp_path / "bad").as_uri())
    parsed = live_view.JOB.parse(argv)
    rows, write = live_view.JOB.query(spark, parsed, feed.batch())
    # The driver dies after the quarantine's half of the micro-batch.
    bad = DayTable(spark, parsed.quarantine)
    (source,) = live_view.JOB.sources
    bad.add(queries.unreadable(feed.batch(), source.schema, source.required), 0)
    for _ in range(2):
        write(rows, 0)
    assert sum(row["flights"] for row in speed_view.read_view(spark, parsed.output).collect()) == 50
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


def test_a_days_parts_are_few_and_each_is_written_once_a_size() -> None:
    parts: list[Part] = []
    written, most = 0, 0
    for number in range(4_000):
        parts.append((str(number), 1))
        if due := parts_due(parts):
            merged = sum(size for _, size in parts[-due:])
            written += merged
            parts[-due:] = [("merged", merged)]
        most = max(most, len(parts))
    assert sum(size for _, size in parts) == 4_000
    sizes = [size for _, size in parts]
    assert sizes == sorted(sizes, reverse=True)
    # Sizes 1, 8, 64, 512: at most seven of each, and of the largest as many as there are.
    assert most <= 4 * (MERGED_AT - 1)
    assert written <= 3 * 4_000


def test_a_table_of_one_folder_a_day_goes_on() -> None:
    before = {"days": {"2013-01-01": "data/batch=3/_day=2013-01-01/"}}
    assert days_of(before) == {"2013-01-01": [("data/batch=3/_day=2013-01-01/", 1)]}
    now = {"days": {"2013-01-01": [["data/merged=8/_day=2013-01-01/", 8]]}}
    assert days_of(now) == now["days"]


@pytest.mark.slow
def test_a_tables_parts_become_one_and_readers_see_whole_versions(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = DayTable(spark, f"{tmp_path.as_uri()}/", SCHEMA)
    assert table.read().collect() == []

    def add(number: int, day: int) -> None:
        row = spark.sql(f"SELECT DATE'2013-01-0{day}' AS day, {number} AS n")
        table.add(row, number)

    add(0, 1)
    reader = table.read()
    last = MERGED_AT + KEPT_VERSIONS
    for number in range(1, last + 1):
        add(number, 2)
        if number == 3:
            assert [row["n"] for row in reader.collect()] == [0]
    # A micro-batch without rows is one, too.
    table.add(spark.createDataFrame([], SCHEMA), last + 1)
    assert sorted(row["n"] for row in table.read().collect()) == list(range(last + 1))
    assert len(list((tmp_path / "versions").glob("*.json"))) == KEPT_VERSIONS
    # Day 1's, the first eight's, and those of the kept versions.
    data = {path.name for path in (tmp_path / "data").iterdir()}
    kept = {f"batch={number}" for number in range(MERGED_AT + 1, last + 1)}
    assert {"batch=0", f"merged={MERGED_AT}"} <= data
    assert data <= {"batch=0", f"merged={MERGED_AT}", f"merged={2 * MERGED_AT}"} | kept


def test_a_corrected_row_stays_corrected_when_parts_become_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    results = outputs.Results("job", "rows/", ("at",), "at", "at", corrects=True)
    parsed = rolling_delays.JOB.parse(arguments(tmp_path))
    write = outputs.sink(spark, parsed, results)
    for number in range(MERGED_AT + 1):
        write(spark.sql(f"SELECT TIMESTAMP'2013-01-01 00:00:00Z' AS at, {number} AS n"), number)
        if number >= MERGED_AT - 2:
            (row,) = outputs.read(spark, parsed.output, results).collect()
            assert row["n"] == number
    assert len(list((tmp_path / "output" / "rows" / "data").glob("merged=*"))) == 1
    (row,) = table(tmp_path / "output" / "rows", "at").to_dict("records")
    assert row["n"] == MERGED_AT


@pytest.mark.slow
def test_a_batch_job_replaces_its_table_at_once_and_no_querys(
    spark: SparkSession, tmp_path: Path
) -> None:
    own = DayTable(spark, f"{tmp_path.as_uri()}/own/", SCHEMA)
    for number in (1, 2):
        reader = own.read()
        own.replace(spark.sql(f"SELECT DATE'2013-01-0{number}' AS day, {number} AS n"))
        # What was read before stays what it was.
        assert [row["n"] for row in reader.collect()] == list(range(1, number))
    assert [row["n"] for row in own.read().collect()] == [2]
    (tmp_path / "metadata").write_text('{"id": "a query"}')
    query = DayTable(
        spark, f"{tmp_path.as_uri()}/query/", SCHEMA, checkpoint=f"{tmp_path.as_uri()}/"
    )
    query.add(spark.sql("SELECT DATE'2013-01-01' AS day, 1 AS n"), 0)
    with pytest.raises(ValueError, match="is the table of a query"):
        DayTable(spark, f"{tmp_path.as_uri()}/query/", SCHEMA).replace(own.read())
