"""Sequence numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.store.sequence import MAX_INDEX, STEP, InvalidSequence, SequenceBase, parse

bases = st.builds(
    SequenceBase,
    created_s=st.integers(1_400_000_000, 4_000_000_000),
    shard_number=st.integers(0, 2**31),
)
indices = st.integers(0, MAX_INDEX)
times_ms = st.integers(1_400_000_000_000, 4_000_000_000_000)


@given(bases, indices, times_ms)
def test_a_number_has_56_digits_and_gives_its_parts_back(
    base: SequenceBase, index: int, now_ms: int
):
    text = base.text(index, now_ms)
    assert len(text) == 56
    parsed = parse(text)
    assert (parsed.base, parsed.index, parsed.seconds) == (base, index, now_ms // 1000)


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
