"""The dashboard's figures over time: `Reading`, `Meter` (takes them), `Rings` (keeps them), `Sampler` (when).

`Sampler`: takes the readings each second while somebody looks, each minute otherwise, and tells its watchers.

`Rings`: the figures of each resource over time: the last ten minutes by the second, the last day by the minute.

`Reading`: the figures of a resource at a time, and `Meter`, which takes them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.core.clock import Clock
from headrace.core.workers import Supervisor
from headrace.dashboard.account import Account
from headrace.dashboard.inventory import Inventory, read_inventory
from headrace.store.database import Database


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since some start, from which two readings give rates; None: the kind of resource has no such figure.

    Attributes:
        records: records put, handled or delivered; invocations of a function.
        size_bytes: their bytes.
        errors: failed invocations or records.
        waiting: records that wait now.
        lag_ms: the age of the oldest of them; 0 when none waits.
        problem: what is wrong now, in a sentence.
        rate: records a second, from a source that gives rates rather than counts.
    """

    records: int | None = None
    size_bytes: int | None = None
    errors: int | None = None
    waiting: int | None = None
    lag_ms: int | None = None
    problem: str = ""
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Figures of a resource: per second, in records and milliseconds; None where there are none."""

    rate: float | None = None
    bytes_rate: float | None = None
    error_rate: float | None = None
    waiting: int | None = None
    lag_ms: int | None = None
    problem: str = ""

    def row(self) -> list[float | int | str | None]:
        """Return the figures in the order of the API: rate, bytes, errors, waiting, lag, problem."""
        return [
            _short(self.rate),
            _short(self.bytes_rate),
            _short(self.error_rate),
            self.waiting,
            self.lag_ms,
            self.problem,
        ]


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def describe_errors(per_second: float | None) -> str:
    """Return the problem that a rate of errors is; empty without errors."""
    if not per_second:
        return ""
    # One error in the minute between two samples would round to none.
    return f"{f'{per_second:.1f}' if per_second >= 0.1 else 'less than 0.1'} errors a second"


def between(before: Totals | None, now: Totals, elapsed_s: float) -> Reading:
    """Return the reading of two totals; rates are None without an earlier one.

    A total that fell, since its resource was made anew, counts from zero.
    """

    def per_second(name: str) -> float | None:
        later = getattr(now, name)
        earlier = None if before is None else getattr(before, name)
        if later is None or earlier is None or elapsed_s <= 0:
            return None
        return (later - earlier if later >= earlier else later) / elapsed_s

    errors = per_second("errors")
    return Reading(
        per_second("records") if now.rate is None else now.rate,
        per_second("size_bytes"),
        errors,
        now.waiting,
        now.lag_ms,
        now.problem or describe_errors(errors),
    )


class Meter(Protocol):
    """Takes the figures of an account's resources. Thread-safe."""

    def totals(self, inventory: Inventory) -> Mapping[str, Totals]:
        """Return the totals by resource id."""
        ...

    def shard_totals(self, stream: str) -> Mapping[str, Totals]:
        """Return the totals of a stream's shards by shard id; empty for an unknown stream."""
        ...


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
        self._wake_worker: Callable[[], None] = lambda: None

    def start(self, supervisor: Supervisor) -> None:
        """Sample on a supervisor; a watcher that comes wakes the worker."""
        self._wake_worker = supervisor.start(self).wake

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
        self._wake_worker()

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


SECONDS_KEPT = 600
MINUTES_KEPT = 1440
# Of how many resources the figures are kept.
MOST_RESOURCES = 2_000
MINUTE_MS = 60_000

# Time in milliseconds, rate, lag in milliseconds, waiting.
Point = tuple[int, float | None, int | None, int | None]

_MIGRATIONS = (
    """CREATE TABLE dashboard_minutes (
        minute INTEGER NOT NULL, id TEXT NOT NULL, rate REAL, lag_ms INTEGER, waiting INTEGER,
        PRIMARY KEY (minute, id)) WITHOUT ROWID""",
    "CREATE INDEX dashboard_minutes_by_id ON dashboard_minutes (id, minute)",
)


class Rings:
    """Keeps the figures; bounded in memory and on disk. Thread-safe. Without a database the day is not kept."""

    def __init__(self, database: Database | None = None) -> None:
        self._database = database
        if database is not None:
            database.migrate("dashboard_minutes", _MIGRATIONS)
        self._lock = threading.Lock()
        self._seconds: dict[str, deque[Point]] = {}
        self._minute: int | None = None
        self._sums: dict[str, tuple[float, int, int, int]] = {}

    def note(self, now_ms: int, readings: Mapping[str, Reading]) -> None:
        """Add the readings of now; a minute that has ended is stored. A clock that goes back starts the rings anew."""
        with self._lock:
            for resource_id, reading in readings.items():
                ring = self._seconds.get(resource_id)
                if ring is None:
                    if len(self._seconds) >= MOST_RESOURCES:
                        continue
                    ring = self._seconds[resource_id] = deque(maxlen=SECONDS_KEPT)
                if ring and ring[-1][0] > now_ms:
                    ring.clear()
                ring.append((now_ms, reading.rate, reading.lag_ms, reading.waiting))
            for gone in self._seconds.keys() - readings.keys():
                del self._seconds[gone]
            ended = self._note_minute(now_ms // MINUTE_MS, readings)
        if ended is not None:
            self._store(*ended)

    def _note_minute(
        self, minute: int, readings: Mapping[str, Reading]
    ) -> tuple[int, dict[str, tuple[float, int, int, int]]] | None:
        ended = None
        if self._minute is not None and minute != self._minute:
            ended = (self._minute, self._sums)
            self._sums = {}
        self._minute = minute
        for resource_id in self._seconds:
            reading = readings[resource_id]
            total, lag_ms, waiting, count = self._sums.get(resource_id, (0.0, 0, 0, 0))
            if reading.rate is not None or reading.lag_ms or reading.waiting:
                self._sums[resource_id] = (
                    total + (reading.rate or 0.0),
                    max(lag_ms, reading.lag_ms or 0),
                    max(waiting, reading.waiting or 0),
                    count + 1,
                )
        return ended

    def _store(self, minute: int, sums: Mapping[str, tuple[float, int, int, int]]) -> None:
        """Store a minute. One in which nothing happened is not stored: an idle cloud writes nothing."""
        busy = [
            (minute, resource_id, total / count, lag_ms, waiting)
            for resource_id, (total, lag_ms, waiting, count) in sums.items()
            if total or lag_ms or waiting
        ]
        if self._database is None or not busy:
            return
        self._database.execute_many(
            "INSERT OR REPLACE INTO dashboard_minutes VALUES (?,?,?,?,?)", busy
        )
        self._database.execute(
            "DELETE FROM dashboard_minutes WHERE minute <= ?", (minute - MINUTES_KEPT,)
        )

    def seconds(self, resource_id: str) -> list[Point]:
        """Return the last ten minutes, oldest first."""
        with self._lock:
            return list(self._seconds.get(resource_id, ()))

    def sparklines(self, ids: Sequence[str], points: int = 60) -> dict[str, list[Point]]:
        """Return the newest points of each resource."""
        with self._lock:
            return {one: list(self._seconds.get(one, ()))[-points:] for one in ids}

    def minutes(self, resource_id: str) -> list[Point]:
        """Return the last day by the minute, oldest first; minutes in which nothing happened are missing."""
        if self._database is None:
            return []
        rows = self._database.query(
            "SELECT minute, rate, lag_ms, waiting FROM dashboard_minutes WHERE id = ? ORDER BY minute",
            (resource_id,),
        )
        return [(minute * MINUTE_MS, rate, lag, waiting) for minute, rate, lag, waiting in rows]
