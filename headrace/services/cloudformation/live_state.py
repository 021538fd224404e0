"""Reads the present state of a stack's resources, for change sets that revert drift (DeploymentMode REVERT_DRIFT).

Such a change set compares the template with the resources as they are, not with the last deployment; carried out, it
changes what has drifted, makes what is gone again, and leaves alone what the template now says as it is. When it fails,
the resources become what they were before, drift and all. Source: the user guide's drift-aware-change-sets.html; what
a change says of a resource that is gone is assumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.aws.errors import AwsError
from headrace.services.cloudformation.drift import about, drift_of, stack_status
from headrace.services.cloudformation.ports import Ports
from headrace.services.cloudformation.resources.base import Context
from headrace.services.cloudformation.state import Drift, Resource, Stack

Change = dict[str, Any]
_DEPLOYED = ("physical_id", "properties", "attributes")


@dataclass(frozen=True, slots=True)
class LiveState:
    """What was read of a stack's resources.

    Attributes:
        drifts: a StackResourceDrift of each resource; its status is UNKNOWN where a service refused to tell.
        read_ms: when.
    """

    drifts: dict[str, Drift] = field(default_factory=dict[str, Drift])
    read_ms: int = 0

    @property
    def status(self) -> str:
        """The stack's drift status."""
        found = stack_status(list(self.drifts.values()))
        unknown = any(d["StackResourceDriftStatus"] == "UNKNOWN" for d in self.drifts.values())
        return "UNKNOWN" if unknown and found == "IN_SYNC" else found

    def properties(self, resource: Resource) -> dict[str, Any] | None:
        """Return a resource's properties as they are; None: it is gone."""
        drift = self.drifts.get(resource.logical_id)
        if drift is None:
            return resource.properties
        match drift["StackResourceDriftStatus"]:
            case "DELETED":
                return None
            case "MODIFIED":
                actual: dict[str, Any] = json.loads(drift.get("ActualProperties", "{}"))
                names = _drifted_in(drift)
                kept = {k: v for k, v in resource.properties.items() if k not in names}
                return {**kept, **{name: actual[name] for name in names if name in actual}}
            case _:
                return resource.properties

    def of(self, stack: Stack) -> Stack:
        """Return a copy of a stack whose resources are what they are now; those that are gone are not there."""
        found = {name: self.properties(each) for name, each in stack.resources.items()}
        resources = {
            name: replace(stack.resources[name], properties=properties)
            for name, properties in found.items()
            if properties is not None
        }
        return replace(stack, resources=resources)

    def changes(self, stack: Stack, changes: list[Change]) -> list[Change]:
        """Return the changes of a change set with what is said of drift, and those that only take note of it."""
        shown = [self._shown(stack, change) for change in changes]
        changed = {change["LogicalResourceId"] for change in changes}
        return [
            *shown,
            *(
                _sync(stack.resources[name], drift)
                for name, drift in self.drifts.items()
                if drift["StackResourceDriftStatus"] == "MODIFIED" and name not in changed
            ),
        ]

    def _shown(self, stack: Stack, change: Change) -> Change:
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
        if name in _drifted_in(drift):
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
    """Read a stack's resources; those whose service refuses are UNKNOWN. The caller does not hold the stacks' lock."""
    drifts: dict[str, Drift] = {}
    for name, resource in list(stack.resources.items()):
        try:
            drifts[name] = drift_of(ports, context(stack, resource), stack, resource)
        except AwsError:
            drifts[name] = about(stack, resource, "UNKNOWN")
    return LiveState(drifts, now_ms)


def take_over(stack: Stack, live: Mapping[str, Any]) -> dict[str, Any]:
    """Have a stack's resources be what a change set found them to be: what it changes, and what a rollback restores.

    `live` has the properties of each that has drifted; None: it is gone. Returns what the stack had of these, for
    `give_back`.
    """
    deployed: dict[str, Any] = {}
    for name, properties in live.items():
        resource = stack.resources.get(name)
        if resource is None:
            continue
        deployed[name] = {each: getattr(resource, each) for each in _DEPLOYED}
        if properties is None:
            resource.physical_id, resource.attributes = "", {}
        else:
            resource.properties = properties
    return deployed


def give_back(resources: Mapping[str, Resource], deployed: Mapping[str, Any]) -> None:
    """Have resources that a rollback restored say again what the last deployment made of them: they drift."""
    for name, values in deployed.items():
        for each, value in values.items():
            setattr(resources[name], each, value)


def _drifted_in(drift: Drift) -> set[str]:
    """Return the names of the top-level properties that differ."""
    return {each["PropertyPath"].split("/")[1] for each in drift.get("PropertyDifferences", ())}


def _status(drift: Drift) -> str:
    found = str(drift["StackResourceDriftStatus"])
    return "UNSUPPORTED" if found == "NOT_CHECKED" else found


def _sync(resource: Resource, drift: Drift) -> Change:
    """Return the change of a resource that the template now describes as it is: nothing is done to it."""
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
