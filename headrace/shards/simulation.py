"""Four ways to run a simulated stream on the same load of keys: what was throttled, what it cost.

Four ways to run a stream, each on the same load: what was throttled, what it cost.

The shards of a simulated stream, and the load that each has.

A load of keys over time, generated or recorded, in columns.

The runs of a simulation as a picture. Needs matplotlib.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace.client.hash_keys import HASH_KEYS, ShardRange, hash_key_of
from headrace.shards.loads import Cut, HotKey, Settings, StreamLoad, weight_of
from headrace.shards.planning import Prices, on_demand_cost, provisioned_cost
from headrace.shards.policy import GROWTH, RESIZES_PER_DAY, Action, Merge, Policy, Resize, Split

Floats = npt.NDArray[np.float64]
# A generated key has at most this share of a shard, but for the hot ones.
_MOST_OF_A_SHARD = 0.3
_HOT_OF_A_SHARD = 0.85
_HOT_FOR_S = 7200.0
_WEEKEND = 0.6


@dataclass(slots=True)
class KeyedLoad:
    """Records of keys, step by step.

    Attributes:
        step_s: the seconds of a step.
        hashes: the keys' hash keys, ascending.
        names: the keys.
        record_bytes: of each record.
        scales: for each step, what its rates are multiplied by.
        rates: records per second of each key; one row for each step that `row_of` names.
        row_of: for each step, its row in `rates`.
    """

    step_s: float
    hashes: list[int]
    names: list[str]
    record_bytes: float
    scales: Floats
    rates: Floats
    row_of: npt.NDArray[np.int64]

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.scales)

    @property
    def shard_records_per_s(self) -> float:
        """What a shard takes of these records."""
        return 1 / weight_of(round(self.record_bytes))


def generate_load(
    *,
    shards: int,
    days: float,
    step_s: float,
    peak: float,
    swing: float,
    skew: float,
    hot_keys: int,
    seed: int,
    record_bytes: int = 1024,
    keys_per_shard: int = 20,
) -> KeyedLoad:
    """Return a load with days, nights, a weekend, uneven keys, and keys that become hot for two hours.

    Args:
        shards: how many shards the load is made for.
        days: how long it lasts; it begins on a Monday at midnight.
        step_s: the seconds of a step.
        peak: the highest load as a share of what these shards take.
        swing: the highest load of a day over its lowest.
        skew: the exponent of Zipf's law for the keys; 0: all are alike.
        hot_keys: how often a key becomes hot.
        seed: of all that is random.
        record_bytes: of each record.
        keys_per_shard: how many keys there are.
    """
    chance = np.random.default_rng(seed)
    count = max(50, shards * keys_per_shard)
    names = [f"key-{i}" for i in range(count)]
    names.sort(key=hash_key_of)
    hashes = [hash_key_of(name) for name in names]
    shard_rate = 1 / weight_of(record_bytes)
    total = peak * shards * shard_rate
    weights: Floats = chance.permutation(np.arange(1, count + 1) ** -skew)
    rates: Floats = total * weights / weights.sum()
    for _ in range(20):
        rates = np.minimum(rates, _MOST_OF_A_SHARD * shard_rate)
        rates *= total / rates.sum()
    steps = max(1, round(days * _DAY_S / step_s))
    at_s: Floats = np.arange(steps, dtype=np.float64) * step_s
    scales = _days(at_s, swing) * chance.normal(1, 0.02, steps).clip(0.9, 1.1)
    starts = np.sort(chance.uniform(0, max(1.0, days * _DAY_S - _HOT_FOR_S), hot_keys))
    which = chance.integers(0, count, hot_keys)
    is_hot = (at_s >= starts[:, None]) & (at_s < starts[:, None] + _HOT_FOR_S)
    patterns, row_of = np.unique(is_hot.T, axis=0, return_inverse=True)
    rows = np.tile(rates, (len(patterns), 1))
    for row, pattern in enumerate(patterns):
        rows[row, which[pattern]] = _HOT_OF_A_SHARD * shard_rate
    return KeyedLoad(step_s, hashes, names, record_bytes, scales, rows, row_of.reshape(-1))


def _days(at_s: Floats, swing: float) -> Floats:
    """Return the load at times since Monday's midnight, 1 at most: highest at 15:00, less on the weekend."""
    low = 1 / swing
    wave = (1 - np.cos(2 * np.pi * (at_s / _DAY_S - 0.125))) / 2
    weekend = np.where((at_s // _DAY_S) % 7 >= 5, _WEEKEND, 1.0)
    result: Floats = (low + (1 - low) * wave) * weekend
    return result


def read_load(
    rows: Iterable[tuple[float, str, int]], *, step_s: float, speed: float = 1.0
) -> KeyedLoad:
    """Return the load of records: when each came (in seconds), its key and its bytes. Raises ValueError without any.

    `speed` times as fast as they came.
    """
    taken = sorted(rows)
    if not taken:
        raise ValueError("there are no records")
    names = sorted({key for _, key, _ in taken}, key=hash_key_of)
    place_of = {name: index for index, name in enumerate(names)}
    first_s = taken[0][0]
    at = np.array([(at_s - first_s) / speed for at_s, _, _ in taken])
    steps = int(at[-1] // step_s) + 1
    cells = (at // step_s).astype(np.int64) * len(names) + [place_of[key] for _, key, _ in taken]
    counts = np.bincount(cells, minlength=steps * len(names)).reshape(steps, len(names))
    return KeyedLoad(
        step_s=step_s,
        hashes=[hash_key_of(name) for name in names],
        names=names,
        record_bytes=sum(bytes_ for _, _, bytes_ in taken) / len(taken),
        scales=np.ones(steps),
        rates=counts / step_s,
        row_of=np.arange(steps),
    )


class Ring:
    """Open shards by their first hash keys."""

    def __init__(self, load: KeyedLoad, count: int) -> None:
        """Take a load, and how many shards of equal width there are at first."""
        self._load, self._made = load, 0
        self._row = -1
        self._sums: Floats = np.zeros(0)
        # Another list after each change: a look keeps its own.
        self.shards: list[ShardRange] = []
        self._by_id: dict[str, ShardRange] = {}
        self._edges = np.zeros(0, dtype=np.int64)
        self._rates: Floats = np.zeros(0)
        self._resize(count)

    def __len__(self) -> int:
        return len(self.shards)

    def rates(self, step: int) -> Floats:
        """Return the records per second that producers offer to each shard."""
        row = int(self._load.row_of[step])
        if row != self._row:
            self._row = row
            self._sums = np.concatenate(([0.0], np.cumsum(self._load.rates[row])))
            self._rates = np.diff(self._sums[self._edges])
        result: Floats = self._rates * self._load.scales[step]
        return result

    def apply(self, action: Action) -> None:
        """Take an action of the policy."""
        match action:
            case Split():
                index = self._place_of(action.shard_id)
                shard = self.shards[index]
                children = [
                    self._new(shard.start, action.at - 1),
                    self._new(action.at, shard.end),
                ]
                self.shards = [*self.shards[:index], *children, *self.shards[index + 1 :]]
                self._edges = np.insert(self._edges, index + 1, self._edge(action.at))
            case Merge():
                index = self._place_of(action.shard_id)
                left, right = self.shards[index : index + 2]
                child = self._new(left.start, right.end)
                self.shards = [*self.shards[:index], child, *self.shards[index + 2 :]]
                self._edges = np.delete(self._edges, index + 1)
            case Resize():
                self._resize(action.count)
                return
        self._rates = np.diff(self._sums[self._edges])

    # The keys of each shard; see `headrace.shards.loads.LoadsByShard`.

    def get(self, shard_id: str, /) -> ShardKeys:
        """Return a shard's keys."""
        index = self._place_of(shard_id)
        first, last = int(self._edges[index]), int(self._edges[index + 1])
        return ShardKeys(self._load, self._row, first, last)

    def _resize(self, count: int) -> None:
        self._by_id.clear()
        starts = [HASH_KEYS * i // count for i in range(count + 1)]
        self.shards = [self._new(start, end - 1) for start, end in itertools.pairwise(starts)]
        self._edges = np.array([*map(self._edge, starts[:-1]), len(self._load.hashes)])
        if self._row >= 0:
            self._rates = np.diff(self._sums[self._edges])

    def _edge(self, hash_key: int) -> int:
        return bisect_left(self._load.hashes, hash_key)

    def _new(self, start: int, end: int) -> ShardRange:
        self._made += 1
        shard = ShardRange(f"shardId-{self._made:012d}", start, end)
        self._by_id[shard.shard_id] = shard
        return shard

    def _place_of(self, shard_id: str) -> int:
        start = self._by_id[shard_id].start
        return bisect_left(self.shards, start, key=lambda shard: shard.start)


class ShardKeys:
    """The keys of one shard; see `headrace.shards.loads.KeyLoads`."""

    def __init__(self, load: KeyedLoad, row: int, first: int, last: int) -> None:
        self._load, self._first = load, first
        self._rates: Floats = load.rates[row, first:last]

    def hottest(self, count: int) -> list[HotKey]:
        """See `KeyLoads`."""
        total = float(self._rates.sum())
        best = np.argsort(self._rates)[::-1][:count]
        return [
            HotKey(
                self._load.hashes[self._first + i],
                self._load.names[self._first + i],
                float(self._rates[i]) / total,
            )
            for i in map(int, best)
            if self._rates[i] > 0
        ]

    def cut(self, start: int, end: int) -> Cut | None:
        """See `KeyLoads`."""
        sums = np.cumsum(self._rates)
        if len(sums) < 2 or sums[-1] <= 0:
            return None
        # Between each key and the next: what the heavier side has.
        heavier = np.maximum(sums[:-1], sums[-1] - sums[:-1]) / sums[-1]
        best = int(heavier.argmin())
        left, right = self._load.hashes[self._first + best : self._first + best + 2]
        middle = min(max((left + right + 1) // 2, start + 2), end - 1)
        return Cut(middle, float(heavier[best])) if left < middle <= right else None


# How long UpdateShardCount takes (assumed: users report minutes).
RESIZE_S = 300.0
# On demand: what a new stream takes at first, in shards, and how soon it follows a new peak (documented).
ON_DEMAND_SHARDS = 4
_FOLLOWS_AFTER_S = 900.0
_DAY_S = 86_400.0


@dataclass(slots=True)
class Run:
    """What a strategy did with a load.

    Attributes:
        name: the strategy.
        shards: open shards, step by step; on demand: the capacity in shards.
        throttled: records that were refused, step by step.
        offered: records that were offered.
        shard_hours: None: not billed by the shard.
        cost: in dollars.
        actions: how often shards were split, merged or resized.
        advice: what the policy said, each kind once, the newest sentence.
    """

    name: str
    shards: Floats
    throttled: Floats
    offered: float = 0.0
    shard_hours: float | None = None
    cost: float = 0.0
    actions: int = 0
    advice: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def throttled_records(self) -> float:
        """Records that were refused."""
        return float(self.throttled.sum())


def compare(load: KeyedLoad, settings: Settings, shards: int, prices: Prices) -> list[Run]:
    """Return the runs of all four strategies; those with shards begin with `shards` of them."""
    runs = [
        do_nothing(load, shards),
        follow_mean(load, settings, shards),
        follow_policy(load, settings, shards),
        on_demand(load, shards),
    ]
    hours = load.steps * load.step_s / 3600
    offered = float((load.scales * load.rates.sum(axis=1)[load.row_of]).sum() * load.step_s)
    for run in runs:
        run.offered = offered
        taken = offered - run.throttled_records
        if run.name == "on-demand":
            run.cost = on_demand_cost(prices, hours, taken, load.record_bytes)
        else:
            run.shard_hours = float(run.shards.sum() * load.step_s / 3600)
            run.cost = provisioned_cost(prices, run.shard_hours, taken, load.record_bytes)
    return runs


def _new_run(name: str, load: KeyedLoad) -> Run:
    return Run(name, np.zeros(load.steps), np.zeros(load.steps))


def _note(run: Run, load: KeyedLoad, step: int, ring: Ring) -> Floats:
    """Note a step; return how much of each shard was used, 1 at most, as a look at the stream would show."""
    rates = ring.rates(step)
    most = load.shard_records_per_s
    run.shards[step] = len(ring)
    taken = np.minimum(rates, most)
    run.throttled[step] = (rates - taken).sum() * load.step_s
    used: Floats = taken / most
    return used


def do_nothing(load: KeyedLoad, shards: int) -> Run:
    """Keep the shards."""
    run, ring = _new_run("do nothing", load), Ring(load, shards)
    for step in range(load.steps):
        _note(run, load, step, ring)
    return run


def follow_policy(load: KeyedLoad, settings: Settings, shards: int) -> Run:
    """Let the policy split and merge: it looks once a step, and sees no more than a look at a real stream shows."""
    run, ring, policy = _new_run("policy", load), Ring(load, shards), Policy(settings)
    coming: tuple[float, Resize] | None = None
    for step in range(load.steps):
        now_s = step * load.step_s
        if coming is not None and coming[0] <= now_s:
            ring.apply(coming[1])
            coming = None
        used = _note(run, load, step, ring)
        records = float(used.sum() * load.shard_records_per_s)
        look = StreamLoad(
            ring.shards,
            used.tolist(),
            keys=ring,
            records_per_s=records,
            bytes_per_s=records * load.record_bytes,
        )
        if coming is not None:
            # AWS takes no other change meanwhile.
            continue
        decision = policy.decide(now_s, look)
        run.advice.update({advice.kind: advice.sentence for advice in decision.advice})
        run.actions += len(decision.actions)
        for action in decision.actions:
            if isinstance(action, Resize):
                coming = (now_s + RESIZE_S, action)
            else:
                ring.apply(action)
    return run


def follow_mean(load: KeyedLoad, settings: Settings, shards: int) -> Run:
    """Call UpdateShardCount by the mean of all shards, or when records are throttled, as most tools do."""
    run, ring = _new_run("UpdateShardCount", load), Ring(load, shards)
    calls: deque[float] = deque()
    cold_since_s: float | None = None
    for step in range(load.steps):
        now_s = step * load.step_s
        used, count = _note(run, load, step, ring), len(ring)
        while calls and calls[0] <= now_s - _DAY_S:
            calls.popleft()
        total = float(used.sum())
        is_cold = total / count < settings.merge_at
        cold_since_s = (now_s if cold_since_s is None else cold_since_s) if is_cold else None
        shard_count = max(settings.min_shards, math.ceil(total / settings.target_utilisation))
        target = count
        if run.throttled[step] or total / count >= settings.split_at:
            target = min(
                max(shard_count, math.ceil(GROWTH * count)), 2 * count, settings.max_shards
            )
        elif cold_since_s is not None and now_s - cold_since_s >= settings.cold_for_s:
            # Some calls of the day are kept for load that comes.
            target = (
                max(shard_count, -(-count // 2)) if len(calls) < RESIZES_PER_DAY // 2 else count
            )
        is_free = len(calls) < RESIZES_PER_DAY and not (calls and now_s - calls[-1] < RESIZE_S)
        if target != count and is_free:
            calls.append(now_s)
            run.actions += 1
            ring.apply(Resize(target, ""))
    return run


def on_demand(load: KeyedLoad, shards: int) -> Run:
    """Let AWS follow: twice the highest load so far, a quarter of an hour later; no key above one shard's limit.

    A stream that changes its mode keeps what its shards took.
    """
    run, most = _new_run("on-demand", load), load.shard_records_per_s
    totals: Floats = load.scales * load.rates.sum(axis=1)[load.row_of]
    delay = max(1, round(_FOLLOWS_AFTER_S / load.step_s))
    peaks = np.maximum.accumulate(totals)
    known = np.concatenate((np.zeros(min(delay, load.steps)), peaks[: max(0, load.steps - delay)]))
    run.shards = np.maximum(max(ON_DEMAND_SHARDS, shards), 2 * known / most)
    highest = load.rates.max(axis=1)
    for step in range(load.steps):
        row, scale = int(load.row_of[step]), float(load.scales[step])
        over = 0.0
        if highest[row] * scale > most:
            over = float(np.maximum(0.0, load.rates[row] * scale - most).sum())
        too_much = float(totals[step]) - over - run.shards[step] * most
        run.throttled[step] = (over + max(0.0, too_much)) * load.step_s
    return run


# matplotlib is typed in part only.


def save_plot(path: Path, load: KeyedLoad, runs: Sequence[Run], title: str) -> None:
    """Write a PNG: the load with each strategy's shards, and the records throttled so far."""
    from matplotlib.figure import Figure

    hours = np.arange(load.steps) * load.step_s / 3600
    needed = load.scales * load.rates.sum(axis=1)[load.row_of] / load.shard_records_per_s
    figure = Figure(figsize=(11, 7), layout="constrained")
    shards, throttled = figure.subplots(2, 1, sharex=True)
    shards.fill_between(hours, needed, color="0.85", label="load, in full shards")
    for run in runs:
        shards.plot(hours, run.shards, label=run.name, linewidth=1.2)
        throttled.plot(hours, np.cumsum(run.throttled), label=run.name, linewidth=1.2)
    shards.set_title(title)
    shards.set_ylabel("open shards")
    shards.set_ylim(bottom=0)
    shards.legend(loc="upper right")
    throttled.set_ylabel("records throttled so far")
    throttled.set_yscale("symlog")
    throttled.set_ylim(bottom=0)
    throttled.set_xlabel("hours")
    figure.savefig(path, format="png", dpi=110)
