"""StackSets with self-managed permissions, and their instances, as resources of a stack."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from headrace.core.values import get_list, get_mapping
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


def _settings(context: Context, properties: Properties) -> dict[str, Any]:
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


def _create(context: Context, properties: Properties) -> ResourceResult:
    targets = _targets(properties)
    settings = _settings(context, properties)
    settings.update({name: properties[name] for name in _FOR_ORGANIZATIONS if name in properties})
    name = properties["StackSetName"]
    answer = context.call("cloudformation", "CreateStackSet", {"StackSetName": name, **settings})
    set_id = answer["StackSetId"]
    context.note_made(set_id)
    _change_instances(context, properties, set_id, {}, targets)
    return ResourceResult(set_id, {"StackSetId": set_id})


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    before, after = _targets(old), _targets(new)
    base = {"StackSetName": physical_id}
    changed = _settings(context, new)
    if changed != _settings(context, old):
        preferences = get_mapping(new, "OperationPreferences")
        _run(context, "UpdateStackSet", {**base, **changed, "OperationPreferences": preferences})
    _change_instances(context, new, physical_id, before, after)
    return ResourceResult(physical_id, {"StackSetId": physical_id})


def _find(context: Context, properties: Properties) -> str | None:
    name = properties["StackSetName"]
    answer = context.call("cloudformation", "DescribeStackSet", {"StackSetName": name})
    return str(answer["StackSet"]["StackSetId"])


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
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


TYPES = [
    ResourceType(
        "AWS::CloudFormation::StackSet",
        {
            **enforced("StackSetName", "Tags", _GROUPS, *_SETTINGS, *_FOR_ORGANIZATIONS),
            **stored("OperationPreferences"),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"StackSetName", "PermissionModel", "CallAs"}),
        named_by=("StackSetName",),
        made=_find,
    )
]
