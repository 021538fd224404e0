"""EventBridge Scheduler: its schedules, and what each delivers to its target.

invalid schedule expressions are refused, and an update changes what follows the end.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.schedule_expressions import BadExpression, check_expression
from headrace.deliveries.input_templates import compact
from headrace.deliveries.outbox import MOST_AGE_S, MOST_RETRIES, OUTBOX, Delivery
from headrace.deliveries.schedule_worker import ScheduleEntry, build_scheduled_event
from headrace.deliveries.targets import target_call
from headrace.moto.storage.changes import CHANGES

SESSION = "headrace-scheduler"


def schedules() -> Iterator[ScheduleEntry]:
    """Yield the enabled schedules. The caller holds `MOTO_LOCK`."""
    # The stored state is loaded now, even if no request has needed it since the start.
    CHANGES.load_deferred("scheduler")
    if "moto.scheduler.models" not in sys.modules:
        return  # no request has used schedules, and none is stored
    from moto.scheduler.models import scheduler_backends

    for regions in list(cast("Any", scheduler_backends).values()):
        for backend in list(regions.values()):
            for group in list(backend.schedule_groups.values()):
                for schedule in list(group.schedules.values()):
                    if schedule.state == "ENABLED":
                        yield _entry_of(backend, schedule)


def _entry_of(backend: Any, schedule: Any) -> ScheduleEntry:
    arn, target = str(schedule.arn), dict(schedule.target)
    created = _time(schedule.creation_date)
    start = _time(schedule.start_date) or created
    assert created is not None
    assert start is not None

    def fire(now: datetime) -> None:
        OUTBOX.add(_delivery(arn, target, now, round(now.timestamp() * 1000)))

    def done() -> None:
        backend.delete_schedule(schedule.group_name, schedule.name)

    return ScheduleEntry(
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
    input_text = target.get("Input")
    if input_text is None:
        input_text = compact(build_scheduled_event("aws.scheduler", arn, now))
    attributes = {
        "schedule-arn": arn,
        "scheduled-time": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "execution-id": str(uuid.uuid4()),
        "attempt-number": "1",
    }
    payload = str(input_text)
    for name, value in attributes.items():
        payload = payload.replace(f"<aws.scheduler.{name}>", value)
    parameters = {
        name: value
        for kind in ("SqsParameters", "KinesisParameters", "EventBridgeParameters")
        for name, value in (target.get(kind) or {}).items()
    }
    call = target_call(
        str(target["Arn"]), payload, parameters, source=arn, now_ms=now_ms, waits=False
    )
    retry = target.get("RetryPolicy") or {}
    return Delivery(
        what=f"{arn} for {target['Arn']}",
        body=payload.encode(),
        service=call.service,
        operation=call.operation,
        params=call.params,
        account=account,
        # A target is where its ARN says, never its namesake in the schedule's Region.
        region=str(target["Arn"]).split(":", 5)[3] or region,
        most_age_s=int(retry.get("MaximumEventAgeInSeconds") or MOST_AGE_S),
        most_retries=int(retry.get("MaximumRetryAttempts", MOST_RETRIES)),
        dead_letter_arn=str((target.get("DeadLetterConfig") or {}).get("Arn", "")),
        acting_arn=str(target.get("RoleArn") or ""),
        acting_session=SESSION,
    )


def patch(module: Any) -> None:
    """Patch `moto.scheduler.models`."""
    backend = module.EventBridgeSchedulerBackend
    for name in ("create_schedule", "update_schedule"):
        setattr(backend, name, _check_schedule(getattr(backend, name)))
    group = module.ScheduleGroup
    group.__init__ = _date_default(module, group.__init__)


def _date_default(module: Any, make: Any) -> Any:
    """Return the constructor of groups that dates the default one too, as AWS does (its model's members)."""

    @functools.wraps(make)
    def make_dated(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        if self.created_on is None:
            self.created_on = self.last_modified = module.unix_time()

    return make_dated


def update_actions(module: Any) -> None:
    """Let UpdateSchedule set ActionAfterCompletion, which moto takes only at the creation."""
    update = module.EventBridgeSchedulerResponse.update_schedule

    @functools.wraps(update)
    def update_schedule(self: Any) -> Any:
        answer = update(self)
        name = self.uri.partition("?")[0].rpartition("/")[2]
        schedule = self.scheduler_backend.get_schedule(self._get_param("GroupName"), name)
        # Documented: an update replaces the whole schedule.
        schedule.action_after_completion = self._get_param("ActionAfterCompletion") or "NONE"
        return answer

    module.EventBridgeSchedulerResponse.update_schedule = update_schedule


def _check_schedule(method: Any) -> Any:
    @functools.wraps(method)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        parts = str(named["target"]["Arn"]).split(":", 5)
        if len(parts) < 6 or parts[0] != "arn" or parts[5].startswith("api-destination/"):
            # Reported by users for API destinations, which Scheduler does not call; assumed for what is no ARN.
            raise AwsError("ValidationException", "Provided Arn is not in correct format.")
        expression = str(named["schedule_expression"])
        zone = str(named.get("schedule_expression_timezone") or "UTC")
        try:
            check_expression(expression, zone=zone)
        except BadExpression as error:
            # Recorded; for an unknown time zone the same sentence is assumed.
            message = f"Invalid Schedule Expression {expression}."
            raise AwsError("ValidationException", message) from error
        schedule = method(self, *args, **named)
        # What AWS was recorded to show of a schedule without one (2026-06).
        schedule.action_after_completion = schedule.action_after_completion or "NONE"
        return schedule

    return checked
