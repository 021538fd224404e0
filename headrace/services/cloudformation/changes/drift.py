"""Detects drift: compares a stack's live resources with the properties that the stack gave them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from headrace.aws.shapes.cloudformation import PropertyDifference
from headrace.core.system_tags import is_system
from headrace.services.cloudformation.changes import stack_tags
from headrace.services.cloudformation.ports import Ports
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import Context
from headrace.services.cloudformation.resources.declared_calls import TAGS
from headrace.services.cloudformation.resources.reading import ABSENT, as_wanted
from headrace.services.cloudformation.resources.values_to_api import tags_of
from headrace.services.cloudformation.state import Drift, Resource, Stack

# Statuses in which a stack's drift can be detected: .../using-cfn-stack-drift.html (documented).
CHECKED_IN = (
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE",
    "UPDATE_ROLLBACK_FAILED",
    "IMPORT_COMPLETE",
    "IMPORT_ROLLBACK_COMPLETE",
)
# What a difference shows for a missing value (observed by many).
_NOTHING = "null"


def about(stack: Stack, resource: Resource, status: str) -> Drift:
    """Return the members that every StackResourceDrift has."""
    return {
        "StackId": stack.stack_id,
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type,
        "StackResourceDriftStatus": status,
    }


def drift_of(ports: Ports, context: Context, stack: Stack, resource: Resource) -> Drift:
    """Return a resource's drift: a StackResourceDrift without its timestamp. Raises AwsError."""
    kind = resource_type(resource.type)
    if kind is None or kind.reading is None or not resource.physical_id:
        return about(stack, resource, "NOT_CHECKED")
    expected = resource.properties
    seen = kind.reading.read(context, resource.physical_id, expected)
    if seen is None:
        return {
            **about(stack, resource, "DELETED"),
            "ExpectedProperties": _json(expected),
        }
    if "Tags" in expected and stack_tags.follows(resource.type):
        seen["Tags"] = _tags(ports, stack, resource)
    for name in TAGS:
        if name in seen:
            seen[name] = _own(seen[name], expected.get(name), stack)
    compared = {name: value for name, value in expected.items() if name in seen}
    if not compared and expected:
        return about(stack, resource, "NOT_CHECKED")
    property_differences = list(differences(compared, seen))
    return {
        **about(stack, resource, "MODIFIED" if property_differences else "IN_SYNC"),
        "ExpectedProperties": _json(compared),
        "ActualProperties": _json(_present(seen)),
        "PropertyDifferences": property_differences,
    }


def _tags(ports: Ports, stack: Stack, resource: Resource) -> Any:
    """Return a resource's tags, in the form of its template."""
    tags = stack_tags.tags_now(ports, stack, resource)
    own = resource.properties["Tags"]
    names = stack_tags.all_tags({"Tags": own}, {})
    # The template's tags first, in its order.
    order = [*(k for k in names if k in tags), *(k for k in tags if k not in names)]
    rest = {k: tags[k] for k in order}
    if isinstance(own, Mapping):
        return rest
    return as_wanted(own, [{"Key": key, "Value": value} for key, value in rest.items()])


def _own(seen: Any, expected: Any, stack: Stack) -> Any:
    """Return the resource's own tags, without CloudFormation's and those of its stack."""
    named = tags_of(expected)

    def is_own(key: str, value: Any) -> bool:
        return key in named or not (is_system(key) or stack.tags.get(key) == value)

    if isinstance(seen, Mapping):
        tags = cast("Mapping[str, Any]", seen)
        return {key: value for key, value in tags.items() if is_own(key, value)}
    return [
        tag
        for tag in cast("list[Any]", seen)
        if not isinstance(tag, Mapping)
        or all(is_own(*pair) for pair in tags_of([cast("Any", tag)]).items())
    ]


def differences(expected: Any, seen: Any, path: str = "") -> Iterator[PropertyDifference]:
    """Yield the PropertyDifferences of two values; ABSENT stands for a missing value."""
    if isinstance(expected, dict) and isinstance(seen, dict):
        left, right = cast("dict[str, Any]", expected), cast("dict[str, Any]", seen)
        for name in [*left, *(item for item in right if item not in left)]:
            below = f"{path}/{name}"
            if name not in left:
                yield _difference(below, "ADD", ABSENT, right[name])
            else:
                yield from differences(left[name], right.get(name), below)
    elif isinstance(expected, list) and isinstance(seen, list):
        ones, others = cast("list[Any]", expected), cast("list[Any]", seen)
        for at in range(max(len(ones), len(others))):
            below = f"{path}/{at}"
            if at >= len(ones):
                yield _difference(below, "ADD", ABSENT, others[at])
            else:
                other = others[at] if at < len(others) else ABSENT
                yield from differences(ones[at], other, below)
    elif seen is ABSENT:
        yield _difference(path, "REMOVE", expected, ABSENT)
    elif expected != seen:
        yield _difference(path, "NOT_EQUAL", expected, seen)


def _difference(path: str, kind: str, expected: Any, seen: Any) -> PropertyDifference:
    return {
        "PropertyPath": path,
        "ExpectedValue": _text(expected),
        "ActualValue": _text(seen),
        "DifferenceType": kind,
    }


def _text(value: Any) -> str:
    if value is ABSENT:
        return _NOTHING
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)


def _present(value: Any) -> Any:
    """Return a value without its ABSENT members."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _present(item) for key, item in items if item is not ABSENT}
    if isinstance(value, list):
        return [_present(item) for item in cast("list[Any]", value) if item is not ABSENT]
    return value


def stack_status(drifts: Iterable[Drift]) -> str:
    """Return a stack's drift status, derived from its resources' statuses."""
    statuses = {drift["StackResourceDriftStatus"] for drift in drifts}
    return "DRIFTED" if statuses & {"MODIFIED", "DELETED"} else "IN_SYNC"


def count_drifted(drifts: Iterable[Drift]) -> int:
    """Return how many resources have drifted."""
    return sum(d["StackResourceDriftStatus"] in ("MODIFIED", "DELETED") for d in drifts)
