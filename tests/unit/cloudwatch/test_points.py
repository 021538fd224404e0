"""A metric's point keeps what its values come to, in little memory."""

from __future__ import annotations

import random
import tracemalloc
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.services.cloudwatch.points import Point
from headrace.services.cloudwatch.statistics import MOST_VALUES, add_value, statistic
from tests.support.moto_lab import MotoLab
from tests.unit.cloudwatch.test_cloudwatch import now, put

AT = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)
COUNTS = st.floats(1, 1e6)


def point_of(spread: dict[float, float]) -> Point:
    total = sum(value * count for value, count in spread.items())
    point = Point(
        ("n", "m", (), None), [], AT, (min(spread), max(spread), sum(spread.values()), total)
    )
    point.spread = dict(spread)
    return point


@given(st.dictionaries(NUMBERS, st.just(1.0) | COUNTS, min_size=1, max_size=20))
def test_a_packed_point_tells_the_same_values_apart(spread: dict[float, float]):
    point = point_of(spread)
    point.pack()
    assert point.spread == spread
    point.pack()
    assert point.spread == spread
    assert statistic("p50", [point]) == statistic("p50", [point_of(spread)])


@given(st.dictionaries(NUMBERS, COUNTS, min_size=1, max_size=20), NUMBERS)
def test_a_packed_point_takes_another_value(spread: dict[float, float], value: float):
    point = point_of(spread)
    point.pack()
    point.spread = later = point.spread
    add_value(later, value, 1.0, MOST_VALUES)
    point.pack()
    add_value(spread, value, 1.0, MOST_VALUES)
    assert point.spread == spread


def test_a_point_of_a_past_minute_takes_less_than_a_kilobyte(lab: MotoLab):
    chosen, values, minutes = random.Random(1), 40, 60
    # The first minutes bring what is there once.
    for _ in range(5):
        put(lab, *(chosen.random() for _ in range(values)))
        lab.clock.advance(60)
    tracemalloc.start()
    try:
        for _ in range(minutes):
            put(lab, *(chosen.random() for _ in range(values)))
            lab.clock.advance(60)
        statistics = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, "*/services/cloudwatch/*")]
        )
        kept = sum(one.size for one in statistics.statistics("filename"))
    finally:
        tracemalloc.stop()
    assert kept / minutes < 1_000


def test_a_late_value_belongs_to_its_own_minute(lab: MotoLab):
    start = now(lab)
    put(lab, 1.0, 2.0)
    lab.clock.advance(600)
    put(lab, 5.0)
    for value in (3.0, 4.0):
        lab.client("cloudwatch").put_metric_data(
            Namespace="n",
            MetricData=[{"MetricName": "m", "Value": value, "Timestamp": start, "Unit": "Count"}],
        )
    lab.clock.advance(600)
    put(lab, 6.0)
    answer = lab.client("cloudwatch").get_metric_statistics(
        Namespace="n", MetricName="m", StartTime=start, EndTime=start + timedelta(minutes=1),
        Period=60, Statistics=["Sum", "SampleCount"], ExtendedStatistics=["p100", "p50"],
    )  # fmt: skip
    (point,) = answer["Datapoints"]
    assert (point["Sum"], point["SampleCount"]) == (10.0, 4.0)
    assert point["ExtendedStatistics"] == {"p100": 4.0, "p50": 2.0}
