"""EventBridge: delivers events to a rule's targets in any service; a failing target never fails PutEvents.

moto's queues, topics, log groups, buses and archives get events at once; functions, streams and delivery streams are
headrace's, and get them from the outbox or Lambda's own queue. Nothing is delivered while state is being loaded.

Patterns and prefixes of clients match in bounded time.

the rules that have a schedule.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import copy
import functools
import json
import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import ModuleType
from typing import Any, ClassVar, cast

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.deliveries.input_templates import compact
from headrace.deliveries.outbox import Delivery, give_up
from headrace.deliveries.schedule_worker import ScheduleEntry, build_scheduled_event
from headrace.moto.current_cloud import CURRENT, use_clock
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES, RowKey, Rows
from headrace.moto.storage.stored_names import stored_as
from headrace.services.events.rules import patch_events, whole_event
from headrace.services.events.targets import dead_letter_arn, send_on


def match_in_time(models: ModuleType) -> None:
    """Match events in bounded time, and list rules by a literal prefix."""
    patch_events(models)
    backend: Any = models.EventsBackend
    list_rules: Any = backend.list_rules

    @functools.wraps(list_rules)
    def list_rules_by_literal(
        self: Any, prefix: str | None = None, *args: Any, **named: Any
    ) -> Any:
        return list_rules(self, prefix and re.escape(prefix), *args, **named)

    backend.list_rules = list_rules_by_literal


log = logging.getLogger(__name__)

# The most events that an archive keeps, whatever its retention.
MOST_ARCHIVED = 100_000
# What an event's time counts (documented: eb-putevent-size.html).
_TIME_BYTES = 14


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    import moto.events.models as models
    from moto.events.models import Archive, Rule

    use_clock(models)

    rule: Any = Rule
    rule.send_to_targets = _send_to_targets
    archive: Any = Archive
    archive.__init__ = _with_rows(Archive.__init__)
    archive.describe_short = _with_size(Archive.describe_short)
    pickles.register_reducer(Archive, _reduce_archive)


class _Memory:
    """What deliveries remember: the failures that were logged (once for a target and a reason)."""

    targets: ClassVar[set[tuple[str, str, str]]] = set()


def _send_to_targets(rule: Any, original_event: Any, transform_input: bool = True) -> None:
    """Send an event to a rule's targets, if it matches. Never raises."""
    if rule.state == "DISABLED":
        return
    # A rule with only a schedule has no pattern, and matches no event.
    if rule.scheduled_expression and not rule.event_pattern.get_pattern():
        return
    try:
        if not rule.event_pattern.matches_event(whole_event(original_event)):
            return
    except Exception as error:  # noqa: BLE001 - an invalid pattern matches nothing
        _log_failure(rule.arn, "", f"{type(error).__name__}: {error}")
        return
    send_to_targets(rule, original_event, transform_input=transform_input)


def send_to_targets(rule: Any, event: Any, *, transform_input: bool = True) -> None:
    """Send an event that a rule takes to its targets. Never raises; the caller holds moto's lock."""
    CURRENT.handled.add(rule.arn)
    for target in list(rule.targets):
        send_to_target(rule, target, event, transform_input=transform_input)


def send_to_target(
    rule: Any, target: Mapping[str, Any], event: Any, *, transform_input: bool = True
) -> None:
    """Send an event to one target of a rule. Never raises; the caller holds moto's lock."""
    try:
        send_on(rule, target, event, transform_input=transform_input)
    except Exception as error:  # noqa: BLE001 - a failing target does not affect the others
        _fail(rule, target, event, error)


def _log_failure(rule_arn: str, target_arn: str, reason: str) -> None:
    failure = (rule_arn, target_arn, reason)
    if failure not in _Memory.targets and len(_Memory.targets) < 10_000:
        _Memory.targets.add(failure)
        log.warning("%s does not deliver to %s: %s", rule_arn, target_arn or "any target", reason)


def _fail(rule: Any, target: Mapping[str, Any], event: Any, error: Exception) -> None:
    arn = str(target["Arn"])
    code = getattr(error, "code", None) or getattr(error, "error_type", "") or "ERROR_FROM_TARGET"
    delivery = Delivery(
        what=f"An event of {rule.arn} for {arn}",
        body=compact(whole_event(event)).encode(),
        dead_letter_arn=dead_letter_arn(target),
        attributes={"RULE_ARN": rule.arn, "TARGET_ARN": arn},
        source_arn=rule.arn,
    )

    def say(delivery: Delivery, why: AwsError, what_now: str) -> None:
        _log_failure(rule.arn, arn, f"it {what_now}: {why}")

    message = getattr(error, "message", None) or str(error) or type(error).__name__
    give_up(delivery, str(code), str(message), "", say)


# --- archives ---------------------------------------------------------------------------------------


@stored_as("events_archive_rows")
class _Archived(Rows):
    """The events of an archive, by number; those past its retention are dropped."""

    service = "events"
    archive: Any

    def __init__(self, rows_id: int | None = None) -> None:
        super().__init__(rows_id)
        self.events: deque[Any] = deque()
        self.first = 0
        self.size_bytes = 0

    def append(self, event: Any) -> None:
        """Add an event, as moto does to its list."""
        CHANGES.row(self, self.first + len(self.events))
        self.events.append(copy.deepcopy(event))
        self.size_bytes += _size_bytes(event)
        days = int(self.archive.retention or 0)
        oldest_s = CURRENT.clock.now_ms() / 1000 - days * 86_400 if days else 0.0
        while len(self.events) > MOST_ARCHIVED or self.events[0]["ingestion-time"] < oldest_s:
            self.size_bytes -= _size_bytes(self.events.popleft())
            CHANGES.row(self, self.first)
            self.first += 1

    def __iter__(self) -> Any:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    # An archive equals only itself, whatever its events.
    def __bool__(self) -> bool:
        return True

    def encode_row(self, key: Any) -> bytes | None:
        """See `Rows.encode_row`."""
        at = key - self.first
        return json.dumps(self.events[at]).encode() if 0 <= at < len(self.events) else None

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        return range(self.first, self.first + len(self.events))

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        for key, value in rows:
            if not self.events:
                self.first = int(key)
            event = msgspec.json.decode(value)
            self.events.append(event)
            self.size_bytes += _size_bytes(event)


def _reduce_archive(archive: Any) -> Any:
    pickles.note_rows(archive.events)
    state = {name: value for name, value in vars(archive).items() if name != "events"}
    return empty_archive, (archive.events.id,), state


@stored_as("events_archive")
def empty_archive(rows_id: int) -> Any:
    """Return an archive whose attributes and events are still to be loaded."""
    from moto.events.models import Archive

    rows: Any = pickles.rows_with_id(_Archived, rows_id)
    rows.archive = pickles.shell(Archive, Archive, events=rows)
    return rows.archive


def _with_size(describe: Any) -> Any:
    @functools.wraps(describe)
    def describe_short(self: Any) -> dict[str, Any]:
        return {**describe(self), "SizeBytes": self.events.size_bytes}

    return describe_short


def _size_bytes(event: Mapping[str, Any]) -> int:
    """Return an archived event's size: 159 bytes were recorded of an event, which these members make (assumed)."""
    texts = [event.get("source"), event.get("detail-type"), event.get("account")]
    texts += [compact(event.get("detail")), *(event.get("resources") or ())]
    return _TIME_BYTES + sum(len(str(text or "").encode()) for text in texts)


def _with_rows(init: Any) -> Any:
    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.events = _Archived()
        self.events.archive = self

    return with_rows


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
