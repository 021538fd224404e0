"""Sequence numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.store.sequence import MAX_INDEX, STEP, InvalidSequence, SequenceBase, parse

bases = st.builds(
    SequenceBase,
    created_s=st.integers(1_400_000_000, 4_000_000_000),
    shard_number=st.integers(0, 2**31 - 1),
)
indices = st.integers(0, MAX_INDEX)
times_ms = st.integers(1_400_000_000_000, 4_000_000_000_000)


# A clock may be set back by some years after a shard was made, not by more.
@given(bases, indices, st.integers(-150_000_000_000, 2**40))
def test_a_number_has_56_digits_and_gives_its_parts_back(
    base: SequenceBase, index: int, later_ms: int
):
    now_ms = base.created_s * 1000 + later_ms
    text = base.text(index, now_ms)
    assert len(text) == 56
    parsed = parse(text)
    seconds = max(now_ms // 1000, base.created_s)
    assert (parsed.base, parsed.index, parsed.seconds) == (base, index, seconds)


@given(bases, st.integers(0, MAX_INDEX - 1), times_ms, times_ms)
def test_numbers_grow_with_the_index_whatever_the_clock_does(
    base: SequenceBase, index: int, first_ms: int, second_ms: int
):
    assert int(base.text(index, first_ms)) < int(base.text(index + 1, second_ms))


@given(bases, indices, indices, times_ms, times_ms)
def test_a_shard_created_a_second_later_is_above_all_of_the_earlier(
    base: SequenceBase, index: int, child_index: int, now_ms: int, child_ms: int
):
    child = SequenceBase(base.created_s + 1, base.shard_number + 1)
    assert int(base.text(index, now_ms)) < int(child.text(child_index, child_ms))


@given(bases, st.integers(0, MAX_INDEX - 1000), times_ms, st.integers(0, 1000))
def test_a_step_is_the_next_records_number(
    base: SequenceBase, index: int, now_ms: int, further: int
):
    assert str(base.first_of(index, now_ms) + STEP * further) == base.text(index + further, now_ms)


@pytest.mark.parametrize(
    "text", ["", "x", "1", "-1", "٣" * 56, "9" * 56, "9" * 200, "4" + "0" * 55]
)
def test_what_is_no_number_of_a_shard_is_refused(text: str):
    with pytest.raises(InvalidSequence):
        parse(text)


# 0.1.0 wrote the shard's number before the seconds.
def _of_0_1_0(base: SequenceBase, index: int, seconds: int) -> str:
    digit = base.shard_number % 16
    return str(
        int(
            f"2{base.created_s:09x}{digit:x}{index:016x}0{base.shard_number:08x}{seconds:09x}{digit:x}2",
            16,
        )
    )


@given(
    st.builds(
        SequenceBase,
        created_s=st.integers(1_600_000_000, 2_000_000_000),
        shard_number=st.integers(0, 100_000),
    ),
    indices,
    st.integers(1_600_000_000, 2_000_000_000),
)
def test_a_number_that_0_1_0_stored_gives_its_parts_back(
    base: SequenceBase, index: int, seconds: int
):
    parsed = parse(_of_0_1_0(base, index, seconds))
    assert (parsed.base, parsed.index, parsed.seconds) == (base, index, seconds)


# documented: docs.aws.amazon.com/lambda/latest/dg/with-kinesis.html (the example event: shardId-000000000006,
# approximateArrivalTimestamp 1545084650.987 and, two seconds after the number's own, 1545084711.166)
@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        ("49590338271490256608559692538361571095921575989136588898", 1_545_084_650),
        ("49590338271490256608559692540925702759324208523137515618", 1_545_084_709),
    ],
)
def test_a_number_of_aws_gives_its_shard_and_its_second(number: str, seconds: int):
    parsed = parse(number)
    assert parsed.base.shard_number == 6
    assert parsed.seconds == seconds
    assert parsed.base.text(parsed.index, seconds * 1000) == number


def test_no_record_is_below_the_first_number_of_its_shard() -> None:
    """A shard that a split has made in the second of its parent is dated a second ahead. Found by a simulation."""
    base = SequenceBase(1_700_000_001, 2)
    first, record = base.first_of(0, 1_700_000_001_000), base.first_of(0, 1_700_000_000_950)
    assert first <= record < base.first_of(1, 1_700_000_000_950)
