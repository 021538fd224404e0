"""A shard is read no faster than Kinesis allows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.options import READ_BYTES_PER_S
from headrace.spark.reading import Pace


@given(st.lists(st.tuples(st.integers(0, 10 * 1024 * 1024), st.floats(0, 3)), max_size=60))
def test_never_more_than_five_calls_or_what_is_paid_for_in_a_second(
    calls: list[tuple[int, float]],
) -> None:
    pace = Pace(0.2, READ_BYTES_PER_S)
    now_s = 0.0
    made: list[tuple[float, int]] = []
    for data_bytes, idle_s in calls:
        now_s += idle_s
        now_s += pace.wait_s(now_s)
        pace.spend(data_bytes, now_s)
        made.append((now_s, data_bytes))
    for index, (at_s, _) in enumerate(made):
        if index:
            before_s, size = made[index - 1]
            assert at_s - before_s >= size / READ_BYTES_PER_S - 1e-6
        if index >= 5:
            # Five at once, and one every 200 ms: on average five a second from then on.
            since = [s for s, _ in made[: index + 1] if s > at_s - 10]
            assert len(since) <= 5 + 50


def test_five_calls_may_come_at_once_and_the_sixth_waits() -> None:
    pace = Pace(0.2, READ_BYTES_PER_S)
    for _ in range(5):
        assert pace.wait_s(100.0) == 0
        pace.spend(0, 100.0)
    assert abs(pace.wait_s(100.0) - 0.2) < 1e-6
