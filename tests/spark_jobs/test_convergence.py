"""The oracle of convergence on Spark jobs: repetitions, orders, cuts and restarts leave the tables as they are."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.testing import NotConverged, assert_converges
from headrace.testing.hostile import Event
from spark_jobs import departures, rolling_delays
from spark_jobs.common import events
from tests.spark_jobs import feed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

# Nothing is late: what is dropped as late depends on the micro-batches, and the jobs say so.
WATERMARK = "400 days"
Jobs = dict[tuple[bytes, ...], Any]


@functools.cache
def some_flights() -> tuple[Event, ...]:
    """Return five flights of different hours; reading them takes a second."""
    return tuple(
        Event(
            flight["carrier"],
            json.dumps(flight | {"cancelled": flight["dep_time"] is None}).encode(),
        )
        for flight in feed.flights(40)[::8]
    )


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    """Return a table's rows, sorted; nothing when there is no table."""
    if not path.exists():
        return []
    found = feed.table(path, *departures.KEY).sort_values(["window_start", "origin"])
    return [tuple(None if cell != cell else cell for cell in row) for row in found.to_numpy()]


def every(rows: DataFrame, watermark: str, key: tuple[str, ...] = ("event_id",)) -> DataFrame:
    """Stand in for `on_time_once`: repetitions stay."""
    return rows.withWatermark("event_time", watermark) if rows.isStreaming else rows


class Lake:
    """A job over all that a stream has left, in no order. What it makes of the same records is computed once."""

    def __init__(self, spark: SparkSession, folder: Path, known: Jobs) -> None:
        self._spark, self._folder, self._known = spark, folder, known
        self._data: list[bytes] = []

    def process(self, batch: Sequence[Event]) -> None:
        self._data += [event.data for event in batch]

    def restart(self) -> None:
        """Nothing is in memory."""

    def state(self) -> Any:
        held = tuple(sorted(self._data))
        if held not in self._known:
            place = self._folder / f"lake-{len(self._known)}"
            rows = feed.Feed(self._spark, place)
            rows.put(held)
            out = place.with_suffix(".out")
            departures.transform(rows.batch(), WATERMARK).coalesce(1).write.parquet(str(out))
            self._known[held] = rows_of(out)
        return self._known[held]


def lake(spark: SparkSession, folder: Path) -> Callable[[], Lake]:
    known: Jobs = {}
    return lambda: Lake(spark, folder, known)


@pytest.mark.slow
def test_a_job_converges_and_one_without_deduplication_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = lake(spark, tmp_path / "right"), lake(spark, tmp_path / "wrong")
    assert_converges(right, some_flights()[:3], order="none", examples=12, seed=1)

    monkeypatch.setattr(events, "on_time_once", every)
    with pytest.raises(NotConverged, match=r"delivered again|batch 2") as found:
        assert_converges(wrong, some_flights()[:2], order="none", examples=12, seed=1)
    # The smallest: one flight, counted twice.
    assert str(found.value).count('"event_id"') <= 2


class Query:
    """A job as a stream: each batch is a micro-batch, a restart one more run from the checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, job: Any) -> None:
        self._spark, self._folder, self._job = spark, folder, job
        self._feed = feed.Feed(spark, folder / "input")
        self._has_input = False

    def process(self, batch: Sequence[Event]) -> None:
        self._feed.put([event.data for event in batch])
        self._has_input = True

    def restart(self) -> None:
        argv = feed.arguments(self._folder, "--watermark", WATERMARK)
        self._job.run(self._spark, self._job.parse(argv), self._feed.stream())

    def state(self) -> Any:
        if not self._has_input:
            return []
        self.restart()
        return rows_of(self._folder / "output" / "windows")


def queries(spark: SparkSession, folder: Path, job: Any) -> Callable[[], Query]:
    made: list[Query] = []

    def make() -> Query:
        made.append(Query(spark, folder / str(len(made)), job))
        return made[-1]

    return make


@pytest.mark.slow
@pytest.mark.parametrize("job", [departures.JOB, rolling_delays.JOB])
def test_a_query_converges_over_micro_batches_and_restarts(
    spark: SparkSession, tmp_path: Path, job: Any
) -> None:
    assert_converges(queries(spark, tmp_path, job), some_flights(), examples=10, seed=2)


@pytest.mark.slow
def test_a_query_without_deduplication_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "on_time_once", every)
    with pytest.raises(NotConverged):
        assert_converges(
            queries(spark, tmp_path, departures.JOB),
            some_flights()[:1],
            restarts=False,
            examples=10,
            seed=1,
        )
