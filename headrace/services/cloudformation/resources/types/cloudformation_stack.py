"""Nested stacks, and macros."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    stored,
    tag_list,
)

_LOOK_EVERY_S = 0.2
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
_NO_UPDATES = "No updates are to be performed."
_STACK = "AWS::CloudFormation::Stack"
_MACRO = "AWS::CloudFormation::Macro"


def _settings(context: Context, properties: Properties) -> dict[str, Any]:
    parameters: dict[str, Any] = properties.get("Parameters") or {}
    return {
        "TemplateURL": properties["TemplateURL"],
        "Parameters": [
            {"ParameterKey": key, "ParameterValue": _text(value)}
            for key, value in parameters.items()
        ],
        # The outer stack's request has already acknowledged them for everything inside.
        "Capabilities": _CAPABILITIES,
        # Without the outer stack's system tags: the nested stack puts its own on its resources.
        "Tags": tag_list(properties, replace(context, system_tags={})),
        "NotificationARNs": properties.get("NotificationARNs") or [],
    }


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, cast("list[Any]", value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _describe_stack(context: Context, stack_id: str) -> dict[str, Any]:
    return context.call("cloudformation", "DescribeStacks", {"StackName": stack_id})["Stacks"][0]


def _wait_for_end(context: Context, stack_id: str) -> dict[str, Any]:
    """Wait until a stack's operation ends, and return the stack. Raises Cancelled."""
    while True:
        stack = _describe_stack(context, stack_id)
        status = str(stack["StackStatus"])
        if not status.endswith("_IN_PROGRESS") or status.endswith("CLEANUP_IN_PROGRESS"):
            return stack
        context.pause(_LOOK_EVERY_S)


def _build_result(stack: dict[str, Any]) -> ResourceResult:
    outputs: list[dict[str, str]] = stack.get("Outputs") or []
    return ResourceResult(
        stack["StackId"],
        {f"Outputs.{output['OutputKey']}": output["OutputValue"] for output in outputs},
    )


def _check(stack: dict[str, Any], status: str, verb: str) -> None:
    if stack["StackStatus"] != status:
        reason = stack.get("StackStatusReason") or f"it is {stack['StackStatus']}"
        raise ResourceFailed(
            f"Embedded stack {stack['StackId']} was not successfully {verb}: {reason}"
        )


def _create(context: Context, properties: Properties) -> ResourceResult:
    settings = _settings(context, properties)
    minutes = properties.get("TimeoutInMinutes")
    timeout = {} if minutes is None else {"TimeoutInMinutes": int(minutes)}
    name = context.generate_name(128)
    answer = context.call(
        "cloudformation",
        "CreateStack",
        {
            "StackName": name,
            # The outer stack deletes the rest of a nested stack that failed.
            "OnFailure": "DO_NOTHING",
            **timeout,
            **settings,
        },
    )
    context.note_made(answer["StackId"])
    stack = _wait_for_end(context, answer["StackId"])
    _check(stack, "CREATE_COMPLETE", "created")
    return _build_result(stack)


def _stack(context: Context, properties: Properties) -> str | None:
    """Return the stack with the generated name."""
    return str(_describe_stack(context, context.generate_name(128))["StackId"])


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    try:
        context.call(
            "cloudformation",
            "UpdateStack",
            {"StackName": physical_id, **_settings(context, new)},
        )
    except AwsError as error:
        if error.message != _NO_UPDATES:
            raise
        return _build_result(_describe_stack(context, physical_id))
    stack = _wait_for_end(context, physical_id)
    if stack["StackStatus"] == "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS":
        return _build_result(stack)
    _check(stack, "UPDATE_COMPLETE", "updated")
    return _build_result(stack)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    try:
        _wait_for_end(context, physical_id)
        context.call("cloudformation", "DeleteStack", {"StackName": physical_id})
        stack = _wait_for_end(context, physical_id)
    except AwsError as error:
        if error.code == "ValidationError" and "does not exist" in error.message:
            return
        raise
    _check(stack, "DELETE_COMPLETE", "deleted")


def _name_macro(context: Context, properties: Properties) -> ResourceResult:
    return ResourceResult(str(properties["Name"]))


def _find_macro(context: Context, properties: Properties) -> str | None:
    params = {"PhysicalResourceId": properties.get("Name")}
    try:
        resources = context.call("cloudformation", "DescribeStackResources", params)[
            "StackResources"
        ]
    except AwsError:
        return None
    there = any(
        resource["ResourceType"] == _MACRO
        and resource.get("PhysicalResourceId") == properties.get("Name")
        and resource["ResourceStatus"] != "DELETE_COMPLETE"
        for resource in resources
    )
    return str(properties["Name"]) if there else None


def _rename_nothing(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    return ResourceResult(physical_id)


def _forget(context: Context, physical_id: str, properties: Properties) -> None:
    """Do nothing: a macro exists only as a resource of its stack."""


TYPES = [
    ResourceType(
        _STACK,
        {
            **enforced("TemplateURL", "Parameters", "Tags", "NotificationARNs", "TimeoutInMinutes"),
        },
        _create,
        _delete,
        update=_update,
        made=_stack,
    ),
    ResourceType(
        _MACRO,
        {
            **enforced("Name", "FunctionName"),
            **stored("Description", "LogGroupName", "LogRoleARN"),
        },
        _name_macro,
        _forget,
        update=_rename_nothing,
        replace_on=frozenset({"Name"}),
        named_by=("Name",),
        find=_find_macro,
    ),
]
