"""EventBridge: delivers events to a rule's targets wherever they are; a failing target never fails PutEvents.

moto's queues, topics, log groups, buses and archives are served at once; functions, streams and delivery streams are
headrace's, and are served from the outbox or Lambda's own queue. Nothing is delivered while state is loaded.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import copy
import functools
import json
import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from headrace.aws.errors import AwsError
from headrace.core.ports import Acting
from headrace.fallback.current import CURRENT
from headrace.fallback.http_targets import HttpCall, http_call, is_http
from headrace.fallback.kept import pickles
from headrace.fallback.kept.touched import TOUCHED, RowKey, Rows
from headrace.fallback.outbox import (
    MOST_AGE_S,
    MOST_RETRIES,
    OUTBOX,
    Delivery,
    give_up,
    to_queue,
)
from headrace.fallback.services.event_inputs import at_path, input_of, whole_event
from headrace.fallback.services.time_of import use_clock

log = logging.getLogger(__name__)

# Events of an archive that are kept, whatever its retention.
MOST_ARCHIVED = 100_000
# How often an event goes from bus to bus: AWS forbids such circles, and here they end.
MOST_HOPS = 5


class TargetFailed(Exception):
    """A target cannot be reached, now or ever: AWS's code, and why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


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
    pickles.reduces(Archive, _reduce_archive)


class _Memory:
    """What deliveries remember: failures that are logged (once for a target and a reason), and nested buses."""

    targets: ClassVar[set[tuple[str, str, str]]] = set()
    hops = 0


def _send_to_targets(rule: Any, original_event: Any, transform_input: bool = True) -> None:
    """Send an event to a rule's targets, if it matches. Never raises."""
    if rule.state == "DISABLED":
        return
    # A rule with nothing but a schedule has no pattern, and matches no event.
    if rule.scheduled_expression and not rule.event_pattern.get_pattern():
        return
    try:
        if not rule.event_pattern.matches_event(original_event):
            return
    except Exception as error:  # noqa: BLE001 - a pattern that cannot be run matches nothing
        _say(rule.arn, "", f"{type(error).__name__}: {error}")
        return
    for target in list(rule.targets):
        send_to_target(rule, target, original_event, transform_input=transform_input)


def send_to_target(
    rule: Any, target: Mapping[str, Any], event: Any, *, transform_input: bool = True
) -> None:
    """Send an event to one target of a rule. Never raises; the caller holds moto's lock."""
    try:
        _send(rule, target, event, transform_input=transform_input)
    except Exception as error:  # noqa: BLE001 - one target's failure is nobody else's
        _fail(rule, target, event, error)


def _say(rule_arn: str, target_arn: str, reason: str) -> None:
    failure = (rule_arn, target_arn, reason)
    if failure not in _Memory.targets and len(_Memory.targets) < 10_000:
        _Memory.targets.add(failure)
        log.warning("%s does not deliver to %s: %s", rule_arn, target_arn or "any target", reason)


def _send(rule: Any, target: Mapping[str, Any], event: Any, *, transform_input: bool) -> None:
    arn = str(target["Arn"])
    parts = arn.split(":", 5)
    service = parts[2] if len(parts) == 6 else ""
    if service == "events" and not parts[5].strip(":"):
        _to_archive(rule, target, event)
        return
    sender = _to_http if is_http(arn) else _SENDERS.get(service)
    if sender is None:
        raise TargetFailed(
            "UNSUPPORTED_TARGET", "headrace delivers events to no such target, and AWS does"
        )
    sender(rule, target, parts, event if transform_input else {**event})


def _fail(rule: Any, target: Mapping[str, Any], event: Any, error: Exception) -> None:
    arn = str(target["Arn"])
    code = getattr(error, "code", None) or getattr(error, "error_type", "") or "ERROR_FROM_TARGET"
    delivery = Delivery(
        what=f"An event of {rule.arn} for {arn}",
        body=json.dumps(whole_event(event)).encode(),
        dead_letter_arn=_dead_letter_arn(target),
        attributes={"RULE_ARN": rule.arn, "TARGET_ARN": arn},
    )

    def say(delivery: Delivery, why: AwsError, what_now: str) -> None:
        _say(rule.arn, arn, f"it {what_now}: {why}")

    message = getattr(error, "message", None) or str(error) or type(error).__name__
    give_up(delivery, str(code), str(message), "", say)


def _dead_letter_arn(target: Mapping[str, Any]) -> str:
    return str((target.get("DeadLetterConfig") or {}).get("Arn", ""))


# --- each kind of target ----------------------------------------------------------------------------


def _to_archive(rule: Any, target: Mapping[str, Any], event: Any) -> None:
    from moto.events.utils import EventTemplateParser

    transformer = target.get("InputTransformer", {})
    made = EventTemplateParser.parse(
        transformer.get("InputTemplate"), transformer.get("InputPathsMap", {}), event
    )
    rule._send_to_events_archive(made["archive-arn"].split(":archive/", 1)[1], event)


def _to_function(rule: Any, target: Mapping[str, Any], _: list[str], event: Any) -> None:
    if CURRENT.functions is not None:
        CURRENT.functions(
            target["Arn"],
            input_of(target, event),
            service="events.amazonaws.com",
            source_arn=rule.arn,
        )


def _to_stream(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    path = (target.get("KinesisParameters") or {}).get("PartitionKeyPath")
    key = at_path(event, path) if path else event["id"]
    data = input_of(target, event)
    params = {
        "StreamARN": target["Arn"],
        "StreamName": parts[5].removeprefix("stream/"),
        # A path that leads nowhere leaves AWS's default.
        "PartitionKey": str(event["id"] if key is None else key)[:256],
        "Data": data,
    }
    _queue(rule, target, parts, data, "kinesis", "PutRecord", params)


def _to_delivery_stream(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    data = input_of(target, event)
    params = {
        "DeliveryStreamName": parts[5].removeprefix("deliverystream/"),
        "Record": {"Data": data},
    }
    _queue(rule, target, parts, data, "firehose", "PutRecord", params)


def _to_machine(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    data = input_of(target, event)
    params = {"stateMachineArn": target["Arn"], "input": data.decode()}
    _queue(rule, target, parts, data, "stepfunctions", "StartExecution", params)


def _to_http(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    data = input_of(target, event)
    arn = str(target["Arn"])
    call = http_call(arn, target.get("HttpParameters") or {})
    if role := str(target.get("RoleArn") or ""):
        action = "execute-api:Invoke" if call.api else "events:InvokeApiDestination"
        sentence = CURRENT.guard.denial(Acting(role, f"AWSEvents_{rule.name}"[:64]), action, arn)
        if sentence:
            raise TargetFailed("NO_PERMISSIONS", sentence)
    _queue(rule, target, parts, data, http=call)


def _to_warehouse(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    given = target.get("RedshiftDataParameters") or {}
    data = input_of(target, event)
    is_workgroup = parts[2] == "redshift-serverless"
    named = "WorkgroupName" if is_workgroup else "ClusterIdentifier"
    sqls = given.get("Sqls")
    params = {
        named: target["Arn"] if is_workgroup else parts[5].rpartition(":")[2],
        "Database": given.get("Database"),
        "DbUser": given.get("DbUser"),
        "SecretArn": given.get("SecretManagerArn"),
        "StatementName": given.get("StatementName"),
        "WithEvent": given.get("WithEvent"),
        **({"Sqls": sqls} if sqls else {"Sql": given.get("Sql") or data.decode()}),
    }
    params = {name: value for name, value in params.items() if value is not None}
    operation = "BatchExecuteStatement" if sqls else "ExecuteStatement"
    _queue(rule, target, parts, data, "redshift-data", operation, params)


def _queue(
    rule: Any,
    target: Mapping[str, Any],
    parts: list[str],
    data: bytes,
    service: str = "",
    operation: str = "",
    params: dict[str, Any] | None = None,
    http: HttpCall | None = None,
) -> None:
    if CURRENT.control is None:
        return  # state is loaded: this was delivered when it was new
    retry = target.get("RetryPolicy") or {}
    OUTBOX.add(
        Delivery(
            what=f"An event of {rule.arn} for {target['Arn']}",
            body=data,
            service=service,
            operation=operation,
            params=params or {},
            http=http,
            account=parts[4],
            region=parts[3],
            most_age_s=int(retry.get("MaximumEventAgeInSeconds", MOST_AGE_S)),
            most_retries=int(retry.get("MaximumRetryAttempts", MOST_RETRIES)),
            dead_letter_arn=_dead_letter_arn(target),
            attributes={"RULE_ARN": rule.arn, "TARGET_ARN": str(target["Arn"])},
            # A rule without a role for such a target is refused by AWS.
            acting_arn=str(target.get("RoleArn") or ""),
            acting_session=f"AWSEvents_{rule.name}"[:64],
        )
    )


def _ask(rule: Any, action: str, arn: str) -> None:
    """Ask whether a target's own policy allows EventBridge to do something. Raises TargetFailed."""
    acting = Acting("events.amazonaws.com", source_arn=str(rule.arn))
    sentence = CURRENT.guard.denial(acting, action, arn)
    if sentence:
        raise TargetFailed("NO_PERMISSIONS", sentence)


def _to_queue(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    _ask(rule, "sqs:SendMessage", str(target["Arn"]))
    group = (target.get("SqsParameters") or {}).get("MessageGroupId")
    if not to_queue(target["Arn"], input_of(target, event).decode(), {}, group):
        raise TargetFailed("NO_PERMISSIONS", f"there is no queue {parts[5]}")


def _to_topic(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    import moto.sns.models

    _ask(rule, "sns:Publish", str(target["Arn"]))
    topics: Any = moto.sns.models.sns_backends
    topics[parts[4]][parts[3]].publish(
        message=input_of(target, event).decode(), arn=str(target["Arn"])
    )


def _to_log_group(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    import moto.logs.models

    backends: Any = moto.logs.models.logs_backends
    backend = backends[parts[4]][parts[3]]
    _ask(rule, "logs:PutLogEvents", str(target["Arn"]))
    group = parts[5].removeprefix("log-group:").removesuffix(":*")
    # moto makes a stream an event; a rule has one.
    stream = str(uuid.uuid5(uuid.NAMESPACE_URL, rule.arn))
    backend.ensure_log_stream(group, stream)
    message = input_of(target, event).decode()
    line = {"timestamp": CURRENT.clock.now_ms(), "message": message}
    backend.put_log_events(group, stream, [line])


def _to_bus(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    import moto.events.models

    arn, role = str(target["Arn"]), str(target.get("RoleArn") or "")
    if role:
        acting = Acting(role, f"AWSEvents_{rule.name}"[:64])
        sentence = CURRENT.guard.denial(acting, "events:PutEvents", arn)
        if sentence:
            raise TargetFailed("NO_PERMISSIONS", sentence)
    elif parts[4] != rule.arn.split(":")[4]:
        # Within the account a bus lets rules in without a role; assumed for those made before AWS asked for one.
        _ask(rule, "events:PutEvents", arn)
    if _Memory.hops >= MOST_HOPS:
        raise TargetFailed(
            "INVALID_TARGET", f"the event has gone from bus to bus {MOST_HOPS} times"
        )
    backends: Any = moto.events.models.events_backends
    _Memory.hops += 1
    try:
        backends[parts[4]][parts[3]].put_events(
            [
                {
                    "Source": event["source"],
                    "DetailType": event["detail-type"],
                    "Detail": json.dumps(event["detail"]),
                    "Resources": event.get("resources", []),
                    "EventBusName": parts[5].removeprefix("event-bus/"),
                }
            ]
        )
    finally:
        _Memory.hops -= 1


_SENDERS: Mapping[str, Callable[[Any, Mapping[str, Any], list[str], Any], None]] = {
    "lambda": _to_function,
    "kinesis": _to_stream,
    "firehose": _to_delivery_stream,
    "sqs": _to_queue,
    "sns": _to_topic,
    "logs": _to_log_group,
    "events": _to_bus,
    "states": _to_machine,
    "execute-api": _to_http,
    "redshift": _to_warehouse,
    "redshift-serverless": _to_warehouse,
}


# --- archives ---------------------------------------------------------------------------------------


class _Archived(Rows):
    """The events of an archive, by number; those past its retention go."""

    service = "events"
    archive: Any

    def __init__(self, rows_id: int | None = None) -> None:
        super().__init__(rows_id)
        self.events: deque[Any] = deque()
        self.first = 0

    def append(self, event: Any) -> None:
        """Add an event, as moto does to its list."""
        TOUCHED.row(self, self.first + len(self.events))
        self.events.append(copy.deepcopy(event))
        days = int(self.archive.retention or 0)
        oldest_s = CURRENT.clock.now_ms() / 1000 - days * 86_400 if days else 0.0
        while len(self.events) > MOST_ARCHIVED or self.events[0]["ingestion-time"] < oldest_s:
            self.events.popleft()
            TOUCHED.row(self, self.first)
            self.first += 1

    def __iter__(self) -> Any:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    # Two archives are equal only if they are the same object, whatever their events.
    def __bool__(self) -> bool:
        return True

    def encoded(self, key: Any) -> bytes | None:
        """See `Rows.encoded`."""
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
            self.events.append(msgspec.json.decode(value))


def _reduce_archive(archive: Any) -> Any:
    pickles.found(archive.events)
    state = {name: value for name, value in vars(archive).items() if name != "events"}
    return empty_archive, (archive.events.id,), state


def empty_archive(rows_id: int) -> Any:
    """Return an archive whose attributes and events are still to come."""
    from moto.events.models import Archive

    archive: Any = Archive.__new__(Archive)
    rows: Any = pickles.rows_with_id(_Archived, rows_id)
    archive.events, rows.archive = rows, archive
    return archive


def _with_rows(init: Any) -> Any:
    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.events = _Archived()
        self.events.archive = self

    return with_rows
