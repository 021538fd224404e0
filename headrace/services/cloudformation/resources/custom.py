"""Custom resources: a Lambda function is told what to do, and answers by a PUT to a URL.

Source: the custom resource request and response objects in the CloudFormation user guide (documented).
"""

from __future__ import annotations

import json
from typing import Any, cast

from headrace.aws.errors import AwsError
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
)

DEFAULT_TIMEOUT_S = 3600.0


def custom_resource_type(name: str) -> ResourceType:
    """Return the type of a custom resource called `name`."""

    def create(context: Context, properties: Properties) -> Made:
        return _ask(context, name, "Create", properties)

    def update(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
        return _ask(context, name, "Update", new, physical_id, old)

    def delete(context: Context, physical_id: str, properties: Properties) -> None:
        _ask(context, name, "Delete", properties, physical_id)

    return ResourceType(
        name,
        {},
        create,
        delete,
        update=update,
        replace_on=frozenset({"ServiceToken"}),
        any_property=True,
    )


def _ask(
    context: Context,
    kind: str,
    request_type: str,
    properties: Properties,
    physical_id: str = "",
    old: Properties | None = None,
) -> Made:
    function = properties.get("ServiceToken")
    if not isinstance(function, str) or ":lambda:" not in function:
        raise ResourceFailed(
            f"headrace runs custom resources that are Lambda functions; ServiceToken is {function!r}"
        )
    timeout_s = float(properties.get("ServiceTimeout", DEFAULT_TIMEOUT_S))
    token, url = context.responses.expect()
    event: dict[str, Any] = {
        "RequestType": request_type,
        "ServiceToken": function,
        "ResponseURL": url,
        "StackId": context.stack_id,
        "RequestId": context.ids.uuid(),
        "LogicalResourceId": context.logical_id,
        "ResourceType": kind,
        "ResourceProperties": _texts(properties),
    }
    if physical_id:
        event["PhysicalResourceId"] = physical_id
    if old is not None:
        event["OldResourceProperties"] = _texts(old)
    _invoke(context, function, event)
    answer = context.responses.wait_or(token, timeout_s, lambda: _gone(context, function))
    if answer is None:
        raise ResourceFailed(
            "CloudFormation did not receive a response from your Custom Resource. Please check your logs for requestId"
            f" [{event['RequestId']}]."
        )
    if answer.get("Status") != "SUCCESS":
        raise ResourceFailed(
            f"Received response status [FAILED] from custom resource. Message returned: {answer.get('Reason', '')}"
        )
    data = answer.get("Data")
    attributes = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    return Made(str(answer.get("PhysicalResourceId") or physical_id), attributes)


def _invoke(context: Context, function: str, event: dict[str, Any]) -> None:
    try:
        context.call(
            "lambda",
            "Invoke",
            {
                "FunctionName": function,
                "InvocationType": "Event",
                "Payload": json.dumps(event).encode(),
            },
        )
    except AwsError as error:
        raise ResourceFailed(f"{error.message} (Service: Lambda, {error.code})") from error


def _gone(context: Context, function: str) -> str | None:
    """Return why the function will never answer, when that can be told; AWS waits out the timeout."""
    try:
        context.call("lambda", "GetFunctionConfiguration", {"FunctionName": function})
    except AwsError as error:
        if error.status == 404:
            return f"The function {function} was deleted before it answered"
    return None


def _texts(value: Any) -> Any:
    """Return properties as a function gets them: every scalar is text."""
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_texts(item) for item in cast("list[Any]", value)]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
