"""What a micro-batch takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.offsets import Offset, ShardOffset, TrimHorizon
from headrace.spark.spans import (
    DataLoss,
    Shard,
    Span,
    advance,
    eligible,
    expired,
    shares,
    spans_between,
    without,
)

PARENT, CHILD, OTHER = Shard("a"), Shard("b", ("a",)), Shard("c")


def at(**shards: ShardOffset) -> Offset:
    return Offset("s", TrimHorizon(), shards)


def test_a_child_waits_for_its_parents() -> None:
    assert eligible([PARENT, CHILD, OTHER], at()) == ["a", "c"]


def test_a_child_is_read_once_its_parent_ended_in_an_earlier_batch() -> None:
    assert eligible([PARENT, CHILD], at(a=ShardOffset("9", 5, 1, ended=True))) == ["b"]


def test_a_child_is_read_in_the_batch_to_which_its_parent_had_nothing_to_give() -> None:
    assert eligible([PARENT, CHILD], at(a=ShardOffset("9", 5, 1)), ["a"]) == ["b"]


def test_both_parents_of_a_merge_must_be_drained() -> None:
    merged = Shard("m", ("a", "c"))
    ended = ShardOffset("9", 5, 1, ended=True)
    assert eligible([PARENT, OTHER, merged], at(a=ended)) == ["c"]
    assert eligible([PARENT, OTHER, merged], at(a=ended, c=ended)) == ["m"]


def test_an_expired_parent_holds_nobody_up() -> None:
    assert eligible([CHILD], at()) == ["b"]


def test_shards_that_are_gone_are_told_apart_by_whether_they_were_finished() -> None:
    start = at(a=ShardOffset("9", 5, 1, ended=True), b=ShardOffset("9", 5, 1))
    assert expired([OTHER], start) == ({"a"}, {"b"})
    assert without(start, {"a"}).shards == {"b": ShardOffset("9", 5, 1)}


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 50), max_size=8),
    st.integers(1, 200),
)
def test_shares_take_as_much_as_is_allowed_and_there(available: dict[str, int], most: int) -> None:
    taken = shares(available, most)
    assert taken.keys() == available.keys()
    assert all(0 <= taken[name] <= available[name] for name in available)
    assert sum(taken.values()) == min(most, sum(available.values()))


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 50), min_size=1, max_size=8),
    st.integers(1, 200),
)
def test_no_shard_gets_less_than_another_while_it_has_more(
    available: dict[str, int], most: int
) -> None:
    taken = shares(available, most)
    starved = [name for name in taken if taken[name] < available[name]]
    if starved:
        assert max(taken.values()) <= min(taken[name] for name in starved) + 1


def test_the_spans_between_offsets_are_what_advanced_them() -> None:
    start = at(a=ShardOffset("3", 3, 1))
    spans = [Span("a", "3", "7", 4), Span("b", None, "9", 2)]
    end = advance(start, [(span, 5) for span in spans], {"a"})
    assert spans_between(start, end) == spans
    assert end.shards == {"a": ShardOffset("7", 7, 5, ended=True), "b": ShardOffset("9", 2, 5)}


def test_ending_a_shard_without_records_is_no_span() -> None:
    start = at(a=ShardOffset("3", 3, 1))
    end = advance(start, [], {"a", "b"})
    assert spans_between(start, end) == []
    assert end.shards["b"].ended


def test_an_offset_that_goes_back_is_called_damage() -> None:
    with pytest.raises(DataLoss, match="damaged"):
        spans_between(at(a=ShardOffset("3", 3, 1)), at(a=ShardOffset("2", 2, 1)))
