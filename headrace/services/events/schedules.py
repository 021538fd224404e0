"""EventBridge: the rules that have a schedule."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

from headrace.deliveries.schedule_worker import ScheduleEntry, build_scheduled_event
from headrace.moto.storage.changes import CHANGES
from headrace.services.events.patches import send_to_targets


def scheduled_rules() -> Iterator[ScheduleEntry]:
    """Yield the enabled rules that have a schedule. The caller holds `MOTO_LOCK`."""
    from moto.events.models import events_backends

    CHANGES.load_deferred("events")
    for regions in list(cast("Any", events_backends).values()):
        for backend in list(regions.values()):
            for bus in list(backend.event_buses.values()):
                for rule in list(bus.rules.values()):
                    if rule.scheduled_expression and rule.state != "DISABLED":
                        yield _entry_of_rule(rule)


def _entry_of_rule(rule: Any) -> ScheduleEntry:

    def fire(moment: datetime) -> None:
        event = build_scheduled_event("aws.events", rule.arn, moment)
        send_to_targets(rule, event)

    return ScheduleEntry(
        key=str(rule.arn),
        what=(rule.scheduled_expression,),
        expression=str(rule.scheduled_expression),
        zone="UTC",
        # moto does not store when a rule was created: a rate counts from when the rule is first seen.
        since=None,
        until=None,
        fire=fire,
    )
