"""The changes that a template would make to a stack, as change sets show them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.services.cloudformation import graph, limits
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.exports import Exports
from headrace.services.cloudformation.intrinsics import Scope, evaluate
from headrace.services.cloudformation.parameters import effective_values
from headrace.services.cloudformation.provision import check_operation_size
from headrace.services.cloudformation.references import all_dependencies
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import ResourceType, changed_properties
from headrace.services.cloudformation.scope import Lookups, decide, scope_of
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.template import Template
from headrace.services.cloudformation.template_checks import parse
from headrace.services.cloudformation.values import UNKNOWN, is_unknown, size_of

# Keys of a resource's definition that make a change even when no property differs.
_ATTRIBUTE_SCOPES = {
    "Metadata": "Metadata",
    "DeletionPolicy": "DeletionPolicy",
    "UpdateReplacePolicy": "UpdateReplacePolicy",
    "CreationPolicy": "CreationPolicy",
    "UpdatePolicy": "UpdatePolicy",
}


def resource_changes(
    lookups: Lookups, stack: Stack, template: Template, values: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the resource changes that a template would make to a stack. Raises TemplateError."""
    effective = effective_values(values)
    pending: set[str] = {name for name in template.resources if name not in stack.resources}
    scope = scope_of(
        lookups,
        stack,
        template,
        effective,
        stack.resources,
        later=pending.__contains__,
        imported=lambda name: _imported(lookups.exports, stack, name),
    )
    decide(template, scope)
    changed: dict[str, dict[str, Any]] = {}
    size_bytes = 0
    # Dependencies first: a replaced resource makes the resources that refer to it change too.
    for name in graph.in_order(all_dependencies(template)):
        definition = template.resources[name]
        if "Condition" in definition and not scope.condition(definition["Condition"]):
            continue
        properties = _evaluated(definition, scope)
        size_bytes += size_of(properties)
        check_operation_size(size_bytes)
        change = _change_of(stack, name, definition, properties)
        if change is None:
            continue
        changed[name] = change
        if change.get("Replacement") == "True":
            pending.add(name)
            scope.names[name] = UNKNOWN
    found = {name: changed[name] for name in template.resources if name in changed}
    kept = {
        name
        for name, resource in template.resources.items()
        if "Condition" not in resource or scope.condition(resource["Condition"])
    }
    for name, resource in stack.resources.items():
        if name not in kept:
            found[name] = _removed(resource)
    return [{"Type": "Resource", "ResourceChange": change} for change in found.values()]


def _imported(exports: Exports, stack: Stack, name: str) -> str:
    found = exports.all(stack.account, stack.region).get(name)
    if found is None:
        raise TemplateError(f"No export named {name} found.")
    return found[1]


def _evaluated(definition: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    scope.allowance_bytes = limits.PRODUCED_BYTES
    try:
        return evaluate(definition.get("Properties", {}), scope)
    except ResourceFailed as error:
        raise TemplateError(str(error)) from error


def _change_of(
    stack: Stack, name: str, definition: dict[str, Any], properties: dict[str, Any]
) -> dict[str, Any] | None:
    present = stack.resources.get(name)
    if present is None or not present.physical_id:
        return _added(name, definition["Type"], properties)
    kind = resource_type(definition["Type"])
    assert kind is not None
    return _modified(present, kind, properties, definition)


def _outputs_differ(old_body: str, template: Template) -> bool:
    """Whether a template's outputs differ from those of the stack's present template."""
    return not old_body or _canonical(parse(old_body).outputs) != _canonical(template.outputs)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def has_changes(
    stack: Stack, template: Template, found: list[dict[str, Any]], tags: Mapping[str, str]
) -> bool:
    """Whether an operation with this template would change the stack."""
    return bool(found) or dict(tags) != stack.tags or _outputs_differ(stack.body, template)


def _added(logical_id: str, kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the change of a new resource."""
    return {
        "Action": "Add",
        "LogicalResourceId": logical_id,
        "ResourceType": kind,
        "Scope": [],
        "Details": [],
        "AfterContext": _context(properties),
    }


def _removed(resource: Resource) -> dict[str, Any]:
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


def _modified(
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
