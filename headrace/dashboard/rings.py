"""`Rings`: the figures of each resource over time: the last ten minutes by the second, the last day by the minute."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence

from headrace.dashboard.meter import Reading
from headrace.store.database import Database

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
