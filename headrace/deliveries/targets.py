"""Builds the call that delivers a payload to a target of EventBridge Scheduler or of a pipe, by the target's ARN.

Converts the parameters of a state, a schedule or an API's integration to the types of the called operation.

Their members begin with a capital letter, whatever the service's API uses (documented:
https://docs.aws.amazon.com/step-functions/latest/dg/supported-services-awssdk.html).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import service_model

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false


UNSUPPORTED = "headrace does not deliver to such a target, though AWS does"


@dataclass(frozen=True, slots=True)
class TargetCall:
    """One call of the control plane."""

    service: str
    operation: str
    params: dict[str, Any]


def target_call(
    arn: str, payload: str, parameters: Mapping[str, Any], *, source: str, now_ms: int, waits: bool
) -> TargetCall:
    """Return the call that delivers. Raises AwsError for a target that headrace does not have.

    Args:
        arn: the target's.
        payload: its input.
        parameters: the target's settings, such as `KinesisParameters` of a schedule or a pipe, merged.
        source: the source of events that name none, as text.
        now_ms: the time, for log events.
        waits: whether to wait for functions and state machines; the latter are express ones then.
    """
    parts = arn.split(":", 5)
    service = parts[2] if len(parts) == 6 else ""
    name = parts[5] if len(parts) == 6 else ""
    if service == "lambda":
        kind = "RequestResponse" if waits else "Event"
        params = {"FunctionName": arn, "InvocationType": kind, "Payload": payload.encode()}
        return TargetCall("lambda", "Invoke", params)
    if service == "sqs":
        params = {"QueueUrl": f"http://localhost/{parts[4]}/{name}", "MessageBody": payload}
        for member in ("MessageGroupId", "MessageDeduplicationId"):
            if parameters.get(member):
                params[member] = parameters[member]
        return TargetCall("sqs", "SendMessage", params)
    if service == "sns":
        return TargetCall("sns", "Publish", {"TopicArn": arn, "Message": payload})
    if service == "kinesis":
        params = {
            "StreamARN": arn,
            "StreamName": name.removeprefix("stream/"),
            "PartitionKey": str(parameters.get("PartitionKey") or source)[:256],
            "Data": payload.encode(),
        }
        return TargetCall("kinesis", "PutRecord", params)
    if service == "firehose":
        stream = name.removeprefix("deliverystream/")
        record = {"Data": payload.encode()}
        params = {"DeliveryStreamName": stream, "Record": record}
        return TargetCall("firehose", "PutRecord", params)
    if service == "states":
        params = {"stateMachineArn": arn, "input": payload}
        operation = "StartSyncExecution" if waits else "StartExecution"
        return TargetCall("stepfunctions", operation, params)
    if service == "events":
        entry = {
            "Source": parameters.get("Source") or source,
            "DetailType": parameters.get("DetailType") or f"Event from {source}",
            "Detail": payload,
            "EventBusName": arn,
            "Resources": list(parameters.get("Resources") or []),
            **({"Time": _time(parameters["Time"])} if parameters.get("Time") else {}),
        }
        return TargetCall("events", "PutEvents", {"Entries": [entry]})
    if service == "logs":
        params = {
            "logGroupName": name.removeprefix("log-group:").removesuffix(":*"),
            "logStreamName": parameters.get("LogStreamName") or "pipes",
            "logEvents": [
                {
                    "timestamp": _milliseconds(parameters.get("Timestamp", now_ms)),
                    "message": payload,
                }
            ],
        }
        return TargetCall("logs", "PutLogEvents", params)
    if service == "scheduler" and name.startswith("aws-sdk:"):
        return _any_call(name, payload)
    raise AwsError("UnsupportedTarget", f"{arn}: {UNSUPPORTED}")


def _milliseconds(value: Any) -> int:
    """Return a log event's time. Raises AwsError."""
    try:
        return int(value)
    except ValueError as error:
        raise AwsError("ValidationException", f"{value} is not a time in milliseconds") from error


def _time(text: Any) -> datetime:
    """Return an event's time. Raises AwsError."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError as error:
        raise AwsError("ValidationException", f"{text} is not a time of RFC 3339") from error


def _any_call(name: str, payload: str) -> TargetCall:
    """Return the call of a universal target, `aws-sdk:SERVICE:ACTION`, whose input is the parameters."""
    _, service, action = [*name.split(":", 2), ""][:3]
    try:
        params: Any = json.loads(payload or "{}")
    except ValueError as error:
        raise AwsError("ValidationException", "the input is not JSON") from error
    known = {"sfn": "stepfunctions", "eventbridge": "events", "cloudwatchlogs": "logs"}
    service, operation = known.get(service, service), f"{action[:1].upper()}{action[1:]}"
    if operation in service_model(service).operation_names and isinstance(params, dict):
        params = convert_parameters(service, operation, cast("dict[str, Any]", params))
    return TargetCall(service, operation, params)


def convert_parameters(service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in the operation's form: its own names, bytes from text, times from ISO text."""
    shape: Any = service_model(service).operation_model(operation).input_shape
    return {} if shape is None else _convert(shape, params)


def _convert(shape: Any, value: Any) -> Any:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping):
        members = {name.lower(): name for name in shape.members}
        members_converted: dict[str, Any] = {}
        for name, inner in cast("Mapping[str, Any]", value).items():
            member = name if name in shape.members else members.get(name.lower(), name)
            known = shape.members.get(member)
            members_converted[member] = inner if known is None else _convert(known, inner)
        return members_converted
    if kind == "list" and isinstance(value, list):
        return [_convert(shape.member, element) for element in cast("list[Any]", value)]
    if kind == "map" and isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return {name: _convert(shape.value, element) for name, element in pairs.items()}
    if kind == "blob" and not isinstance(value, bytes | bytearray):
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        return text.encode()
    if kind == "timestamp" and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value
