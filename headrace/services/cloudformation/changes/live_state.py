"""Reads the live state of a stack's resources, for change sets that revert drift (DeploymentMode REVERT_DRIFT).

Such a change set compares the template with the live resources, not with the last deployment. Executing it changes
resources that have drifted, creates missing ones again, and leaves alone those that already match the template. When it
fails, the resources return to their previous state, drift included. Source: the user guide's
drift-aware-change-sets.html; what a change says of a deleted resource is assumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.changes.drift import about, drift_of, stack_status
from headrace.services.cloudformation.ports import Ports
from headrace.services.cloudformation.resources.base import Context
from headrace.services.cloudformation.state import Drift, Resource, Stack

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
