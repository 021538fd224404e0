"""Fires schedules by the cloud's clock: EventBridge Scheduler's, and those of EventBridge's rules.

Runs that were due while headrace was stopped are skipped, including one-time schedules (`at`). Flexible time windows
begin at once. A due event is stored in the outbox before it is delivered.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from headrace.core.clock import Clock
from headrace.core.schedule_expressions import BadExpression, next_time
from headrace.moto.storage.changes import MOTO_LOCK

log = logging.getLogger(__name__)

# How late a schedule may fire.
LOOK_EVERY_S = 1.0


class LoadedState(Protocol):
    """moto's state: `MotoEngine` implements it."""

    def is_loaded(self) -> bool:
        """Whether moto currently holds this cloud's state."""
        ...

    def change(self, change: Callable[[], None], service: str = "") -> None:
        """Change moto's state outside a request and store it. Raises AwsError."""
        ...


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """A schedule: its owner, its times and its action; `what` is compared to detect a change."""

    key: str
    what: tuple[Any, ...]
    expression: str
    zone: str
    since: datetime | None
    until: datetime | None
    fire: Callable[[datetime], None]
    done: Callable[[], None] | None = None


class ScheduleWorker:
    """A `Worker` that fires due schedules.

    Without a schedule it sleeps until it is woken, which must happen when moto's `PACKAGES` change or are loaded.
    """

    PACKAGES = ("scheduler", "events")

    name = "schedules"

    def __init__(
        self,
        state: LoadedState,
        clock: Clock,
        sources: Sequence[Callable[[], Iterator[ScheduleEntry]]],
    ) -> None:
        self._state = state
        self._sources = sources
        self._clock = clock
        self._begun = self._now()
        # When each schedule was first seen.
        self._seen: dict[str, datetime] = {}
        # When each schedule is due next, and its entry at that time.
        self._due: dict[str, tuple[tuple[Any, ...], datetime | None]] = {}

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def step(self) -> float:
        """Fire the due schedules."""
        if not self._state.is_loaded():
            return math.inf
        now = self._now()
        with MOTO_LOCK:
            entries = [entry for source in self._sources for entry in source()]
        due = [entry for entry in entries if self._is_due(entry, now)]
        self._due = {entry.key: self._due[entry.key] for entry in entries}
        self._seen = {entry.key: self._seen[entry.key] for entry in entries}
        if due:
            self._state.change(lambda: self._fire(due, now), "scheduler")
        return LOOK_EVERY_S if entries else math.inf

    def _is_due(self, entry: ScheduleEntry, now: datetime) -> bool:
        what, due = self._due.get(entry.key, ((), None))
        if what != entry.what:
            # A rate counts from its creation; what was due before headrace's start is skipped.
            seen = self._seen.setdefault(entry.key, now)
            after = max(entry.since or seen, self._begun) if not what else now
            due = self._next(entry, after)
        is_due = due is not None and due <= now
        if is_due:
            due = self._next(entry, now)
        self._due[entry.key] = entry.what, due
        return is_due and (entry.until is None or now <= entry.until)

    def _next(self, entry: ScheduleEntry, after: datetime) -> datetime | None:
        since = entry.since or self._seen[entry.key]
        try:
            return next_time(entry.expression, since=since, after=after, zone=entry.zone)
        except BadExpression as error:
            log.warning("%s never runs: %s", entry.key, error)
            return None

    def _fire(self, due: list[ScheduleEntry], now: datetime) -> None:
        for entry in due:
            try:
                entry.fire(now)
            except Exception as error:  # noqa: BLE001 - a failing schedule does not affect the others
                log.warning("%s cannot run: %s: %s", entry.key, type(error).__name__, error)
            if entry.done is not None and self._due.get(entry.key, ((), None))[1] is None:
                entry.done()


def build_scheduled_event(source: str, arn: str, now: datetime) -> dict[str, Any]:
    """Return the event of a schedule that fires, as EventBridge sends it."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": source,
        "account": arn.split(":")[4],
        "time": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "region": arn.split(":")[3],
        "resources": [arn],
        "detail": {},
    }
