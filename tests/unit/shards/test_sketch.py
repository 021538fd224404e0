from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.hash_keys import HASH_KEYS, hash_key_of
from headrace.shards.loads import Cut, KeySketch
from tests.unit.shards.streams import sketch_of


def test_the_cut_parts_the_load_and_not_the_range() -> None:
    # All load lies in the first sixteenth of the range.
    sketch = sketch_of((10, 3.0), (20, 1.0), (30, 1.0), (40, 1.0))
    assert sketch.cut(0, 1000) == Cut(15, 0.5)


def test_a_single_key_cannot_be_parted() -> None:
    assert sketch_of((10, 5.0)).cut(0, 1000) is None
    assert KeySketch().cut(0, 1000) is None


def test_a_heavy_key_in_the_middle_is_cut_off_on_its_lighter_side() -> None:
    cut = sketch_of((10, 1.0), (20, 8.0), (30, 2.0)).cut(0, 1000)
    assert cut is not None
    assert 20 < cut.hash_key <= 30
    assert cut.heavier == pytest.approx(9 / 11)


def test_a_cut_leaves_what_split_shard_takes() -> None:
    # NewStartingHashKey is greater than the first hash key plus one, and less than the last (test_reshard).
    assert sketch_of((0, 1.0), (1, 1.0)).cut(0, 100) is None
    assert sketch_of((0, 1.0), (2, 1.0)).cut(0, 100) == Cut(2, 0.5)
    assert sketch_of((99, 1.0), (100, 1.0)).cut(0, 100) is None


def test_hot_keys_are_found_among_many_in_little_memory() -> None:
    chance = random.Random(7)
    sketch = KeySketch(64)
    for _ in range(20_000):
        key = "hot" if chance.random() < 0.2 else f"k{chance.randrange(5000)}"
        sketch.add(hash_key_of(key), key, 1.0)
    hottest = sketch.hottest(1)[0]
    assert hottest.key == "hot"
    assert 0.15 < hottest.share <= 0.21


def test_many_even_keys_are_cut_near_the_middle() -> None:
    sketch = KeySketch(256)
    for i in range(20_000):
        sketch.add(hash_key_of(str(i)), str(i), 1.0)
    cut = sketch.cut(0, HASH_KEYS - 1)
    assert cut is not None
    assert 0.4 < cut.hash_key / HASH_KEYS < 0.6
    assert cut.heavier < 0.6


@given(
    st.lists(st.tuples(st.integers(0, 40), st.floats(0.1, 10)), max_size=200), st.integers(2, 12)
)
def test_no_key_is_said_to_have_more_than_it_has(
    added: list[tuple[int, float]], most_keys: int
) -> None:
    sketch = KeySketch(most_keys)
    true: dict[int, float] = {}
    for hash_key, weight in added:
        sketch.add(hash_key, str(hash_key), weight)
        true[hash_key] = true.get(hash_key, 0.0) + weight
    hottest = sketch.hottest(100)
    assert len(hottest) <= most_keys
    for hot in hottest:
        assert hot.share * sketch.total <= true[hot.hash_key] + 1e-6
    # What SpaceSaving promises: no key with more than total / most_keys is missed.
    kept = set(sketch._counters)
    assert all(h in kept for h, w in true.items() if w > sketch.total / most_keys + 1e-6)
