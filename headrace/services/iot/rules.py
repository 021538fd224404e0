"""IoT's rules: when Publish brings a message that a rule selects, each of its actions becomes a call of this cloud.

Actions: Kinesis, Firehose, Lambda, SQS, SNS, S3, DynamoDBv2, CloudWatch Logs, Step Functions, republish. There is no
MQTT here. Documented: https://docs.aws.amazon.com/iot/latest/developerguide/iot-rule-actions.html.
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

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import partition_of
from headrace.core.ports import CallerIdentity
from headrace.deliveries.outbox import OUTBOX, Delivery
from headrace.moto.current_cloud import CURRENT
from headrace.services.iot.sql import IotSqlError, Message, fill_template, parse

log = logging.getLogger(__name__)

SESSION = "headrace-iot"
# How often a message is republished: AWS warns of loops, and here they end.
MOST_HOPS = 5


class _Memory:
    """How often the current message has been republished."""

    hops = 0


def patch(module: Any) -> None:
    """Make `moto.iotdata.models` run rules for each published message."""

    def publish(self: Any, topic: str, payload: bytes) -> None:
        run_rules(str(self.account_id), str(self.region_name), topic, payload)

    module.IoTDataPlaneBackend.publish = publish


def run_rules(account: str, region: str, topic: str, payload: bytes) -> None:
    """Run the rules that select a message. Never raises; the caller holds moto's lock."""
    from moto.iot.models import iot_backends

    if CURRENT.control is None:
        return
    value: Any = payload
    # A payload that is not JSON is passed on unchanged.
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(payload)
    message = Message(topic, value, CURRENT.clock.now_ms())
    backends: Any = iot_backends
    for rule in list(backends[account][region].rules.values()):
        if rule.rule_disabled:
            continue
        try:
            made = parse(str(rule.sql)).result(message)
        except IotSqlError as error:
            log.warning("%s does not run: %s", rule.arn, error)
            continue
        if made is not None:
            data = made if isinstance(made, bytes) else json.dumps(made).encode()
            for action in rule.actions:
                _act(rule, action, made, data, message)


def _act(rule: Any, action: Mapping[str, Any], made: Any, data: bytes, message: Message) -> None:
    ((kind, given),) = action.items()
    actor = _ACTORS.get(kind)
    try:
        if actor is None:
            raise AwsError(
                "UnsupportedAction", "headrace's rules do not have this action, though AWS's do"
            )
        actor(rule, cast("dict[str, Any]", given), made, data, message)
    except (AwsError, IotSqlError, LookupError, TypeError, ValueError) as error:
        log.warning("%s: the action %s failed: %s", rule.arn, kind, error)


def _queue_delivery(
    rule: Any, role: Any, service: str, operation: str, params: dict[str, Any], data: bytes
) -> None:
    OUTBOX.add(
        Delivery(
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
    )


# --- actions --------------------------------------------------------------------------------------


def _kinesis(rule: Any, given: dict[str, Any], _: Any, data: bytes, message: Message) -> None:
    # Without a key, any shard may get the message.
    key = fill_template(str(given.get("partitionKey") or "${newuuid()}"), message)
    params = {"StreamName": given["streamName"], "PartitionKey": key[:256] or "-", "Data": data}
    _queue_delivery(rule, given.get("roleArn"), "kinesis", "PutRecord", params, data)


def _firehose(rule: Any, given: dict[str, Any], made: Any, data: bytes, _: Message) -> None:
    separator = str(given.get("separator") or "").encode()
    batch: list[Any] = made if given.get("batchMode") and isinstance(made, list) else [None]
    for each in batch:
        body = data if each is None else json.dumps(each).encode()
        name = given["deliveryStreamName"]
        params = {"DeliveryStreamName": name, "Record": {"Data": body + separator}}
        _queue_delivery(rule, given.get("roleArn"), "firehose", "PutRecord", params, body)


def _lambda(rule: Any, given: dict[str, Any], _: Any, data: bytes, __: Message) -> None:
    if CURRENT.functions is not None:
        arn = str(given["functionArn"])
        CURRENT.functions(arn, data, service="iot.amazonaws.com", source_arn=str(rule.arn))


def _sqs(rule: Any, given: dict[str, Any], _: Any, data: bytes, __: Message) -> None:
    is_base64 = given.get("useBase64") in (True, "true")
    body = base64.b64encode(data).decode() if is_base64 else data.decode(errors="replace")
    params = {"QueueUrl": given["queueUrl"], "MessageBody": body}
    _queue_delivery(rule, given.get("roleArn"), "sqs", "SendMessage", params, data)


def _sns(rule: Any, given: dict[str, Any], _: Any, data: bytes, __: Message) -> None:
    text = data.decode(errors="replace")
    params: dict[str, Any] = {"TopicArn": given["targetArn"], "Message": text}
    if given.get("messageFormat") == "JSON":
        params["MessageStructure"] = "json"
    _queue_delivery(rule, given.get("roleArn"), "sns", "Publish", params, data)


def _s3(rule: Any, given: dict[str, Any], _: Any, data: bytes, message: Message) -> None:
    key = fill_template(str(given["key"]), message)
    params = {"Bucket": given["bucketName"], "Key": key, "Body": data}
    _queue_delivery(rule, given.get("roleArn"), "s3", "PutObject", params, data)


def _table(rule: Any, given: dict[str, Any], made: Any, data: bytes, _: Message) -> None:
    if not isinstance(made, dict):
        raise TypeError("an item needs a JSON object")
    from boto3.dynamodb.types import TypeSerializer

    plain = json.loads(json.dumps(made), parse_float=Decimal)
    item = {name: TypeSerializer().serialize(value) for name, value in plain.items()}
    params = {"TableName": given["putItem"]["tableName"], "Item": item}
    _queue_delivery(rule, given.get("roleArn"), "dynamodb", "PutItem", params, data)


def _logs(rule: Any, given: dict[str, Any], _: Any, data: bytes, message: Message) -> None:
    import moto.logs.models

    backends: Any = moto.logs.models.logs_backends
    backend, group = backends[rule.account_id][rule.region_name], str(given["logGroupName"])
    role = CallerIdentity(str(given.get("roleArn") or ""), SESSION)
    where = f"arn:{partition_of(rule.region_name)}:logs:{rule.region_name}:{rule.account_id}:log-group:{group}:*"
    if sentence := CURRENT.guard.denial(role, "logs:PutLogEvents", where):
        raise AwsError("AccessDeniedException", sentence)
    backend.ensure_log_stream(group, rule.rule_name)
    line = {"timestamp": message.now_ms, "message": data.decode(errors="replace")}
    backend.put_log_events(group, rule.rule_name, [line])


def _machine(rule: Any, given: dict[str, Any], _: Any, data: bytes, __: Message) -> None:
    where = f"{rule.region_name}:{rule.account_id}"
    arn = f"arn:{partition_of(where)}:states:{where}:stateMachine:{given['stateMachineName']}"
    params = {"stateMachineArn": arn, "input": data.decode(errors="replace")}
    _queue_delivery(rule, given.get("roleArn"), "stepfunctions", "StartExecution", params, data)


def _republish(rule: Any, given: dict[str, Any], _: Any, data: bytes, message: Message) -> None:
    if _Memory.hops >= MOST_HOPS:
        raise ValueError(f"the message was republished {MOST_HOPS} times")
    topic = fill_template(str(given["topic"]), message).removeprefix("$$")
    _Memory.hops += 1
    try:
        run_rules(rule.account_id, rule.region_name, topic, data)
    finally:
        _Memory.hops -= 1


_ACTORS: dict[str, Callable[[Any, dict[str, Any], Any, bytes, Message], None]] = {
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
