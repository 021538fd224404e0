"""Reads the live state of a stack's resources, for change sets that revert drift (DeploymentMode REVERT_DRIFT).

Such a change set compares the template with the live resources, not with the last deployment. Executing it changes
resources that have drifted, creates missing ones again, and leaves alone those that already match the template. When it
fails, the resources return to their previous state, drift included. Source: the user guide's
drift-aware-change-sets.html; what a change says of a deleted resource is assumed.

Detects drift: compares a stack's live resources with the properties that the stack gave them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.shapes.cloudformation import PropertyDifference
from headrace.core.system_tags import is_system
from headrace.services.cloudformation.changes import stack_tags
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import Context, Ports
from headrace.services.cloudformation.resources.declaration import tags_of
from headrace.services.cloudformation.resources.declared_calls import TAGS
from headrace.services.cloudformation.resources.reading import ABSENT, as_wanted
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
# Properties that differ in no more than capitals are in sync: `$lowercase` of `propertyTransform` in AWS's schemas
# (github.com/aws-cloudformation/aws-cloudformation-resource-providers-rds; OptionGroup's EngineName is not there).
_ANY_CASE: Mapping[str, frozenset[str]] = {
    "AWS::RDS::DBInstance": frozenset(
        {
            "DBClusterSnapshotIdentifier",
            "DBInstanceIdentifier",
            "DBParameterGroupName",
            "DBSnapshotIdentifier",
            "DBSubnetGroupName",
            "Engine",
            "OptionGroupName",
        }
    ),
    "AWS::RDS::DBCluster": frozenset(
        {
            "DBClusterIdentifier",
            "DBClusterParameterGroupName",
            "DBSubnetGroupName",
            "Engine",
        }
    ),
    "AWS::RDS::OptionGroup": frozenset({"OptionGroupName"}),
}
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
    for name in _ANY_CASE.get(resource.type, frozenset()) & expected.keys() & seen.keys():
        if str(seen[name]).lower() == str(expected[name]).lower():
            seen[name] = expected[name]
    for name in TAGS:
        if name in seen:
            seen[name] = _own(seen[name], expected.get(name), stack)
    compared = {name: value for name, value in expected.items() if name in seen}
    for path in kind.dropped(expected) if kind.dropped is not None else ():
        names = re.sub(r"\[\d+\]", "", path).split(".")
        compared, seen = _without(compared, names), _without(seen, names)  # said elsewhere
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


def _without(value: Any, path: list[str]) -> Any:
    """Return a copy without the member at a path, in each item of a list."""
    if isinstance(value, list):
        return [_without(item, path) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members, (name, *rest) = cast("dict[str, Any]", value), path
    if not rest:
        return {key: item for key, item in members.items() if key != name}
    return {key: _without(item, rest) if key == name else item for key, item in members.items()}


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
        "ExpectedValue": _text_drift(expected),
        "ActualValue": _text_drift(seen),
        "DifferenceType": kind,
    }


def _text_drift(value: Any) -> str:
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


Change = dict[str, Any]
_DEPLOYED = ("physical_id", "properties", "attributes")


@dataclass(frozen=True, slots=True)
class LiveState:
    """The live state that was read of a stack's resources.

    Attributes:
        drifts: a StackResourceDrift for each resource; its status is UNKNOWN where a service refused the read.
        read_ms: when the state was read.
    """

    drifts: dict[str, Drift] = field(default_factory=dict[str, Drift])
    read_ms: int = 0

    @property
    def status(self) -> str:
        """The stack's drift status."""
        status = stack_status(list(self.drifts.values()))
        unknown = any(d["StackResourceDriftStatus"] == "UNKNOWN" for d in self.drifts.values())
        return "UNKNOWN" if unknown and status == "IN_SYNC" else status

    def properties(self, resource: Resource) -> dict[str, Any] | None:
        """Return a resource's live properties; None: it is deleted."""
        drift = self.drifts.get(resource.logical_id)
        if drift is None:
            return resource.properties
        match drift["StackResourceDriftStatus"]:
            case "DELETED":
                return None
            case "MODIFIED":
                actual: dict[str, Any] = json.loads(drift.get("ActualProperties", "{}"))
                names = _list_drifted(drift)
                kept = {k: v for k, v in resource.properties.items() if k not in names}
                return {**kept, **{name: actual[name] for name in names if name in actual}}
            case _:
                return resource.properties

    def of(self, stack: Stack) -> Stack:
        """Return a copy of a stack with its live resources; deleted ones are left out."""
        properties_by_name = {
            name: self.properties(resource) for name, resource in stack.resources.items()
        }
        resources = {
            name: replace(stack.resources[name], properties=properties)
            for name, properties in properties_by_name.items()
            if properties is not None
        }
        return replace(stack, resources=resources)

    def changes(self, stack: Stack, changes: list[Change]) -> list[Change]:
        """Return a change set's changes with their drift, and the changes that only record the live state."""
        shown = [self._add_drift(stack, change) for change in changes]
        changed = {change["LogicalResourceId"] for change in changes}
        return [
            *shown,
            *(
                _sync(stack.resources[name], drift)
                for name, drift in self.drifts.items()
                if drift["StackResourceDriftStatus"] == "MODIFIED" and name not in changed
            ),
        ]

    def _add_drift(self, stack: Stack, change: Change) -> Change:
        drift = self.drifts.get(change["LogicalResourceId"])
        if drift is None:
            return change
        resource = stack.resources[change["LogicalResourceId"]]
        status = _status(drift)
        details = [self._detail(detail, resource, drift) for detail in change["Details"]]
        return {
            **change,
            "ResourceDriftStatus": status,
            "Details": details,
            "PreviousDeploymentContext": json.dumps({"Properties": resource.properties}),
        }

    def _detail(self, detail: Change, resource: Resource, drift: Drift) -> Change:
        target = detail["Target"]
        if target["Attribute"] != "Properties":
            return detail
        name = target["Name"]
        is_read = drift["StackResourceDriftStatus"] in ("IN_SYNC", "MODIFIED")
        state: dict[str, Any] = {
            "BeforeValueFrom": "ACTUAL_STATE" if is_read else "PREVIOUS_DEPLOYMENT_STATE",
            "AfterValueFrom": "TEMPLATE",
        }
        if name in _list_drifted(drift):
            actual = json.loads(drift.get("ActualProperties", "{}")).get(name)
            state["Drift"] = {
                "PreviousValue": _text(resource.properties.get(name)),
                "ActualValue": _text(actual),
                # In milliseconds: see `moments`.
                "DriftDetectionTimestamp": self.read_ms,
            }
        return {**detail, "Target": {**target, **state}}


def live_state(
    ports: Ports, context: Callable[[Stack, Resource], Context], stack: Stack, now_ms: int
) -> LiveState:
    """Read a stack's resources; UNKNOWN where a service refuses. The caller does not hold the stacks' lock."""
    drifts: dict[str, Drift] = {}
    for name, resource in list(stack.resources.items()):
        try:
            drifts[name] = drift_of(ports, context(stack, resource), stack, resource)
        except AwsError:
            drifts[name] = about(stack, resource, "UNKNOWN")
    return LiveState(drifts, now_ms)


def take_over(stack: Stack, live: Mapping[str, Any]) -> dict[str, Any]:
    """Set a stack's resources to the live state that a change set found; a rollback restores this state.

    `live` has the properties of each resource that has drifted; None: it is deleted. Returns the replaced values, for
    `give_back`.
    """
    deployed: dict[str, Any] = {}
    for name, properties in live.items():
        resource = stack.resources.get(name)
        if resource is None:
            continue
        deployed[name] = {field_name: getattr(resource, field_name) for field_name in _DEPLOYED}
        if properties is None:
            resource.physical_id, resource.attributes = "", {}
        else:
            resource.properties = properties
    return deployed


def give_back(resources: Mapping[str, Resource], deployed: Mapping[str, Any]) -> None:
    """Set restored resources back to the values of the last deployment after a rollback, so that they show drift."""
    for name, values in deployed.items():
        for field_name, value in values.items():
            setattr(resources[name], field_name, value)


def _list_drifted(drift: Drift) -> set[str]:
    """Return the names of the top-level properties that differ."""
    return {
        difference["PropertyPath"].split("/")[1]
        for difference in drift.get("PropertyDifferences", ())
    }


def _status(drift: Drift) -> str:
    status = str(drift["StackResourceDriftStatus"])
    return "UNSUPPORTED" if status == "NOT_CHECKED" else status


def _sync(resource: Resource, drift: Drift) -> Change:
    """Return the change of a resource that already matches the template: nothing is done to it."""
    return {
        "Action": "SyncWithActual",
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type,
        "Scope": [],
        "Details": [],
        "ResourceDriftStatus": _status(drift),
        "PreviousDeploymentContext": json.dumps({"Properties": resource.properties}),
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
