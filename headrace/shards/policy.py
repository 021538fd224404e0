"""The policy: from loads to splits, merges and advice. Pure: no I/O, no clock; the caller passes the time.

What the policy tells a person, because no split or merge helps.
"""

from __future__ import annotations

import heapq
import itertools
import math
import operator
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.client.hash_keys import HASH_KEYS, ShardRange
from headrace.shards.loads import HotKey, Settings, StreamLoad
from headrace.shards.planning import US_EAST_1, on_demand_cost, provisioned_cost

# The other mode must be this much cheaper before it is worth a word.
_CHEAPER_BY = 0.9


@dataclass(frozen=True, slots=True)
class Advice:
    """A piece of advice: its kind, and one sentence or two."""

    kind: str
    sentence: str


def advise_hot_key(shard_id: str, hot: HotKey, used: float) -> Advice:
    """Return advice about a key that alone makes its shard hot."""
    return Advice(
        "hot-key",
        f"The key {hot.key!r} alone uses {hot.share * used:.0%} of {shard_id}, and a key cannot be split. Salt it"
        " (headrace.client.Salt), or, where order does not matter, put without a key on a stream of the strategy AUTO."
        " On-demand mode does not help: its shards have the same limit.",
    )


def advise_on_demand(
    hours: float, shard_hours: float, bytes_: float, records: float
) -> Advice | None:
    """Return advice to change to on-demand mode, if that had been cheaper so far; else None."""
    record_bytes = bytes_ / records if records else 0.0
    provisioned = provisioned_cost(US_EAST_1, shard_hours, records, record_bytes)
    on_demand = on_demand_cost(US_EAST_1, hours, records, record_bytes)
    if on_demand >= provisioned * _CHEAPER_BY:
        return None
    return Advice(
        "on-demand",
        f"On-demand mode would have cost ${on_demand:.2f} in the last {hours:.0f} hours, these shards"
        f" ${provisioned:.2f} ({US_EAST_1.source}, one reader): change the mode.",
    )


# SplitShard and MergeShards: five calls per second and account (documented: API_SplitShard).
LEAST_RESHARD_S = 0.2
RESIZES_PER_DAY = 10  # documented: API_UpdateShardCount
# Of these ten, some are kept for load that comes: load that goes costs only money.
_RESIZES_KEPT = 4
_DAY_S = 86_400.0
# A shard that uses this much refuses records already, or will within its period.
_FULL = 0.95
# A split that leaves more than this on one side does not help.
_MOST_ON_ONE_SIDE = 0.9
# Equal ranges are even enough when none has more than this times the mean.
_MOST_ABOVE_MEAN = 1.25
# Ten calls of UpdateShardCount a day are few: each makes room for what still comes.
GROWTH = 1.5
# A key with more of its shard's load than this is what makes the shard hot.
_HOT_KEY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Split:
    """Split a shard; `at` is the first hash key of the second child."""

    shard_id: str
    at: int
    reason: str


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge two neighbours."""

    shard_id: str
    adjacent_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resize:
    """Call UpdateShardCount: ranges of equal width."""

    count: int
    reason: str


Action = Split | Merge | Resize


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, in this order, and what a person should know."""

    actions: tuple[Action, ...] = ()
    advice: tuple[Advice, ...] = ()


@dataclass(slots=True)
class _Plan:
    actions: list[Action] = field(default_factory=list[Action])
    advice: list[Advice] = field(default_factory=list[Advice])


class Policy:
    """Decides period by period. It remembers which shards were hot or cold before; not thread-safe.

    A new one has no memory: it splits full shards at once, and merges only what it has seen cold for long enough.
    """

    def __init__(self, settings: Settings) -> None:
        """Take the settings."""
        self.settings = settings
        self.reshard_s = settings.reshard_s
        # The shards of the last look, and for each how many periods it is hot, and since when it is cold.
        self._shards: Sequence[ShardRange] = ()
        self._hot_periods: list[int] = []
        self._cold_since_s: list[float] = []
        self._resizes: deque[float] = deque()
        self._uneven_until_s = -math.inf
        self._since_s: float | None = None
        self._last_s = 0.0
        self._shard_s = self._bytes = self._records = 0.0

    def note_reshard(self, took_s: float) -> None:
        """Learn how long one split or merge took."""
        self.reshard_s = took_s

    def decide(self, now_s: float, load: StreamLoad) -> Decision:
        """Return what to do. `now_s` is any clock that never goes back."""
        self._count(now_s, load)
        self._remember(load.shards)
        hot = self._note_hot(load)
        self._note_cold(now_s, load)
        plan = _Plan()
        while self._resizes and self._resizes[0] <= now_s - _DAY_S:
            self._resizes.popleft()
        if hot or len(load.shards) < self.settings.min_shards:
            self._grow(now_s, load, hot, plan)
        # A hot key that nothing parts must not keep cold shards for ever; merged, they make room for splits.
        if not plan.actions and len(load.shards) > self.settings.min_shards:
            self._shrink(now_s, load, plan)
        self._advise_mode(now_s, plan)
        return Decision(tuple(plan.actions), tuple(plan.advice))

    # What was seen.

    def _count(self, now_s: float, load: StreamLoad) -> None:
        if self._since_s is None:
            self._since_s = self._last_s = now_s
        passed_s = max(0.0, now_s - self._last_s)
        self._last_s = now_s
        self._shard_s += passed_s * len(load.shards)
        self._bytes += passed_s * load.bytes_per_s
        self._records += passed_s * load.records_per_s

    # Loops over 10,000 shards in each period: they call nothing, and look up no text, while the shards are the same.

    def _remember(self, shards: Sequence[ShardRange]) -> None:
        """Keep what is known of shards that are still there."""
        before = self._shards
        if shards is before:
            return
        # Most of them, and on either side of what was changed.
        count = min(len(before), len(shards))
        left = next((i for i in range(count) if before[i] is not shards[i]), count)
        right = next(
            (i for i in range(count - left) if before[-1 - i] is not shards[-1 - i]), count - left
        )
        changed = slice(left, len(before) - right)
        ids = [shard.shard_id for shard in before[changed]]
        hot_of = dict(zip(ids, self._hot_periods[changed], strict=True))
        cold_of = dict(zip(ids, self._cold_since_s[changed], strict=True))
        ids = [shard.shard_id for shard in shards[left : len(shards) - right]]
        self._hot_periods[changed] = [hot_of.get(shard_id, 0) for shard_id in ids]
        self._cold_since_s[changed] = [cold_of.get(shard_id, math.inf) for shard_id in ids]
        self._shards = shards

    def _note_hot(self, load: StreamLoad) -> list[int]:
        """Return the places of the shards that are hot for long enough."""
        split_at, hot_periods = self.settings.split_at, self.settings.hot_periods
        offered: Sequence[float] = load.utilisation
        if load.throttled:
            # A shard that refuses records is full, whatever it took.
            ids = [shard.shard_id for shard in load.shards]
            offered = [
                max(used, 1.0) if load.throttled.get(shard_id) else used
                for shard_id, used in zip(ids, offered, strict=True)
            ]
        if max(offered, default=0.0) < split_at:
            self._hot_periods = [0] * len(offered)
            return []
        self._hot_periods = [
            periods + 1 if used >= split_at else 0
            for periods, used in zip(self._hot_periods, offered, strict=True)
        ]
        return [
            index
            for index, periods in enumerate(self._hot_periods)
            if periods and (periods >= hot_periods or offered[index] >= _FULL)
        ]

    def _note_cold(self, now_s: float, load: StreamLoad) -> None:
        most, never = self.settings.merge_at, math.inf
        self._cold_since_s = [
            never if used > most else now_s if since_s == never else since_s
            for since_s, used in zip(self._cold_since_s, load.utilisation, strict=True)
        ]

    # More shards.

    def _grow(self, now_s: float, load: StreamLoad, hot: list[int], plan: _Plan) -> None:
        settings, count = self.settings, len(load.shards)
        room = settings.max_shards - count
        if not hot:
            by_width = sorted(range(count), key=lambda i: load.shards[i].start - load.shards[i].end)
            places = by_width[: min(settings.min_shards - count, self._most_actions())]
        else:
            if self._would_take_long(len(hot)):
                needed = math.ceil(sum(load.utilisation) / settings.target_utilisation)
                target = min(max(needed, math.ceil(GROWTH * count)), 2 * count, settings.max_shards)
                reason = f"{len(hot)} shards are hot"
                if room > 0 and self._resize(now_s, load, target, reason, 1.0, plan):
                    return
            hottest_first = sorted(hot, key=load.utilisation.__getitem__, reverse=True)
            places = hottest_first[: self._most_actions()]
        for index in places:
            if room <= 0:
                plan.advice.append(
                    Advice(
                        "at-most-shards",
                        f"The stream has {count} shards, and may have {settings.max_shards}: raise max_shards.",
                    )
                )
                return
            room -= self._split(load, index, plan)

    def _split(self, load: StreamLoad, index: int, plan: _Plan) -> bool:
        shard, used = load.shards[index], load.utilisation[index]
        keys = load.keys.get(shard.shard_id)
        cut = None if keys is None else keys.cut(shard.start, shard.end)
        hottest = keys.hottest(1) if keys is not None else []
        if hottest and hottest[0].share * used >= self.settings.split_at:
            plan.advice.append(advise_hot_key(shard.shard_id, hottest[0], used))
        if cut is not None and cut.heavier <= _MOST_ON_ONE_SIDE:
            at, words = cut.hash_key, f"the heavier half gets {cut.heavier:.0%}"
        elif hottest and hottest[0].share > _HOT_KEY_SHARE:
            # Nothing parts the load: one key has it.
            return False
        elif shard.end - shard.start < 4:
            return False
        else:
            at, words = (shard.start + shard.end + 1) // 2, "in the middle: its keys are not known"
        plan.actions.append(Split(shard.shard_id, at, f"{used:.0%} used; {words}"))
        return True

    # Fewer shards.

    def _shrink(self, now_s: float, load: StreamLoad, plan: _Plan) -> None:
        settings, cold_since_s = self.settings, self._cold_since_s
        ripe_s = now_s - settings.cold_for_s
        if min(cold_since_s) > ripe_s:
            return
        used, most = load.utilisation, settings.merge_at
        pairs = [
            (together, i)
            for i, together in enumerate(map(operator.add, used, itertools.islice(used, 1, None)))
            if together <= most and cold_since_s[i] <= ripe_s and cold_since_s[i + 1] <= ripe_s
        ]
        if not pairs:
            return
        count = len(load.shards)
        surplus = count - max(
            settings.min_shards, math.ceil(sum(used) / settings.target_utilisation)
        )
        if self._would_take_long(min(surplus, len(pairs))):
            target = max(count - surplus, -(-count // 2))
            reason = f"{len(pairs)} pairs of shards are cold"
            if self._has_resizes(_RESIZES_KEPT) and self._resize(
                now_s, load, target, reason, settings.split_at, plan
            ):
                return
        self._merge(load, pairs, min(count - settings.min_shards, self._most_actions()), plan)

    def _merge(
        self, load: StreamLoad, pairs: list[tuple[float, int]], most: int, plan: _Plan
    ) -> None:
        shards, merged = load.shards, set[int]()
        for together, i in heapq.nsmallest(3 * most, pairs):
            if len(merged) >= 2 * most:
                return
            left, right = shards[i], shards[i + 1]
            ages = [load.iterator_age_ms.get(shard.shard_id, 0.0) for shard in (left, right)]
            if i in merged or i + 1 in merged or left.end + 1 != right.start:
                continue
            if max(ages) > self.settings.behind_ms:
                continue
            merged |= {i, i + 1}
            plan.actions.append(
                Merge(left.shard_id, right.shard_id, f"{together:.0%} used together")
            )

    # UpdateShardCount.

    def _most_actions(self) -> int:
        each_s = max(LEAST_RESHARD_S, self.reshard_s)
        return max(1, int(self.settings.period_s / each_s))

    def _would_take_long(self, actions: int) -> bool:
        return actions * max(LEAST_RESHARD_S, self.reshard_s) > self.settings.resize_after_s

    def _has_resizes(self, kept: int = 0) -> bool:
        return len(self._resizes) < RESIZES_PER_DAY - kept

    def _resize(
        self, now_s: float, load: StreamLoad, target: int, reason: str, most: float, plan: _Plan
    ) -> bool:
        """Plan UpdateShardCount, or say why not; return whether it is planned."""
        if now_s < self._uneven_until_s:
            return False
        busiest = busiest_of_equal_ranges(load, target)
        if busiest > max(most, _MOST_ABOVE_MEAN * sum(load.utilisation) / target):
            # It will be in a moment, too, and the sums of 10,000 shards take a while.
            self._uneven_until_s = now_s + self.settings.resize_after_s
            plan.advice.append(
                Advice(
                    "uneven",
                    f"{reason}, but UpdateShardCount's {target} equal ranges would leave one shard {busiest:.0%} used:"
                    " single splits and merges go on.",
                )
            )
            return False
        if not self._has_resizes():
            plan.advice.append(
                Advice(
                    "resizes-used",
                    f"{reason}, and the {RESIZES_PER_DAY} calls of UpdateShardCount of 24 hours are used up: on-demand"
                    " mode or a higher min_shards would serve this load better.",
                )
            )
            return False
        if not self.settings.may_resize:
            plan.advice.append(
                Advice(
                    "resize",
                    f"{reason}: UpdateShardCount to {target} would be quicker than splits and merges.",
                )
            )
            return False
        self._resizes.append(now_s)
        plan.actions.append(Resize(target, reason))
        return True

    def _advise_mode(self, now_s: float, plan: _Plan) -> None:
        assert self._since_s is not None
        hours = (now_s - self._since_s) / 3600
        if hours >= _DAY_S / 3600:
            advice = advise_on_demand(hours, self._shard_s / 3600, self._bytes, self._records)
            if advice is not None:
                plan.advice.append(advice)


def busiest_of_equal_ranges(load: StreamLoad, count: int) -> float:
    """Return the highest utilisation after UpdateShardCount, as though each shard's load lay evenly in its range."""
    per_hash_key = count / HASH_KEYS
    loads = [0.0] * count
    for shard, used in zip(load.shards, load.utilisation, strict=True):
        if used:
            _spread(loads, shard.start * per_hash_key, (shard.end + 1) * per_hash_key, used)
    return max(loads)


def _spread(loads: list[float], start: float, end: float, used: float) -> None:
    """Add a load to the ranges that it overlaps, each its part."""
    last = len(loads) - 1
    first_range, last_range = min(int(start), last), min(int(end), last)
    if first_range == last_range:
        loads[first_range] += used
        return
    per_range = used / (end - start)
    loads[first_range] += per_range * (first_range + 1 - start)
    for i in range(first_range + 1, last_range):
        loads[i] += per_range
    loads[last_range] += per_range * (end - last_range)


def names_of(actions: Sequence[Action]) -> list[str]:
    """Return a sentence for each action, for logs and terminals."""
    return [name_of(action) for action in actions]


def name_of(action: Action) -> str:
    """Return an action as a sentence."""
    match action:
        case Split():
            return f"split {action.shard_id} at {action.at} ({action.reason})"
        case Merge():
            return f"merge {action.shard_id} and {action.adjacent_id} ({action.reason})"
        case Resize():
            return f"update the shard count to {action.count} ({action.reason})"
