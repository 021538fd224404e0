"""Types of CloudFormation that hold stacks: nested ones, macros, StackSets with self-managed permissions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.values import get_list, get_mapping
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    nothing_to_change,
    nothing_to_delete,
    stored,
    tag_list,
)

_GROUPS = "StackInstancesGroup"
_SETTINGS = (
    "Description",
    "TemplateBody",
    "TemplateURL",
    "Parameters",
    "Capabilities",
    "AdministrationRoleARN",
    "ExecutionRoleName",
    "ManagedExecution",
)
# What CreateStackSet refuses by name.
_FOR_ORGANIZATIONS = ("PermissionModel", "AutoDeployment", "CallAs")
# (account, region) -> the overrides of parameters there, as JSON.
Targets = dict[tuple[str, str], str]


def _stack_set_settings(context: Context, properties: Properties) -> dict[str, Any]:
    settings = {name: properties[name] for name in _SETTINGS if name in properties}
    # Without the system tags: each instance's stack puts its own on its resources.
    if tags := tag_list(properties, replace(context, system_tags={})):
        settings["Tags"] = tags
    return settings


def _targets(properties: Mapping[str, Any]) -> Targets:
    targets: Targets = {}
    for group in get_list(properties, _GROUPS):
        deployed = get_mapping(group, "DeploymentTargets")
        if deployed.get("OrganizationalUnitIds"):
            raise ResourceFailed(
                "headrace has StackSets with self-managed permissions only: organizational units need AWS Organizations"
            )
        overrides = json.dumps(get_list(group, "ParameterOverrides"), sort_keys=True)
        for account in get_list(deployed, "Accounts"):
            targets.update({(str(account), str(r)): overrides for r in get_list(group, "Regions")})
    return targets


def _batches(targets: Targets) -> Iterator[dict[str, Any]]:
    """Yield the members of a request for each set of overrides and each account."""
    for account, overrides in sorted({(key[0], value) for key, value in targets.items()}):
        regions = [
            key[1] for key, value in targets.items() if (key[0], value) == (account, overrides)
        ]
        yield {
            "Accounts": [account],
            "Regions": regions,
            "ParameterOverrides": json.loads(overrides),
        }


def _run(context: Context, operation: str, params: Mapping[str, Any]) -> None:
    """Start an operation and wait for its end. Raises ResourceFailed, Cancelled, AwsError."""
    name = params["StackSetName"]
    answer = context.call("cloudformation", operation, params)
    named = {"StackSetName": name, "OperationId": answer["OperationId"]}
    while True:
        described = context.call("cloudformation", "DescribeStackSetOperation", named)
        status = described["StackSetOperation"]["Status"]
        if status not in ("RUNNING", "STOPPING", "QUEUED"):
            break
        context.pause(_LOOK_EVERY_S)
    if status != "SUCCEEDED":
        results = context.call("cloudformation", "ListStackSetOperationResults", named)
        reasons = [r["StatusReason"] for r in results["Summaries"] if r["Status"] == "FAILED"]
        raise ResourceFailed(
            f"Operation {answer['OperationId']} of StackSet {name} is {status}: {'; '.join(reasons)}"
        )


def _change_instances(
    context: Context, properties: Properties, set_id: str, before: Targets, after: Targets
) -> None:
    """Delete, create and change the instances that differ."""
    base = {
        "StackSetName": set_id,
        "OperationPreferences": get_mapping(properties, "OperationPreferences"),
    }
    gone = {key: value for key, value in before.items() if key not in after}
    new = {key: value for key, value in after.items() if key not in before}
    other = {key: v for key, v in after.items() if key in before and before[key] != v}
    for batch in _batches(gone):
        del batch["ParameterOverrides"]
        _run(context, "DeleteStackInstances", {**base, **batch, "RetainStacks": False})
    for batch in _batches(new):
        _run(context, "CreateStackInstances", {**base, **batch})
    for batch in _batches(other):
        _run(context, "UpdateStackInstances", {**base, **batch})


def _create_stack_set(context: Context, properties: Properties) -> ResourceResult:
    targets = _targets(properties)
    settings = _stack_set_settings(context, properties)
    settings.update({name: properties[name] for name in _FOR_ORGANIZATIONS if name in properties})
    name = properties["StackSetName"]
    answer = context.call("cloudformation", "CreateStackSet", {"StackSetName": name, **settings})
    set_id = answer["StackSetId"]
    context.note_made(set_id)
    _change_instances(context, properties, set_id, {}, targets)
    return ResourceResult(set_id, {"StackSetId": set_id})


def _update_stack_set(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    before, after = _targets(old), _targets(new)
    base = {"StackSetName": physical_id}
    changed = _stack_set_settings(context, new)
    if changed != _stack_set_settings(context, old):
        preferences = get_mapping(new, "OperationPreferences")
        _run(context, "UpdateStackSet", {**base, **changed, "OperationPreferences": preferences})
    _change_instances(context, new, physical_id, before, after)
    return ResourceResult(physical_id, {"StackSetId": physical_id})


def _find(context: Context, properties: Properties) -> str | None:
    name = properties["StackSetName"]
    answer = context.call("cloudformation", "DescribeStackSet", {"StackSetName": name})
    return str(answer["StackSet"]["StackSetId"])


def _delete_stack_set(context: Context, physical_id: str, properties: Properties) -> None:
    named = {"StackSetName": physical_id}
    if context.find_identifier("cloudformation", "DescribeStackSet", named, physical_id) is None:
        return
    while True:
        rows = context.call("cloudformation", "ListStackSetOperations", named)["Summaries"]
        if not any(row["Status"] in ("RUNNING", "STOPPING") for row in rows):
            break
        context.pause(_LOOK_EVERY_S)
    # The first page until nothing is left.
    while rows := context.call("cloudformation", "ListStackInstances", named)["Summaries"]:
        present = {(row["Account"], row["Region"]): "[]" for row in rows}
        _change_instances(context, properties, physical_id, present, {})
    context.delete_if_exists("cloudformation", "DeleteStackSet", named, "StackSetNotFoundException")


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
        answers=True,
    ),
    ResourceType(
        _MACRO,
        {
            **enforced("Name", "FunctionName"),
            **stored("Description", "LogGroupName", "LogRoleARN"),
        },
        _name_macro,
        # A macro exists only as a resource of its stack.
        nothing_to_delete,
        update=nothing_to_change,
        replace_on=frozenset({"Name"}),
        named_by=("Name",),
        find=_find_macro,
    ),
    ResourceType(
        "AWS::CloudFormation::StackSet",
        {
            **enforced("StackSetName", "Tags", _GROUPS, *_SETTINGS, *_FOR_ORGANIZATIONS),
            **stored("OperationPreferences"),
        },
        _create_stack_set,
        _delete_stack_set,
        update=_update_stack_set,
        replace_on=frozenset({"StackSetName", "PermissionModel", "CallAs"}),
        named_by=("StackSetName",),
        made=_find,
    ),
]
