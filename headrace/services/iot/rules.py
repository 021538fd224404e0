"""IoT's rules: when a message comes that a rule selects, each of its actions becomes a call of this cloud.

Messages come from Publish and from MQTT (`headrace.services.iot.mqtt`), and go to rules and to MQTT's subscribers.
Actions: Kinesis, Firehose, Lambda, SQS, SNS, S3, DynamoDBv2, CloudWatch Logs, Step Functions, republish; and the error
action, when one of these fails. Documented: docs.aws.amazon.com/iot/latest/developerguide/iot-rule-actions.html,
rule-error-handling.html, iot-basic-ingest.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

import base64
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, cast
from uuid import uuid4

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import partition_of
from headrace.core.ports import CallerIdentity
from headrace.deliveries.outbox import ON_FAILURE, OUTBOX, Delivery
from headrace.moto.current_cloud import CURRENT
from headrace.services.iot.sql import IotSqlError, Message, fill_template, parse

log = logging.getLogger(__name__)

SESSION = "headrace-iot"
# How often a message is republished: AWS warns of loops, and here they end.
MOST_HOPS = 5
# A message to this topic goes to one rule, and to no subscriber (basic ingest).
TO_RULE = "$aws/rules/"
_ERROR_ACTION = "iot-error-action"
_FAILURES = (AwsError, IotSqlError, LookupError, TypeError, ValueError)


class _Memory:
    """How often the current message has been republished."""

    hops = 0


def publish(
    account: str,
    region: str,
    topic: str,
    payload: bytes,
    *,
    client_id: str = "N/A",
    principal: str = "N/A",
    **delivered: Any,
) -> None:
    """Give a message to the rules that select it, and to MQTT's subscribers. The caller holds moto's lock.

    `delivered` is passed on to `Devices.deliver`: qos, retain, properties, publisher. Never raises, unless what must
    last cannot be stored (OSError).
    """
    if CURRENT.control is None:
        return
    rule_name, direct_topic = "", topic
    if topic.startswith(TO_RULE):
        rule_name, _, direct_topic = topic.removeprefix(TO_RULE).partition("/")
    # A message that no rule may select is not even read.
    if selecting := _find_rules(account, region, only=rule_name):
        value: Any = payload
        # A payload that is not JSON is passed on unchanged.
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(payload)
        message = Message(direct_topic, value, CURRENT.clock.now_ms(), client_id, principal)
        for rule in selecting:
            _run_rule(rule, message, payload, is_direct=bool(rule_name))
    if not rule_name and CURRENT.devices is not None:
        CURRENT.devices.deliver(account, region, topic, payload, **delivered)


def _find_rules(account: str, region: str, *, only: str) -> list[Any]:
    """Return the rules that are enabled, or of them the one with the name `only`."""
    from moto.iot.models import iot_backends

    backends: Any = iot_backends
    rules = backends[account][region].rules
    if only and only not in rules:
        log.warning("a message for the rule %s is lost: there is no such rule", only)
    return [
        rule
        for rule in rules.values()
        if not rule.rule_disabled and (not only or rule.rule_name == only)
    ]


def _run_rule(rule: Any, message: Message, payload: bytes, *, is_direct: bool) -> None:
    try:
        outcome = parse(str(rule.sql)).result(message, is_direct=is_direct)
    except IotSqlError as error:
        log.warning("%s does not run: %s", rule.arn, error)
        return
    if outcome is not None:
        data = outcome if isinstance(outcome, bytes) else json.dumps(outcome).encode()
        for action in rule.actions:
            _act(rule, action, outcome, data, message, payload)


def _act(
    rule: Any,
    action: Mapping[str, Any],
    outcome: Any,
    data: bytes,
    message: Message,
    payload: bytes,
) -> None:
    ((kind, settings),) = action.items()
    actor = _ACTORS.get(kind)
    try:
        if actor is None:
            raise AwsError(
                "UnsupportedAction", "headrace's rules do not have this action, though AWS's do"
            )
        deliveries = actor(rule, cast("dict[str, Any]", settings), outcome, data, message) or []
    except _FAILURES as error:
        log.warning("%s: the action %s failed: %s", rule.arn, kind, error)
        _report_failure(_describe_failure(rule, action, message, payload), str(error))
        return
    for delivery in deliveries:
        if rule.error_action:
            delivery.on_failure = _ERROR_ACTION
            delivery.failure_context = _describe_failure(rule, action, message, payload)
        OUTBOX.add(delivery)


# --- error action ---------------------------------------------------------------------------------


def _describe_failure(
    rule: Any, action: Mapping[str, Any], message: Message, payload: bytes
) -> dict[str, Any]:
    """Return what the error action needs, as JSON; it may be stored until the action is given up."""
    ((kind, settings),) = action.items()
    resource = next((settings[name] for name in _RESOURCES if settings.get(name)), "")
    return {
        "account": rule.account_id,
        "region": rule.region_name,
        "rule": rule.rule_name,
        "topic": message.topic,
        "client_id": message.client_id,
        "now_ms": message.now_ms,
        "payload": base64.b64encode(payload).decode(),
        "action": f"{kind[:1].upper()}{kind[1:]}Action",
        "resource": str(resource),
    }


def _report_failure(context: Mapping[str, Any], sentence: str) -> None:
    """Run the error action of a rule, one of whose actions failed. The caller holds moto's lock."""
    from moto.iot.models import iot_backends

    backends: Any = iot_backends
    rule = backends[context["account"]][context["region"]].rules.get(context["rule"])
    if rule is None or not rule.error_action:
        return
    # Documented: rule-error-handling.html, "Error action message format".
    report = {
        "ruleName": context["rule"],
        "topic": context["topic"],
        "cloudwatchTraceId": str(uuid4()),
        "clientId": context["client_id"],
        "base64OriginalPayload": context["payload"],
        "failures": [
            {
                "failedAction": context["action"],
                "failedResource": context["resource"],
                "errorMessage": sentence,
            }
        ],
    }
    message = Message(context["topic"], report, context["now_ms"], context["client_id"])
    ((kind, settings),) = rule.error_action.items()
    try:
        actor = _ACTORS.get(kind)
        if actor is None:
            raise AwsError("UnsupportedAction", "headrace's rules do not have this action")
        deliveries = actor(rule, settings, report, json.dumps(report).encode(), message) or []
    except _FAILURES as error:
        log.warning("%s: the error action %s failed: %s", rule.arn, kind, error)
        return
    for delivery in deliveries:
        OUTBOX.add(delivery)


ON_FAILURE[_ERROR_ACTION] = _report_failure


# --- actions: each returns its deliveries, or does its work ---------------------------------------


def _one(
    rule: Any, role: Any, service: str, operation: str, params: dict[str, Any], data: bytes
) -> list[Delivery]:
    delivery = Delivery(
        what=f"A message of {rule.arn} for {service}",
        body=data,
        service=service,
        operation=operation,
        params=params,
        account=rule.account_id,
        region=rule.region_name,
        acting_arn=str(role or ""),
        acting_session=SESSION,
    )
    return [delivery]


def _kinesis(
    rule: Any, settings: dict[str, Any], _: Any, data: bytes, message: Message
) -> list[Delivery]:
    # Without a key, any shard may get the message.
    key = fill_template(str(settings.get("partitionKey") or "${newuuid()}"), message)
    params = {"StreamName": settings["streamName"], "PartitionKey": key[:256] or "-", "Data": data}
    return _one(rule, settings.get("roleArn"), "kinesis", "PutRecord", params, data)


def _firehose(
    rule: Any, settings: dict[str, Any], outcome: Any, data: bytes, _: Message
) -> list[Delivery]:
    separator = str(settings.get("separator") or "").encode()
    deliveries: list[Delivery] = []
    batch: list[Any] = (
        outcome if settings.get("batchMode") and isinstance(outcome, list) else [None]
    )
    for element in batch:
        body = data if element is None else json.dumps(element).encode()
        name = settings["deliveryStreamName"]
        params = {"DeliveryStreamName": name, "Record": {"Data": body + separator}}
        deliveries += _one(rule, settings.get("roleArn"), "firehose", "PutRecord", params, body)
    return deliveries


def _lambda(rule: Any, settings: dict[str, Any], _: Any, data: bytes, __: Message) -> None:
    arn = str(settings["functionArn"])
    functions = CURRENT.functions
    if functions is not None and not functions(
        arn, data, service="iot.amazonaws.com", source_arn=str(rule.arn)
    ):
        raise AwsError("LambdaInvokeFailed", f"{arn} cannot be invoked")


def _sqs(rule: Any, settings: dict[str, Any], _: Any, data: bytes, __: Message) -> list[Delivery]:
    is_base64 = settings.get("useBase64") in (True, "true")
    body = base64.b64encode(data).decode() if is_base64 else data.decode(errors="replace")
    params = {"QueueUrl": settings["queueUrl"], "MessageBody": body}
    return _one(rule, settings.get("roleArn"), "sqs", "SendMessage", params, data)


def _sns(rule: Any, settings: dict[str, Any], _: Any, data: bytes, __: Message) -> list[Delivery]:
    text = data.decode(errors="replace")
    params: dict[str, Any] = {"TopicArn": settings["targetArn"], "Message": text}
    if settings.get("messageFormat") == "JSON":
        params["MessageStructure"] = "json"
    return _one(rule, settings.get("roleArn"), "sns", "Publish", params, data)


def _s3(
    rule: Any, settings: dict[str, Any], _: Any, data: bytes, message: Message
) -> list[Delivery]:
    key = fill_template(str(settings["key"]), message)
    params = {"Bucket": settings["bucketName"], "Key": key, "Body": data}
    return _one(rule, settings.get("roleArn"), "s3", "PutObject", params, data)


def _table(
    rule: Any, settings: dict[str, Any], outcome: Any, data: bytes, _: Message
) -> list[Delivery]:
    if not isinstance(outcome, dict):
        raise TypeError("an item needs a JSON object")
    from boto3.dynamodb.types import TypeSerializer

    plain = json.loads(json.dumps(outcome), parse_float=Decimal)
    try:
        item = {name: TypeSerializer().serialize(value) for name, value in plain.items()}
    except ArithmeticError as error:
        raise ValueError("a number is outside of DynamoDB's range or precision") from error
    params = {"TableName": settings["putItem"]["tableName"], "Item": item}
    return _one(rule, settings.get("roleArn"), "dynamodb", "PutItem", params, data)


def _logs(rule: Any, settings: dict[str, Any], _: Any, data: bytes, message: Message) -> None:
    import moto.logs.models
    from moto.core.exceptions import JsonRESTError

    backends: Any = moto.logs.models.logs_backends
    backend, group = backends[rule.account_id][rule.region_name], str(settings["logGroupName"])
    role = CallerIdentity(str(settings.get("roleArn") or ""), SESSION)
    where = f"arn:{partition_of(rule.region_name)}:logs:{rule.region_name}:{rule.account_id}:log-group:{group}:*"
    if sentence := CURRENT.guard.denial(role, "logs:PutLogEvents", where):
        raise AwsError("AccessDeniedException", sentence)
    line = {"timestamp": message.now_ms, "message": data.decode(errors="replace")}
    try:
        backend.ensure_log_stream(group, rule.rule_name)
        backend.put_log_events(group, rule.rule_name, [line])
    except JsonRESTError as error:
        raise AwsError(str(error.error_type), str(error.message)) from error


def _machine(
    rule: Any, settings: dict[str, Any], _: Any, data: bytes, __: Message
) -> list[Delivery]:
    where = f"{rule.region_name}:{rule.account_id}"
    arn = f"arn:{partition_of(where)}:states:{where}:stateMachine:{settings['stateMachineName']}"
    params = {"stateMachineArn": arn, "input": data.decode(errors="replace")}
    return _one(rule, settings.get("roleArn"), "stepfunctions", "StartExecution", params, data)


def _republish(rule: Any, settings: dict[str, Any], _: Any, data: bytes, message: Message) -> None:
    if _Memory.hops >= MOST_HOPS:
        raise ValueError(f"the message was republished {MOST_HOPS} times")
    topic = fill_template(str(settings["topic"]), message).removeprefix("$$")
    _Memory.hops += 1
    try:
        publish(
            str(rule.account_id),
            str(rule.region_name),
            topic,
            data,
            client_id=message.client_id,
            principal=message.principal,
            qos=int(settings.get("qos") or 0),
        )
    finally:
        _Memory.hops -= 1


_Actor = Callable[[Any, dict[str, Any], Any, bytes, Message], list[Delivery] | None]
_ACTORS: dict[str, _Actor] = {
    "kinesis": _kinesis,
    "firehose": _firehose,
    "lambda": _lambda,
    "sqs": _sqs,
    "sns": _sns,
    "s3": _s3,
    "dynamoDBv2": _table,
    "cloudwatchLogs": _logs,
    "stepFunctions": _machine,
    "republish": _republish,
}
# What an action names as its target, for the error action.
_RESOURCES = (
    "streamName", "deliveryStreamName", "functionArn", "queueUrl", "targetArn", "bucketName", "putItem", "logGroupName",
    "stateMachineName", "topic",
)  # fmt: skip
