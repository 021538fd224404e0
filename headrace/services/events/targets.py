"""Sends an event of EventBridge to the targets of a rule that it matches, each by the kind of resource in its ARN.

moto's queues, topics, log groups, buses and archives get events at once; functions, streams and delivery streams are
headrace's, and get them from the outbox or Lambda's own queue. Nothing is delivered while state is being loaded, and a
failing target never fails PutEvents.

A target's input is a constant, a part of the event, a filled template, or the whole event. moto fills a template in
repeated passes, so that a value which looks like a placeholder grows without end, and inserts strings bare everywhere.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from headrace.aws.calls.errors import AwsError
from headrace.core.evaluation import Budget, TooMuch
from headrace.core.ports import CallerIdentity
from headrace.deliveries.input_templates import NoValue, compact, fill, fill_paths, first_value
from headrace.deliveries.outbox import (
    MOST_AGE_S,
    MOST_RETRIES,
    OUTBOX,
    Delivery,
    give_up,
    send_to_queue,
)
from headrace.deliveries.service_events import takes_event
from headrace.deliveries.targets import HttpCall, http_call
from headrace.moto.current_cloud import CURRENT

log = logging.getLogger(__name__)

# The most buses that an event passes: AWS forbids such loops, and here they end.
MOST_HOPS = 5


# Quota: an event's size, which also limits a target's input.
MOST_INPUT_BYTES = 256 << 10
_RESERVED = "aws.events."


class TargetFailed(Exception):
    """A target cannot be reached, now or ever: AWS's code, and the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Nested:
    """How many buses the current event has passed."""

    hops = 0


class _Memory:
    """What deliveries remember: the failures that were logged (once for a target and a reason)."""

    targets: ClassVar[set[tuple[str, str, str]]] = set()


def send_matching_event(rule: Any, original_event: Any, transform_input: bool = True) -> None:
    """Send an event to a rule's targets, if it matches. Never raises."""
    try:
        if not takes_event(rule, whole_event(original_event)):
            return
    except Exception as error:  # noqa: BLE001 - an invalid pattern matches nothing
        _log_failure(rule.arn, "", f"{type(error).__name__}: {error}")
        return
    send_to_targets(rule, original_event, transform_input=transform_input)


def send_to_targets(rule: Any, event: Any, *, transform_input: bool = True) -> None:
    """Send an event that a rule takes to its targets. Never raises; the caller holds moto's lock."""
    for target in list(rule.targets):
        send_to_target(rule, target, event, transform_input=transform_input)
    CURRENT.handled.add(rule.arn)


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


def send_on(rule: Any, target: Mapping[str, Any], event: Any, *, transform_input: bool) -> None:
    """Send an event to a target. Raises TargetFailed, and the target's own errors."""
    arn = str(target["Arn"])
    parts = arn.split(":", 5)
    service = parts[2] if len(parts) == 6 else ""
    if service == "events" and not parts[5].strip(":"):
        _to_archive(rule, target, event)
        return
    kind = parts[-1].partition("/")[0]
    sender = _SENDERS.get(f"{service}/{kind}") or _SENDERS.get(service)
    if sender is None:
        raise TargetFailed(
            "UNSUPPORTED_TARGET",
            "headrace does not deliver events to such a target, though AWS does",
        )
    sender(rule, target, parts, event if transform_input else {**event})


def dead_letter_arn(target: Mapping[str, Any]) -> str:
    """Return a target's dead-letter queue; empty for none."""
    return str((target.get("DeadLetterConfig") or {}).get("Arn", ""))


def _to_archive(rule: Any, target: Mapping[str, Any], event: Any) -> None:
    from moto.events.utils import EventTemplateParser

    transformer = target.get("InputTransformer", {})
    event_of_archive = EventTemplateParser.parse(
        transformer.get("InputTemplate"), transformer.get("InputPathsMap", {}), event
    )
    rule._send_to_events_archive(event_of_archive["archive-arn"].split(":archive/", 1)[1], event)


def _to_function(rule: Any, target: Mapping[str, Any], _: list[str], event: Any) -> None:
    if CURRENT.functions is not None:
        CURRENT.functions(
            target["Arn"],
            input_of(target, event, rule),
            service="events.amazonaws.com",
            source_arn=rule.arn,
        )


def _to_stream(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    path = (target.get("KinesisParameters") or {}).get("PartitionKeyPath")
    key = at_path(event, path) if path else event["id"]
    data = input_of(target, event, rule)
    params = {
        "StreamARN": target["Arn"],
        "StreamName": parts[5].removeprefix("stream/"),
        # A path without a value keeps AWS's default.
        "PartitionKey": str(event["id"] if key is None else key)[:256],
        "Data": data,
    }
    _queue(rule, target, parts, data, "kinesis", "PutRecord", params)


def _to_delivery_stream(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    data = input_of(target, event, rule)
    params = {
        "DeliveryStreamName": parts[5].removeprefix("deliverystream/"),
        "Record": {"Data": data},
    }
    _queue(rule, target, parts, data, "firehose", "PutRecord", params)


def _to_machine(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    data = input_of(target, event, rule)
    params = {"stateMachineArn": target["Arn"], "input": data.decode()}
    _queue(rule, target, parts, data, "stepfunctions", "StartExecution", params)


def _parameters(rule: Any, target: Mapping[str, Any], name: str, event: Any) -> dict[str, Any]:
    """Return a target's parameters with the event's values for their paths. Raises TargetFailed.

    Documented ("Dynamic path parameters" of EventBridge's targets): a whole text may be a path; it refers to the event
    itself. What happens to a path without a value is assumed: the event fails.
    """
    try:
        # moto's engine is held meanwhile.
        with Budget(str(rule.arn), may_wait=False) as budget:
            return fill_paths(target.get(name) or {}, whole_event(event), budget)
    except NoValue as error:
        raise TargetFailed(
            "INVALID_PARAMETER", f"the event has no value at the path {error}"
        ) from error
    except TooMuch as error:
        raise TargetFailed("INVALID_PARAMETER", f"{name} asks for too much: {error}") from error


def _to_http(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    data = input_of(target, event, rule)
    arn = str(target["Arn"])
    call = http_call(arn, _parameters(rule, target, "HttpParameters", event))
    if role := str(target.get("RoleArn") or ""):
        action = "execute-api:Invoke" if call.api else "events:InvokeApiDestination"
        sentence = CURRENT.guard.denial(
            CallerIdentity(role, f"AWSEvents_{rule.name}"[:64]), action, arn
        )
        if sentence:
            raise TargetFailed("NO_PERMISSIONS", sentence)
    _queue(rule, target, parts, data, http=call)


def _to_warehouse(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    redshift_data_parameters = _parameters(rule, target, "RedshiftDataParameters", event)
    data = input_of(target, event, rule)
    is_workgroup = parts[2] == "redshift-serverless"
    named = "WorkgroupName" if is_workgroup else "ClusterIdentifier"
    sqls = redshift_data_parameters.get("Sqls")
    params = {
        named: target["Arn"] if is_workgroup else parts[5].rpartition(":")[2],
        "Database": redshift_data_parameters.get("Database"),
        "DbUser": redshift_data_parameters.get("DbUser"),
        "SecretArn": redshift_data_parameters.get("SecretManagerArn"),
        "StatementName": redshift_data_parameters.get("StatementName"),
        "WithEvent": redshift_data_parameters.get("WithEvent"),
        **(
            {"Sqls": sqls}
            if sqls
            else {"Sql": redshift_data_parameters.get("Sql") or data.decode()}
        ),
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
        return  # state is being loaded: this event was delivered before
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
            dead_letter_arn=dead_letter_arn(target),
            attributes={"RULE_ARN": rule.arn, "TARGET_ARN": str(target["Arn"])},
            source_arn=rule.arn,
            # AWS refuses a rule without a role for such a target.
            acting_arn=str(target.get("RoleArn") or ""),
            acting_session=f"AWSEvents_{rule.name}"[:64],
        )
    )


def _ask(rule: Any, action: str, arn: str) -> None:
    """Check that a target's own policy allows EventBridge an action. Raises TargetFailed."""
    acting = CallerIdentity("events.amazonaws.com", source_arn=str(rule.arn))
    sentence = CURRENT.guard.denial(acting, action, arn)
    if sentence:
        raise TargetFailed("NO_PERMISSIONS", sentence)


def _to_queue(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    _ask(rule, "sqs:SendMessage", str(target["Arn"]))
    group = (target.get("SqsParameters") or {}).get("MessageGroupId")
    problem = send_to_queue(target["Arn"], input_of(target, event, rule).decode(), {}, group)
    if problem:
        raise TargetFailed("NO_PERMISSIONS", problem)


def _to_topic(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    import moto.sns.models

    _ask(rule, "sns:Publish", str(target["Arn"]))
    topics: Any = moto.sns.models.sns_backends
    topics[parts[4]][parts[3]].publish(
        message=input_of(target, event, rule).decode(), arn=str(target["Arn"])
    )


def _to_log_group(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    import moto.logs.models

    backends: Any = moto.logs.models.logs_backends
    backend = backends[parts[4]][parts[3]]
    _ask(rule, "logs:PutLogEvents", str(target["Arn"]))
    group = parts[5].removeprefix("log-group:").removesuffix(":*")
    # moto creates a stream for each event; here each rule has one.
    stream = str(uuid.uuid5(uuid.NAMESPACE_URL, rule.arn))
    backend.ensure_log_stream(group, stream)
    message = input_of(target, event, rule).decode()
    line = {"timestamp": CURRENT.clock.now_ms(), "message": message}
    backend.put_log_events(group, stream, [line])


def _to_bus(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    import moto.events.models

    arn, role = str(target["Arn"]), str(target.get("RoleArn") or "")
    if role:
        acting = CallerIdentity(role, f"AWSEvents_{rule.name}"[:64])
        sentence = CURRENT.guard.denial(acting, "events:PutEvents", arn)
        if sentence:
            raise TargetFailed("NO_PERMISSIONS", sentence)
    elif parts[4] != rule.arn.split(":")[4]:
        # A bus in the same account accepts rules without a role; assumed for rules from before AWS required one.
        _ask(rule, "events:PutEvents", arn)
    if _Nested.hops >= MOST_HOPS:
        raise TargetFailed(
            "INVALID_TARGET", f"the event has passed from bus to bus {MOST_HOPS} times"
        )
    backends: Any = moto.events.models.events_backends
    bus = backends[parts[4]][parts[3]].describe_event_bus(parts[5].removeprefix("event-bus/"))
    # An event stays what it was, with its account, its region and its time; it gets another id in another region
    # (LocalStack's tests against AWS, events/test_events_cross_account_region.py, 2024).
    passed_on = event
    if parts[3] != rule.arn.split(":")[3]:
        passed_on = {**event, "id": str(uuid.uuid4())}
    _Nested.hops += 1
    try:
        for next_rule in list(bus.rules.values()):
            next_rule.send_to_targets(copy.deepcopy(passed_on))
    finally:
        _Nested.hops -= 1


_SENDERS: Mapping[str, Callable[[Any, Mapping[str, Any], list[str], Any], None]] = {
    "lambda": _to_function,
    "kinesis": _to_stream,
    "firehose": _to_delivery_stream,
    "sqs": _to_queue,
    "sns": _to_topic,
    "logs": _to_log_group,
    "events": _to_bus,
    "events/api-destination": _to_http,
    "states": _to_machine,
    "execute-api": _to_http,
    "redshift": _to_warehouse,
    "redshift-serverless": _to_warehouse,
}


class InputTooLarge(ValueError):
    """A target's input is larger than an event may be."""


def input_of(target: Mapping[str, Any], event: Mapping[str, Any], rule: Any) -> bytes:
    """Return a target's input for an event. Raises InputTooLarge."""
    whole: Any = whole_event(event)
    if "Input" in target:
        return str(target["Input"]).encode()
    if "InputPath" in target:
        return compact(at_path(whole, str(target["InputPath"]))).encode()
    transformer = target.get("InputTransformer")
    if transformer is None:
        return compact(whole).encode()  # recorded: without spaces
    received = _time(event.get("ingestion-time", whole.get("time")))
    reserved = {
        "rule-arn": str(rule.arn),
        "rule-name": str(rule.name),
        "event.json": whole,
        "event": _without_detail(whole, received),
        "event.ingestion-time": received,
    }
    paths = transformer.get("InputPathsMap") or {}
    return fill_template(str(transformer.get("InputTemplate", "")), paths, whole, reserved).encode()


def fill_template(
    template: str, paths: Mapping[str, Any], event: Mapping[str, Any], reserved: Mapping[str, Any]
) -> str:
    """Return a filled template. Raises InputTooLarge.

    Args:
        template: the text.
        paths: the JSON path of each placeholder.
        event: what the paths refer to.
        reserved: EventBridge's own variables, by their names without `aws.events.`.
    """
    is_string = template.lstrip().startswith('"')
    size = len(template)
    # moto's engine is held meanwhile.
    budget = Budget("events", may_wait=False)

    def value_of(name: str) -> Any:
        if name not in paths:
            return reserved[name.removeprefix(_RESERVED)]
        try:
            return first_value(str(paths[name]), event, budget)
        except NoValue:
            return ""  # observed: in JSON, too, an empty string

    def count(length: int) -> None:
        nonlocal size
        size += length
        if size > MOST_INPUT_BYTES:
            raise InputTooLarge(
                f"The input of a target would be larger than {MOST_INPUT_BYTES} bytes"
            )

    try:
        return fill(
            template,
            lambda name: name in paths or name.removeprefix(_RESERVED) in reserved,
            value_of,
            # Observed: a string loses the quotes of objects and lists, as in `{id:x}`; within JSON they stay.
            in_quotes=lambda value: (
                compact(value).replace('"', "") if is_string else compact(value)
            ),
            count=count,
        )
    except TooMuch as error:
        raise InputTooLarge(f"A path of a target's input asks for too much: {error}") from error


def at_path(event: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as `$.detail.id`; None when it is missing."""
    part: Any = event
    for name in path.removeprefix("$").strip(".").split("."):
        part = part.get(name) if name and isinstance(part, dict) else part if not name else None
    return part


def whole_event(original: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in EventBridge's form; moto has its time as a number of seconds."""
    event = dict(original)
    event.pop("ingestion-time", None)
    if "time" in event:
        event["time"] = _time(event["time"])
    return event


def _time(value: Any) -> Any:
    if isinstance(value, int | float):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return value


def _without_detail(event: Mapping[str, Any], received: Any) -> dict[str, Any]:
    """Return `<aws.events.event>`: the event without its detail (observed)."""
    members = {name: value for name, value in event.items() if name not in ("detail", "time")}
    kind = members.pop("detail-type", "")
    return {**members, "detailType": kind, "time": received}
