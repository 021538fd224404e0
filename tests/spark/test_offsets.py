"""Offsets survive the checkpoint, and refuse what is not theirs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.offsets import (
    AtSequenceNumber,
    AtTimestamp,
    InvalidOffset,
    Latest,
    Offset,
    ShardOffset,
    ShardPositions,
    TrimHorizon,
    has_latest,
    pinned,
)

POSITIONS = st.one_of(
    st.just(TrimHorizon()),
    st.just(Latest()),
    st.builds(AtTimestamp, st.integers(0, 2**45)),
    st.builds(AtSequenceNumber, st.from_regex(r"\A[0-9]{56}\Z"), st.booleans()),
)
NAMED = st.dictionaries(st.from_regex(r"\AshardId-[0-9]{12}\Z"), POSITIONS, max_size=3)
INITS = st.one_of(
    POSITIONS,
    st.builds(
        ShardPositions, NAMED.map(lambda found: tuple(sorted(found.items(), key=str))), POSITIONS
    ),
)
SHARDS = st.builds(
    ShardOffset,
    sequence_number=st.one_of(st.none(), st.from_regex(r"\A[0-9]{56}\Z")),
    count=st.integers(0, 2**40),
    arrival_ms=st.integers(0, 2**45),
    ended=st.booleans(),
)


@given(INITS, st.dictionaries(st.from_regex(r"\AshardId-[0-9]{12}\Z"), SHARDS, max_size=5))
def test_an_offset_comes_back_from_json_as_it_was(init, shards) -> None:
    offset = Offset("flights", init, shards)
    assert Offset.from_json(json.loads(json.dumps(offset.to_json())), "flights") == offset


def test_equal_offsets_have_equal_json_whatever_the_order_of_their_shards() -> None:
    one, two = ShardOffset("1", 1, 1), ShardOffset("2", 1, 1)
    first = Offset("s", TrimHorizon(), {"a": one, "b": two})
    second = Offset("s", TrimHorizon(), {"b": two, "a": one})
    assert json.dumps(first.to_json()) == json.dumps(second.to_json())


def test_a_checkpoint_of_another_stream_is_refused() -> None:
    with pytest.raises(InvalidOffset, match="of stream 'flights', and the query reads 'others'"):
        Offset.from_json(Offset("flights", TrimHorizon()).to_json(), "others")


def test_a_checkpoint_of_another_version_is_refused() -> None:
    value = Offset("flights", TrimHorizon()).to_json() | {"v": 2}
    with pytest.raises(InvalidOffset, match="version 2"):
        Offset.from_json(value, "flights")


def test_an_unknown_starting_position_is_refused() -> None:
    value = Offset("flights", TrimHorizon()).to_json() | {"init": {"type": "YESTERDAY"}}
    with pytest.raises(InvalidOffset, match="YESTERDAY"):
        Offset.from_json(value, "flights")


@given(INITS, st.integers(0, 2**45))
def test_pinning_leaves_nothing_that_depends_on_when_it_is_looked_at(init, now_ms: int) -> None:
    found = pinned(init, now_ms)
    assert not has_latest(found)
    assert (found == init) is not has_latest(init)
