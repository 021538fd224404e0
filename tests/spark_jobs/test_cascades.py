"""Late departures in a row, found in a stream that is out of order, against pandas on the same flights in order."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from scripts import reference_streams as reference
from spark_jobs import cascades
from tests.spark_jobs.feed import Feed, arguments, cut, flights, late, table

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

DELAY = pd.Timedelta(hours=2)
HOUR_MS = 3_600_000


def test_a_streak_grows_with_late_flights_and_ends_with_one_on_time() -> None:
    streak = cascades.NO_STREAK
    for hour, delay in ((1, 15), (2, 40), (3, 20)):
        streak = cascades.advance(streak, (hour * HOUR_MS, "a", delay))

    assert streak == (HOUR_MS, 3 * HOUR_MS, 3, 75)
    assert cascades.advance(streak, (4 * HOUR_MS, "b", 14)) == cascades.NO_STREAK


def test_a_day_without_a_flight_ends_a_streak() -> None:
    streak = cascades.advance(cascades.NO_STREAK, (HOUR_MS, "a", 20))

    assert cascades.advance(streak, (25 * HOUR_MS, "b", 20))[2] == 2
    assert cascades.advance(streak, (25 * HOUR_MS + 1, "b", 20))[2] == 1


@pytest.mark.slow
def test_cascades_of_a_stream_out_of_order_are_those_of_pandas_in_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    count = 4000
    batches = cut(late(flights(count)), count // 4)
    expected = reference.kept(batches, DELAY)
    feed = Feed(spark, tmp_path / "input")
    argv = arguments(tmp_path, "--watermark", "2 hours")
    dropped = 0
    # Two runs: what waits at the end of the first is in the checkpoint.
    for half in (batches[:2], batches[2:]):
        for batch in half:
            feed.put(batch)
        dropped += cascades.JOB.run(spark, cascades.JOB.parse(argv), feed.stream())[
            "dropped as late"
        ]

    assert dropped == expected.dropped > 20
    wanted = reference.cascades(expected.rows, expected.closed)
    found = table(tmp_path / "output" / "cascades")
    assert len(wanted) > count // 200
    assert reference.differing(wanted, found, ["event_id"]).empty
