"""`Sampler`: takes the readings each second while somebody looks, each minute otherwise, and tells its watchers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.core.clock import Clock
from headrace.dashboard.account import Account
from headrace.dashboard.inventory import Inventory, read_inventory
from headrace.dashboard.meter import Meter, Reading, Totals, between
from headrace.dashboard.rings import Rings

WATCHED_S = 1.0
UNWATCHED_S = 60.0
INVENTORY_S = 10.0
# A request within this time of the last sample does not sample again.
FRESH_S = 0.9
# Between two samples there is at least so much time: a rate of a shorter one is a spike.
LEAST_S = 0.5
WATCHED_FRESH_S = 3.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment: `version` changes with the inventory; `shards` are the readings by stream and shard id."""

    number: int
    time_ms: int
    version: int
    readings: dict[str, Reading]
    shards: dict[str, dict[str, Reading]]


@dataclass(slots=True)
class _Watch:
    stream: str
    wake: Callable[[], None]


@dataclass(slots=True)
class _Before:
    at_s: float = 0.0
    totals: dict[str, Totals] = field(default_factory=dict[str, Totals])


class Sampler:
    """Samples an account: a `Worker`. Thread-safe.

    Attributes:
        inventory: the newest inventory.
        latest: the newest sample; None before the first.
        wake_worker: wakes the worker, when a watcher comes; set by whoever starts it.
    """

    name = "dashboard"

    def __init__(
        self,
        account: Account,
        meter: Meter,
        clock: Clock,
        rings: Rings,
        *,
        every_s: float = WATCHED_S,
    ) -> None:
        self.account, self.meter, self.rings = account, meter, rings
        self._clock = clock
        self._every_s = every_s
        self._lock = threading.Lock()
        self._by_id: dict[int, _Watch] = {}
        self._before: dict[str, _Before] = {}
        self._inventory_s = -INVENTORY_S
        self._sampled_s = -UNWATCHED_S
        self._number = 0
        self.inventory = Inventory()
        self._version = 0
        self.latest: Sample | None = None
        self.wake_worker: Callable[[], None] = lambda: None

    def step(self) -> float:
        """Take a sample, and wake the watchers."""
        if not self._by_id:
            # Without a watcher the inventory is not read: what is known from the meters is enough for the day's ring.
            self._sample(reads_inventory=False)
            return UNWATCHED_S
        early_s = LEAST_S - (self._clock.monotonic_s() - self._sampled_s)
        if early_s > 0:
            return early_s
        self._sample(reads_inventory=True)
        for watch in list(self._by_id.values()):
            watch.wake()
        return self._every_s

    def fresh(self) -> Sample:
        """Return a sample that is at most about a second old."""
        with self._lock:
            self._read_inventory()
            latest = self.latest
            age_s = self._clock.monotonic_s() - self._sampled_s
        # While somebody watches, the worker samples: one between two of its samples would be of too short a time.
        if latest is None or age_s >= (WATCHED_FRESH_S if self._by_id else FRESH_S):
            return self._sample(reads_inventory=True)
        return latest

    def forget_inventory(self) -> None:
        """Let the next sample read the inventory again: something was changed."""
        self._inventory_s = -INVENTORY_S

    def watch(self, stream: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each sample until the returned function is called; `stream` gets readings by shard."""
        watch = _Watch(stream, wake)
        with self._lock:
            self._by_id[id(watch)] = watch
        self.wake_worker()

        def stop() -> None:
            with self._lock:
                self._by_id.pop(id(watch), None)

        return stop

    @property
    def watchers(self) -> int:
        """How many watch."""
        return len(self._by_id)

    def _sample(self, *, reads_inventory: bool) -> Sample:
        with self._lock:
            now_s = self._clock.monotonic_s()
            # Another thread may have sampled since this one has looked.
            if self.latest is not None and now_s - self._sampled_s < LEAST_S:
                return self.latest
            if reads_inventory:
                self._read_inventory()
            readings = self._read("", dict(self.meter.totals(self.inventory)), now_s)
            streams = {watch.stream for watch in self._by_id.values() if watch.stream}
            shards = {
                one: self._read(one, dict(self.meter.shard_totals(one)), now_s) for one in streams
            }
            for gone in self._before.keys() - streams - {""}:
                del self._before[gone]
            self._sampled_s = now_s
            self._number += 1
            now_ms = self._clock.now_ms()
            self.latest = Sample(self._number, now_ms, self._version, readings, shards)
            self.rings.note(now_ms, readings)
            return self.latest

    def _read_inventory(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._inventory_s >= INVENTORY_S:
            self.inventory = read_inventory(self.account)
            self._version = self.inventory.signature()
            self._inventory_s = now_s

    def _read(self, key: str, totals: dict[str, Totals], now_s: float) -> dict[str, Reading]:
        before = self._before.get(key) or _Before()
        elapsed_s = now_s - before.at_s
        self._before[key] = _Before(now_s, totals)
        return {one: between(before.totals.get(one), now, elapsed_s) for one, now in totals.items()}
