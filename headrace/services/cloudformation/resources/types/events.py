"""EventBridge rules."""

from __future__ import annotations

import json
from typing import Any

from headrace.aws.calls.model import service_model
from headrace.core.values import listed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    stored,
)
from headrace.services.cloudformation.resources.values_to_api import Converter

GONE = "ResourceNotFoundException"


def _put(context: Context, name: str, properties: Properties) -> ResourceResult:
    params: dict[str, Any] = {
        key: properties[key]
        for key in ("Description", "EventBusName", "RoleArn", "ScheduleExpression", "State")
        if key in properties
    }
    if "EventPattern" in properties:
        # The pattern is an object or its JSON text (the schema allows both).
        pattern = properties["EventPattern"]
        params["EventPattern"] = pattern if isinstance(pattern, str) else json.dumps(pattern)
    arn = context.call("events", "PutRule", {"Name": name, **params})["RuleArn"]
    physical_id = _identified(name, properties)
    context.note_made(physical_id)
    targets = properties.get("Targets")
    if targets:
        where = _bus(properties)
        shape: Any = service_model("events").operation_model("PutTargets").input_shape
        # Some names differ between templates and the API, such as AwsVpcConfiguration.
        listed_targets = Converter().value(targets, shape.members["Targets"], "Targets")
        context.call("events", "PutTargets", {"Rule": name, "Targets": listed_targets, **where})
    return ResourceResult(physical_id, {"Arn": arn})


def _identified(name: str, properties: Properties) -> str:
    """Return a rule's physical id, which includes its bus unless that is the default one (recorded)."""
    bus = properties.get("EventBusName") or "default"
    return name if bus == "default" else f"{bus}|{name}"


def rule_name(physical_id: str) -> str:
    """Return the name in a rule's physical id."""
    return physical_id.rpartition("|")[2]


def _bus(properties: Properties) -> dict[str, str]:
    bus = properties.get("EventBusName")
    return {"EventBusName": bus} if bus else {}


def _find(context: Context, properties: Properties) -> str | None:
    name = properties.get("Name")
    identifier = _identified(str(name), properties) if name else None
    return context.found("events", "DescribeRule", {"Name": name, **_bus(properties)}, identifier)


def _create(context: Context, properties: Properties) -> ResourceResult:
    return _put(context, properties.get("Name") or context.generated_name(64), properties)


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    kept = {target["Id"] for target in listed(new, "Targets")}
    name = rule_name(physical_id)
    gone = [target["Id"] for target in listed(old, "Targets") if target["Id"] not in kept]
    if gone:
        context.call("events", "RemoveTargets", {"Rule": name, "Ids": gone, **_bus(old)})
    return _put(context, name, new)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    ids = [target["Id"] for target in listed(properties, "Targets")]
    where = _bus(properties)
    name = rule_name(physical_id)
    if ids:
        params = {"Rule": name, "Ids": ids, **where}
        context.delete_if_exists("events", "RemoveTargets", params, GONE)
    context.delete_if_exists("events", "DeleteRule", {"Name": name, **where}, GONE)


TYPES = [
    ResourceType(
        "AWS::Events::Rule",
        {
            **enforced(
                "Name", "EventBusName", "EventPattern", "ScheduleExpression", "State", "Targets"
            ),
            **stored("Description", "RoleArn"),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"Name", "EventBusName"}),
        named_by=("Name",),
        find=_find,
    )
]
