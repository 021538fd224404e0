from __future__ import annotations

import pytest

from headrace.client.hash_keys import HASH_KEYS
from headrace.shards.loads import Settings, StreamLoad
from headrace.shards.policy import (
    Merge,
    Policy,
    Resize,
    Split,
    busiest_of_equal_ranges,
    names_of,
)
from tests.unit.shards.streams import equal_shards, load_of, sketch_of

# 60 % target: hot from 80 % on, cold up to 36 % together.
SETTINGS = Settings(max_shards=100, period_s=60, cold_for_s=300)


def kinds_of(policy: Policy, now_s: float, load: StreamLoad) -> list[type]:
    return [type(action) for action in policy.decide(now_s, load).actions]


def test_a_full_shard_is_split_at_once_and_where_its_load_halves() -> None:
    load = load_of(1.0, keys={"shard-0": sketch_of((10, 1.0), (20, 1.0), (30, 2.0))})
    (split,) = Policy(SETTINGS).decide(0, load).actions
    assert isinstance(split, Split)
    assert split.at == 25


def test_a_hot_shard_is_split_when_it_stays_hot() -> None:
    policy = Policy(SETTINGS)
    assert kinds_of(policy, 0, load_of(0.85)) == []
    assert kinds_of(policy, 60, load_of(0.7)) == []
    assert kinds_of(policy, 120, load_of(0.85)) == []
    assert kinds_of(policy, 180, load_of(0.85)) == [Split]


def test_a_shard_that_throttles_is_split_at_once() -> None:
    load = load_of(0.5, throttled={"shard-0": 3.0})
    assert kinds_of(Policy(SETTINGS), 0, load) == [Split]


def test_an_unknown_load_is_split_in_the_middle() -> None:
    (split,) = Policy(SETTINGS).decide(0, load_of(1.0)).actions
    assert isinstance(split, Split)
    assert split.at == HASH_KEYS // 2


def test_the_hottest_shards_are_split_first_as_far_as_the_period_has_time() -> None:
    decision = Policy(SETTINGS).decide(0, load_of(0.96, 1.2, 0.3, 1.0))
    # AWS takes half a minute for each.
    assert [a.shard_id for a in decision.actions if isinstance(a, Split)] == ["shard-1", "shard-3"]
    quick = Policy(SETTINGS)
    quick.note_reshard(0.1)
    assert len(quick.decide(0, load_of(0.96, 1.2, 0.3, 1.0)).actions) == 3


def test_a_key_that_no_split_helps_is_reported_and_not_split() -> None:
    load = load_of(1.0, keys={"shard-0": sketch_of((10, 99.0), (20, 1.0))})
    decision = Policy(SETTINGS).decide(0, load)
    assert decision.actions == ()
    (advice,) = decision.advice
    assert advice.kind == "hot-key"
    assert "'key-10' alone uses 99% of shard-0" in advice.sentence
    assert "Salt" in advice.sentence
    assert "AUTO" in advice.sentence


def test_a_hot_key_is_freed_of_its_neighbours_and_reported() -> None:
    load = load_of(1.2, keys={"shard-0": sketch_of((10, 7.0), (20, 3.0))})
    decision = Policy(SETTINGS).decide(0, load)
    assert [type(a) for a in decision.actions] == [Split]
    assert [a.kind for a in decision.advice] == ["hot-key"]


def test_the_most_shards_are_kept_and_said() -> None:
    decision = Policy(Settings(max_shards=2)).decide(0, load_of(1.0, 1.0))
    assert decision.actions == ()
    assert [a.kind for a in decision.advice] == ["at-most-shards"]


def test_cold_neighbours_are_merged_after_a_while_the_coldest_first() -> None:
    policy = Policy(SETTINGS)
    load = load_of(0.2, 0.1, 0.05, 0.3)
    for now_s in (0, 60, 120, 180, 240):
        assert kinds_of(policy, now_s, load) == []
    actions = policy.decide(300, load).actions
    assert [(a.shard_id, a.adjacent_id) for a in actions if isinstance(a, Merge)] == [
        ("shard-1", "shard-2")
    ]


def test_a_warm_moment_begins_the_wait_anew() -> None:
    policy = Policy(SETTINGS)
    for now_s in (0, 60, 120, 180, 240):
        kinds_of(policy, now_s, load_of(0.1, 0.1))
    assert kinds_of(policy, 300, load_of(0.4, 0.1)) == []
    assert kinds_of(policy, 360, load_of(0.1, 0.1)) == []
    assert kinds_of(policy, 660, load_of(0.1, 0.1)) == [Merge]


def test_merged_shards_would_not_be_split_again() -> None:
    # Hysteresis: what is merged together uses less than half of what would split it.
    assert SETTINGS.merge_at < SETTINGS.split_at / 2
    policy = Policy(SETTINGS)
    for now_s in range(0, 1000, 60):
        assert kinds_of(policy, now_s, load_of(0.3, 0.3)) == []


def test_the_fewest_shards_are_kept_and_reached() -> None:
    policy = Policy(Settings(min_shards=2, cold_for_s=0))
    assert kinds_of(policy, 0, load_of(0.0, 0.0)) == []
    assert kinds_of(policy, 0, load_of(0.1)) == [Split]


def test_shards_whose_readers_are_behind_are_not_merged() -> None:
    policy = Policy(Settings(cold_for_s=0))
    behind = load_of(0.0, 0.0, iterator_age_ms={"shard-0": 120_000.0})
    assert kinds_of(policy, 0, behind) == []
    assert kinds_of(policy, 60, load_of(0.0, 0.0)) == [Merge]


def test_cold_shards_are_merged_although_a_hot_key_stays() -> None:
    policy = Policy(Settings(cold_for_s=0))
    load = load_of(1.0, 0.0, 0.0, keys={"shard-0": sketch_of((10, 1.0))})
    assert kinds_of(policy, 0, load) == [Merge]


def test_many_hot_shards_are_resized_by_one_call() -> None:
    # 40 splits of half a minute each are more than a quarter of an hour.
    (resize,) = Policy(SETTINGS).decide(0, load_of(*[1.0] * 40)).actions
    assert isinstance(resize, Resize)
    assert resize.count == 67
    quick = Policy(SETTINGS)
    quick.note_reshard(0.2)
    assert set(kinds_of(quick, 0, load_of(*[1.0] * 40))) == {Split}


def test_a_resize_at_most_doubles() -> None:
    (resize,) = Policy(SETTINGS).decide(0, load_of(*[3.0] * 40)).actions
    assert resize == Resize(80, "40 shards are hot")


def test_uneven_load_is_not_resized() -> None:
    used = [9.0] * 10 + [1.0] * 30
    decision = Policy(SETTINGS).decide(0, load_of(*used))
    assert {type(a) for a in decision.actions} == {Split}
    assert [a.kind for a in decision.advice] == ["uneven"]


def test_ten_resizes_a_day_and_then_advice() -> None:
    policy = Policy(Settings(max_shards=10_000))
    load = load_of(*[1.0] * 40)
    kinds = [kinds_of(policy, 3600.0 * i, load)[0] for i in range(11)]
    assert kinds == [Resize] * 10 + [Split]
    assert "resizes-used" in {a.kind for a in policy.decide(3600.0 * 11, load).advice}
    assert kinds_of(policy, 86_400.0, load) == [Resize]


def test_a_resize_that_is_not_allowed_is_advised() -> None:
    policy = Policy(Settings(may_resize=False))
    decision = policy.decide(0, load_of(*[1.0] * 40))
    assert {type(a) for a in decision.actions} == {Split}
    assert [a.kind for a in decision.advice] == ["resize"]


def test_many_cold_shards_are_resized_by_half_at_most() -> None:
    policy = Policy(Settings(cold_for_s=0))
    (resize,) = policy.decide(0, load_of(*[0.0] * 100)).actions
    assert isinstance(resize, Resize)
    assert resize.count == 50


def test_the_other_mode_is_advised_once_a_day_has_shown_that_it_is_cheaper() -> None:
    policy = Policy(Settings(min_shards=50))
    idle = load_of(*[0.0] * 50, bytes_per_s=1000.0, records_per_s=10.0)
    assert policy.decide(0, idle).advice == ()
    (advice,) = policy.decide(86_400, idle).advice
    assert advice.kind == "on-demand"
    assert "$18.01" in advice.sentence


def test_a_busy_stream_is_cheaper_provisioned() -> None:
    policy = Policy(Settings(min_shards=2))
    busy = load_of(0.6, 0.6, bytes_per_s=1_200_000.0, records_per_s=1200.0)
    policy.decide(0, busy)
    assert policy.decide(86_400, busy).advice == ()


def test_equal_ranges_spread_the_load_by_overlap() -> None:
    assert busiest_of_equal_ranges(load_of(1.0, 1.0), 4) == pytest.approx(0.5)
    assert busiest_of_equal_ranges(load_of(2.0, 0.0), 3) == pytest.approx(4 / 3)
    assert busiest_of_equal_ranges(load_of(0.5, 0.5, 0.5), 1) == pytest.approx(1.5)


def test_actions_have_sentences() -> None:
    shards = equal_shards(2)
    actions = [Split(shards[0].shard_id, 5, "hot"), Merge("a", "b", "cold"), Resize(4, "many")]
    assert names_of(actions) == [
        "split shard-0 at 5 (hot)",
        "merge a and b (cold)",
        "update the shard count to 4 (many)",
    ]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"min_shards": 3, "max_shards": 2}, "the lower one first"),
        ({"min_shards": 0}, "are 1 to 10000"),
        ({"max_shards": 10_001}, "are 1 to 10000"),
        ({"target_utilisation": 1.0}, "between 0.1 and 0.9"),
        ({"merge_share": 1.0}, "merge_share is between"),
        ({"period_s": 0}, "period_s is positive"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Settings(**settings)  # type: ignore[arg-type]
