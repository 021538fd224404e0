from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.shards.loads import Settings, StreamLoad
from headrace.shards.planning import US_EAST_1, on_demand_cost, provisioned_cost
from headrace.shards.policy import Action, Merge, Policy, Resize, Split
from headrace.shards.simulation import (
    KeyedLoad,
    Ring,
    Run,
    compare,
    generate_load,
    read_load,
    save_plot,
)


def week_of(**changes: Any) -> KeyedLoad:
    values: dict[str, Any] = {
        "shards": 10,
        "days": 7,
        "step_s": 300,
        "peak": 1.3,
        "swing": 5.0,
        "skew": 0.8,
    }
    return generate_load(**{**values, "hot_keys": 0, "seed": 1, **changes})


def runs_of(load: KeyedLoad, shards: int = 10, **settings: Any) -> dict[str, Run]:
    values: dict[str, Any] = {"max_shards": 40, "period_s": load.step_s, **settings}
    return {run.name: run for run in compare(load, Settings(**values), shards, US_EAST_1)}


def test_a_generated_load_has_the_peak_days_and_weekends_that_were_asked_for() -> None:
    load = week_of()
    needed = load.scales * load.rates.sum(axis=1)[load.row_of] / load.shard_records_per_s
    assert needed.max() == pytest.approx(13, rel=0.1)
    days = needed.reshape(7, -1)
    assert days[0].max() / days[0].min() == pytest.approx(5, rel=0.25)
    assert days[6].max() / days[1].max() == pytest.approx(0.6, rel=0.1)
    assert load.hashes == sorted(load.hashes)
    # The same seed is the same load.
    assert np.array_equal(week_of().scales, load.scales)


def test_the_policy_throttles_less_than_doing_nothing_and_costs_less_than_on_demand() -> None:
    runs = runs_of(week_of())
    policy, nothing = runs["policy"], runs["do nothing"]
    assert nothing.throttled_records > 0.05 * nothing.offered
    assert policy.throttled_records < 0.01 * policy.offered
    assert policy.cost < runs["on-demand"].cost
    # The nights have fewer shards than the days.
    assert policy.shards.min() <= 10 < policy.shards.max() <= 40


def test_no_load_is_lost_from_the_count() -> None:
    load = week_of(days=1)
    ring = Ring(load, 7)
    offered = load.rates.sum() * load.scales[0]
    assert ring.rates(0).sum() == pytest.approx(offered)
    first = ring.shards[0]
    cut = ring.get(first.shard_id).cut(first.start, first.end)
    assert cut is not None
    ring.apply(Split(first.shard_id, cut.hash_key, ""))
    halves = ring.rates(0)[:2]
    assert halves.max() / halves.sum() == pytest.approx(cut.heavier)
    assert ring.rates(0).sum() == pytest.approx(offered)
    ring.apply(Merge(ring.shards[0].shard_id, ring.shards[1].shard_id, ""))
    ring.apply(Resize(12, ""))
    assert len(ring) == 12
    assert ring.rates(0).sum() == pytest.approx(offered)


def test_a_key_beyond_a_shard_is_throttled_by_every_strategy_and_reported() -> None:
    rows = [(i / 2000, "hot", 100) for i in range(2000 * 60)]
    runs = runs_of(read_load(rows, step_s=10), shards=4)
    for run in runs.values():
        assert run.throttled_records == pytest.approx(60_000)
    assert "'hot' alone uses 100%" in runs["policy"].advice["hot-key"]


def test_a_recorded_load_keeps_its_keys_and_its_pace() -> None:
    load = read_load([(100.0, "a", 10), (101.0, "b", 30), (111.0, "a", 20)], step_s=10)
    assert load.steps == 2
    assert load.record_bytes == 20
    by_name = dict(zip(load.names, load.rates.T.tolist(), strict=True))
    assert by_name == {"a": [0.1, 0.1], "b": [0.1, 0.0]}
    assert read_load([(0.0, "a", 1), (100.0, "a", 1)], step_s=10, speed=50).steps == 1
    with pytest.raises(ValueError, match="no records"):
        read_load([], step_s=10)


def test_costs_are_the_sums_of_aws() -> None:
    # A shard for a day, and a million records of one unit each.
    assert provisioned_cost(US_EAST_1, 24, 1e6, 1000) == pytest.approx(24 * 0.015 + 0.014)
    assert provisioned_cost(US_EAST_1, 0, 1e6, 26_000) == pytest.approx(0.028)
    # On demand, a record is billed in whole KiB.
    assert on_demand_cost(US_EAST_1, 24, 1 << 20, 100) == pytest.approx(24 * 0.04 + 0.08 + 0.04)


def test_the_plot_is_a_png(tmp_path: Path) -> None:
    load = week_of(days=1)
    save_plot(tmp_path / "p.png", load, list(runs_of(load).values()), "a day")
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_thousands_of_shards_are_resized_and_not_split_one_by_one() -> None:
    load = week_of(shards=2000, days=1, step_s=900, keys_per_shard=5)
    policy = runs_of(load, shards=2000, max_shards=10_000)["policy"]
    assert policy.shards.max() >= 1.4 * 2000


def test_what_the_policy_remembers_does_not_depend_on_whose_lists_it_is_shown() -> None:
    load = week_of(shards=40, days=1, step_s=60, hot_keys=3)
    settings = Settings(max_shards=60, cold_for_s=300.0)
    ring, kept, anew = Ring(load, 40), Policy(settings), Policy(settings)
    actions: list[Action] = []
    for step in range(load.steps):
        used = np.minimum(ring.rates(step) / load.shard_records_per_s, 1.0).tolist()
        copies = [dataclasses.replace(shard) for shard in ring.shards]
        now_s = step * load.step_s
        decision = kept.decide(now_s, StreamLoad(ring.shards, used, keys=ring))
        assert anew.decide(now_s, StreamLoad(copies, used, keys=ring)) == decision
        for action in decision.actions:
            ring.apply(action)
        actions += decision.actions
    assert {Split, Merge} <= {type(action) for action in actions}
    assert len({shard.shard_id for shard in ring.shards}) == len(ring)
