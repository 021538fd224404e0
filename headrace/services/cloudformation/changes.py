"""What an update would change: the resource changes of a change set. Pure functions over evaluated properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.services.cloudformation.intrinsics import is_unknown
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.state import Resource

# Keys of a resource's definition whose change is a change although no property differs.
_ATTRIBUTE_SCOPES = {
    "Metadata": "Metadata",
    "DeletionPolicy": "DeletionPolicy",
    "UpdateReplacePolicy": "UpdateReplacePolicy",
    "CreationPolicy": "CreationPolicy",
    "UpdatePolicy": "UpdatePolicy",
}


def added(logical_id: str, kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the change of a new resource."""
    return {
        "Action": "Add",
        "LogicalResourceId": logical_id,
        "ResourceType": kind,
        "Scope": [],
        "Details": [],
        "AfterContext": _context(properties),
    }


def removed(resource: Resource) -> dict[str, Any]:
    """Return the change of a resource that the new template does not have."""
    change: dict[str, Any] = {
        "Action": "Remove",
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type,
        "Scope": [],
        "Details": [],
        "BeforeContext": _context(resource.properties),
    }
    change["PolicyAction"] = (
        "Retain" if resource.deletion_policy in ("Retain", "RetainExceptOnCreate") else "Delete"
    )
    return change


def modified(
    resource: Resource, kind: ResourceType, properties: dict[str, Any], definition: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the change of a resource that both templates have, or None."""
    names = changed_properties(resource.properties, properties)
    scopes = [
        scope
        for key, scope in _ATTRIBUTE_SCOPES.items()
        if resource.definition.get(key) != definition.get(key)
    ]
    if not names and not scopes:
        return None
    replacing = [name for name in names if kind.replaces(name)]
    certain = [name for name in replacing if not is_unknown(properties.get(name))]
    replacement = "True" if certain else "Conditional" if replacing else "False"
    change: dict[str, Any] = {
        "Action": "Modify",
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type,
        "Replacement": replacement,
        "Scope": [*(["Properties"] if names else []), *scopes],
        "Details": [
            _detail(name, resource.properties, properties, replaces=name in replacing)
            for name in names
        ],
        "BeforeContext": _context(resource.properties),
        "AfterContext": _context(properties),
    }
    if replacement == "True":
        retained = resource.replace_policy in ("Retain", "RetainExceptOnCreate")
        change["PolicyAction"] = "ReplaceAndRetain" if retained else "ReplaceAndDelete"
    return change


def changed_properties(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of top-level properties that differ, in order."""
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def _detail(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], *, replaces: bool
) -> dict[str, Any]:
    later = is_unknown(after.get(name))
    kind = "Add" if name not in before else "Remove" if name not in after else "Modify"
    recreation = "Never"
    if replaces:
        recreation = "Conditionally" if later else "Always"
    target: dict[str, Any] = {
        "Attribute": "Properties",
        "Name": name,
        "Path": f"/Properties/{name}",
        "RequiresRecreation": recreation,
        "AttributeChangeType": kind,
    }
    if name in before:
        target["BeforeValue"] = _text(before[name])
    if name in after:
        target["AfterValue"] = _text(after[name])
    return {
        "Target": target,
        "Evaluation": "Dynamic" if later else "Static",
        "ChangeSource": "ResourceReference" if later else "DirectModification",
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _context(properties: Mapping[str, Any]) -> str:
    return json.dumps({"Properties": properties}, separators=(",", ":"))
