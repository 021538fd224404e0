"""Runs EventBridge Scheduler's schedules, and the schedules of EventBridge's rules, by the cloud's clock.

Runs that were due while headrace was stopped are skipped, including one-time schedules (`at`). Flexible time windows
begin at once. A due event is stored in the outbox before it is delivered.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import json
import logging
import math
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from headrace.core.clock import Clock
from headrace.core.schedule_expressions import BadExpression, next_time
from headrace.fallback.kept.touched import MOTO_LOCK, TOUCHED
from headrace.fallback.outbox import MOST_AGE_S, MOST_RETRIES, OUTBOX, Delivery
from headrace.fallback.services.events import send_to_target
from headrace.fallback.targets import target_call

log = logging.getLogger(__name__)

# How late a schedule may fire.
LOOK_EVERY_S = 1.0
SESSION = "headrace-scheduler"


class LoadedState(Protocol):
    """moto's state: `MotoServices` implements it."""

    def is_loaded(self) -> bool:
        """Whether moto currently holds this cloud's state."""
        ...

    def change(self, change: Callable[[], None], service: str = "") -> None:
        """Change moto's state outside a request and store it. Raises AwsError."""
        ...


@dataclass(frozen=True, slots=True)
class _Entry:
    """A schedule: its owner, its times and its action; `what` is compared to detect a change."""

    key: str
    what: tuple[Any, ...]
    expression: str
    zone: str
    since: datetime | None
    until: datetime | None
    fire: Callable[[datetime], None]
    done: Callable[[], None] | None = None


class Schedules:
    """A `Worker` that fires due schedules.

    Without a schedule it sleeps until it is woken, which must happen when moto's `PACKAGES` change or are loaded.
    """

    PACKAGES = ("scheduler", "events")

    name = "schedules"

    def __init__(self, state: LoadedState, clock: Clock) -> None:
        self._state = state
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
            entries = [*_schedules(), *_rules()]
        due = [entry for entry in entries if self._is_due(entry, now)]
        self._due = {entry.key: self._due[entry.key] for entry in entries}
        self._seen = {entry.key: self._seen[entry.key] for entry in entries}
        if due:
            self._state.change(lambda: self._fire(due, now), "scheduler")
        return LOOK_EVERY_S if entries else math.inf

    def _is_due(self, entry: _Entry, now: datetime) -> bool:
        what, due = self._due.get(entry.key, ((), None))
        if what != entry.what:
            # A rate counts from its creation, or from headrace's start if it existed before.
            seen = self._seen.setdefault(entry.key, now)
            after = max(entry.since or seen, self._begun) if not what else now
            due = self._next(entry, after)
        is_due = due is not None and due <= now
        if is_due:
            due = self._next(entry, now)
        self._due[entry.key] = entry.what, due
        return is_due and (entry.until is None or now <= entry.until)

    def _next(self, entry: _Entry, after: datetime) -> datetime | None:
        since = entry.since or self._seen[entry.key]
        try:
            return next_time(entry.expression, since=since, after=after, zone=entry.zone)
        except BadExpression as error:
            log.warning("%s never runs: %s", entry.key, error)
            return None

    def _fire(self, due: list[_Entry], now: datetime) -> None:
        for entry in due:
            try:
                entry.fire(now)
            except Exception as error:  # noqa: BLE001 - a failing schedule does not affect the others
                log.warning("%s cannot run: %s: %s", entry.key, type(error).__name__, error)
            if entry.done is not None and self._due.get(entry.key, ((), None))[1] is None:
                entry.done()


def _schedules() -> Iterator[_Entry]:
    # The stored state is loaded now, even if no request has needed it since the start.
    TOUCHED.load_deferred("scheduler")
    if "moto.scheduler.models" not in sys.modules:
        return  # no request has used schedules, and none is stored
    from moto.scheduler.models import scheduler_backends

    for regions in list(cast("Any", scheduler_backends).values()):
        for backend in list(regions.values()):
            for group in list(backend.schedule_groups.values()):
                for schedule in list(group.schedules.values()):
                    if schedule.state == "ENABLED":
                        yield _entry_of(backend, schedule)


def _entry_of(backend: Any, schedule: Any) -> _Entry:
    arn, target = str(schedule.arn), dict(schedule.target)
    created = _time(schedule.creation_date)
    start = _time(schedule.start_date) or created
    assert created is not None
    assert start is not None

    def fire(now: datetime) -> None:
        OUTBOX.add(_delivery(arn, target, now, round(now.timestamp() * 1000)))

    def done() -> None:
        backend.delete_schedule(schedule.group_name, schedule.name)

    return _Entry(
        key=arn,
        what=(schedule.schedule_expression, schedule.schedule_expression_timezone, start),
        expression=str(schedule.schedule_expression),
        zone=str(schedule.schedule_expression_timezone),
        since=max(created, start),
        until=_time(schedule.end_date),
        fire=fire,
        done=done if schedule.action_after_completion == "DELETE" else None,
    )


def _time(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)
    return datetime.fromtimestamp(float(value), UTC)


def _delivery(arn: str, target: dict[str, Any], now: datetime, now_ms: int) -> Delivery:
    account, region = arn.split(":")[4], arn.split(":")[3]
    given = target.get("Input")
    if given is None:
        given = json.dumps(_event("aws.scheduler", arn, now))
    attributes = {
        "schedule-arn": arn,
        "scheduled-time": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "execution-id": str(uuid.uuid4()),
        "attempt-number": "1",
    }
    payload = str(given)
    for name, value in attributes.items():
        payload = payload.replace(f"<aws.scheduler.{name}>", value)
    parameters = {
        name: value
        for kind in ("SqsParameters", "KinesisParameters", "EventBridgeParameters")
        for name, value in (target.get(kind) or {}).items()
    }
    found = target_call(
        str(target["Arn"]), payload, parameters, source=arn, now_ms=now_ms, waits=False
    )
    retry = target.get("RetryPolicy") or {}
    return Delivery(
        what=f"{arn} for {target['Arn']}",
        body=payload.encode(),
        service=found.service,
        operation=found.operation,
        params=found.params,
        account=account,
        region=region,
        most_age_s=int(retry.get("MaximumEventAgeInSeconds") or MOST_AGE_S),
        most_retries=int(retry.get("MaximumRetryAttempts", MOST_RETRIES)),
        dead_letter_arn=str((target.get("DeadLetterConfig") or {}).get("Arn", "")),
        acting_arn=str(target.get("RoleArn") or ""),
        acting_session=SESSION,
    )


def _event(source: str, arn: str, now: datetime) -> dict[str, Any]:
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


def _rules() -> Iterator[_Entry]:
    from moto.events.models import events_backends

    TOUCHED.load_deferred("events")
    for regions in list(cast("Any", events_backends).values()):
        for backend in list(regions.values()):
            for bus in list(backend.event_buses.values()):
                for rule in list(bus.rules.values()):
                    if rule.scheduled_expression and rule.state != "DISABLED":
                        yield _entry_of_rule(rule)


def _entry_of_rule(rule: Any) -> _Entry:

    def fire(moment: datetime) -> None:
        event = _event("aws.events", rule.arn, moment)
        for target in list(rule.targets):
            send_to_target(rule, target, event)

    return _Entry(
        key=str(rule.arn),
        what=(rule.scheduled_expression,),
        expression=str(rule.scheduled_expression),
        zone="UTC",
        # moto does not store when a rule was created: a rate counts from when the rule is first seen.
        since=None,
        until=None,
        fire=fire,
    )
