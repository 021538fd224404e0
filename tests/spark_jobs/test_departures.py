from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from scripts.reference import WINDOW_COLUMNS, differing_windows, hourly_departures
from spark_jobs import departures
from spark_jobs.common import outputs
from tests.spark_jobs import feed
from tests.spark_jobs.feed import table

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

SCHEMA = "data BINARY"


def record(event: dict[str, Any]) -> bytes:
    return json.dumps(event | {"cancelled": event["dep_time"] is None, "airline": "x"}).encode()


@pytest.fixture(scope="module")
def flights() -> list[bytes]:
    """A month's first flights, enriched as far as the job looks."""
    return [record(event) for event in feed.flights(900)]


@pytest.fixture(scope="module")
def expected() -> Callable[[int], pd.DataFrame]:
    some = feed.flights(900)
    return lambda flights: hourly_departures(some[:flights])


class Source:
    """A stream that grows: each `put` is a micro-batch of its own. And the job on it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.input, self.output = folder / "input", folder / "output"
        self.input.mkdir()
        self._spark, self._numbers = spark, count()
        self.arguments: argparse.Namespace = departures.JOB.parse(
            [
                *("--stream", "s", "--region", "r", "--output", self.output.as_uri()),
                *("--checkpoint", (folder / "checkpoint").as_uri()),
            ]
        )

    def put(self, records: list[bytes]) -> None:
        rows = pa.table({"data": pa.array(records, pa.binary())})
        pq.write_table(rows, self.input / f"{next(self._numbers):04}.parquet")

    def run(self) -> dict[str, int]:
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return departures.JOB.run(self._spark, self.arguments, reader.parquet(str(self.input)))

    @property
    def windows(self) -> pd.DataFrame:
        return table(self.output / "windows", *departures.KEY)


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path)


def batch(spark: SparkSession, records: list[bytes]) -> DataFrame:
    return spark.createDataFrame([(bytearray(data),) for data in records], SCHEMA)


def test_transform_gives_the_windows_of_a_plain_computation_and_counts_a_flight_once(
    spark: SparkSession,
    flights: list[bytes],
    expected: Callable[[int], pd.DataFrame],
    tmp_path: Path,
) -> None:
    departures.transform(batch(spark, flights * 2), "2 days").write.parquet(str(tmp_path / "w"))

    assert differing_windows(expected(len(flights)), table(tmp_path / "w")).empty


def test_a_window_is_an_hour_of_utc_with_its_end(spark: SparkSession, flights: list[bytes]) -> None:
    row = departures.transform(batch(spark, flights[:1]), "2 days").selectExpr(
        "unix_seconds(window_start) AS start", "unix_seconds(window_end) AS end"
    )

    assert [tuple(r) for r in row.collect()] == [(1357034400, 1357038000)]


def test_what_is_no_event_is_left_out(spark: SparkSession, flights: list[bytes]) -> None:
    junk = [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"event_id": "a", "event_time": "never", "origin": "JFK"}',
    ]

    rows = departures.transform(batch(spark, [*junk, flights[0]]), "2 days").collect()

    assert [row["departures"] for row in rows] == [1]


def test_a_drained_run_accounts_for_every_flight(
    source: Source, flights: list[bytes], expected: Callable[[int], pd.DataFrame]
) -> None:
    source.put([*flights, b"junk"])

    assert source.run() == {"read": 901, "unreadable": 1, "dropped as late": 0}
    assert differing_windows(expected(900), source.windows).empty
    assert source.windows.columns.tolist() == [
        *WINDOW_COLUMNS[:1],
        "window_end",
        *WINDOW_COLUMNS[1:],
    ]


def test_what_is_no_event_is_quarantined_and_counted(
    source: Source, flights: list[bytes], tmp_path: Path
) -> None:
    source.arguments.quarantine = f"{(tmp_path / 'quarantine').as_uri()}/"
    source.put([*flights[:10], b"junk", b"{}"])

    assert source.run() == {"read": 12, "unreadable": 2, "dropped as late": 0, "quarantined": 2}
    rows = table(tmp_path / "quarantine").sort_values("reason")
    assert rows["data"].tolist() == [b"{}", b"junk"]
    assert rows["reason"].str.split(":").str[0].tolist() == ["missing", "no JSON object"]


def test_runs_correct_the_windows_of_those_before(
    source: Source, flights: list[bytes], expected: Callable[[int], pd.DataFrame]
) -> None:
    # Cut inside an hour, out of order across the cut, and 50 flights in both.
    source.put(flights[300:] + flights[:100])
    assert source.run()["read"] == 700
    source.put(flights[50:300])

    assert source.run() == {"read": 250, "unreadable": 0, "dropped as late": 0}
    assert differing_windows(expected(900), source.windows).empty


def test_micro_batches_of_one_run_correct_each_other(
    source: Source, flights: list[bytes], expected: Callable[[int], pd.DataFrame]
) -> None:
    source.put(flights[:333])
    source.put(flights[300:])

    source.run()

    assert differing_windows(expected(900), source.windows).empty


def test_a_run_with_nothing_new_changes_nothing(
    source: Source, flights: list[bytes], expected: Callable[[int], pd.DataFrame]
) -> None:
    source.put(flights)
    source.run()

    assert source.run()["read"] == 0
    assert differing_windows(expected(900), source.windows).empty


def test_a_run_before_the_first_flight_publishes_nothing(source: Source) -> None:
    source.put([])

    assert source.run()["read"] == 0


def test_a_flight_later_than_the_watermark_is_dropped_and_said_so(
    source: Source, flights: list[bytes]
) -> None:
    def late_in_january(day: int) -> bytes:
        time = f"2013-01-{day}T00:00:00Z"
        return record(json.loads(flights[-1]) | {"event_time": time, "event_id": time})

    for day in (30, 31):
        source.put([late_in_january(day)])
        assert source.run()["dropped as late"] == 0
    source.put([*flights[:5], late_in_january(29)])

    assert source.run() == {"read": 6, "unreadable": 0, "dropped as late": 5}
    assert source.windows["departures"].sum() == 3


def test_a_micro_batch_done_again_replaces_what_it_wrote(
    spark: SparkSession,
    source: Source,
    flights: list[bytes],
    expected: Callable[[int], pd.DataFrame],
) -> None:
    write = outputs.sink(spark, source.arguments, departures.RESULTS)
    half, whole = (
        departures.transform(batch(spark, records), "2 days")
        for records in (flights[:450], flights)
    )

    write(half, 7)
    # Of an attempt that died before its version.
    (source.output / "windows" / "versions" / f"{7:010}.json").unlink()
    write(whole, 7)
    write(half, 7)

    assert differing_windows(expected(900), source.windows).empty


REQUIRED = ["--stream", "s", "--region", "r", "--output", "s3://b/o", "--checkpoint", "s3://b/c/"]


def test_uris_get_their_slash_and_the_source_its_default() -> None:
    arguments = departures.JOB.parse(REQUIRED)

    assert (arguments.output, arguments.checkpoint) == ("s3://b/o/", "s3://b/c/")
    assert (arguments.source_format, arguments.endpoint_url) == ("kinesis", None)


def test_a_format_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        departures.JOB.parse([*REQUIRED, "--source-format", "x"])
    assert "invalid choice: 'x'" in capsys.readouterr().err
