"""Describes and lists stacks, their events, resources, exports and drift."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.values import get_list, moment, present
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.changes import live_state
from headrace.services.cloudformation.errors import (
    PAGE_ITEMS,
    stack_not_found,
    validation_error,
)
from headrace.services.cloudformation.state import (
    STACK_TYPE,
    DetectedDrift,
    DriftDetection,
    ParameterValue,
    Resource,
    Stack,
)
from headrace.services.cloudformation.template.parameters import HIDDEN

MAX_ID = 1 << 62
# The digits of MAX_ID: a longer token is invalid.
_TOKEN_DIGITS = 19


def tag_list(tags: Mapping[str, str]) -> list[shapes.Tag]:
    """Return tags in the API's form."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def parameter_list(values: Mapping[str, ParameterValue]) -> list[shapes.Parameter]:
    """Return parameters in the API's form; the values of NoEcho parameters are hidden."""
    rows: list[shapes.Parameter] = []
    for name, value in values.items():
        row: shapes.Parameter = {
            "ParameterKey": name,
            "ParameterValue": HIDDEN if value["no_echo"] else value["value"],
        }
        resolved = value.get("resolved")
        if resolved is not None:
            row["ResolvedValue"] = resolved
        rows.append(row)
    return rows


def start_of(token: str | None, first: int = 0) -> int:
    """Return the offset that a NextToken holds. Raises AwsError when it holds none."""
    if not token:
        return first
    if not (token.isascii() and token.isdigit() and len(token) < _TOKEN_DIGITS):
        raise validation_error("The specified NextToken is invalid.")  # assumed
    return int(token)


def _description(stack: Stack) -> shapes.Stack:
    return present(
        {
            "StackId": stack.stack_id,
            "StackName": stack.name,
            "ChangeSetId": (stack.change_set_id if stack.exists else None) or None,
            "Description": stack.description or None,
            "Parameters": parameter_list(stack.parameters) or None,
            "CreationTime": moment(stack.created_ms),
            "DeletionTime": None if stack.deleted_ms is None else moment(stack.deleted_ms),
            "LastUpdatedTime": None if stack.updated_ms is None else moment(stack.updated_ms),
            "RollbackConfiguration": stack.rollback_configuration,
            "StackStatus": stack.status,
            "StackStatusReason": stack.reason or None,
            "DisableRollback": stack.disable_rollback,
            "NotificationARNs": stack.notification_arns,
            "TimeoutInMinutes": stack.timeout_minutes or None,
            "Capabilities": stack.capabilities or None,
            "Outputs": stack.outputs or None,
            "RoleARN": stack.role_arn or None,
            "Tags": tag_list(stack.tags),
            "EnableTerminationProtection": stack.termination_protection if stack.exists else None,
            "DriftInformation": _drift(stack),
        }
    )


def _drift(stack: Stack) -> shapes.StackDriftInformation:
    if stack.drift_checked_ms is None:
        return {"StackDriftStatus": "NOT_CHECKED"}
    return {
        "StackDriftStatus": stack.drift_status,
        "LastCheckTimestamp": moment(stack.drift_checked_ms),
    }


def _resource_drift(resource: Resource) -> shapes.StackResourceDriftInformation:
    drift = resource.drift
    if not drift or drift["StackResourceDriftStatus"] == "NOT_CHECKED":
        return {"StackResourceDriftStatus": "NOT_CHECKED"}
    return {
        "StackResourceDriftStatus": drift["StackResourceDriftStatus"],
        "LastCheckTimestamp": moment(drift["Timestamp"]),
    }


def _add_parents(stack: Stack, outer: Mapping[str, Stack]) -> shapes.Stack:
    """Return a stack's description; a nested stack's has ParentId and RootId."""
    description = _description(stack)
    parent = root = outer.get(stack.stack_id)
    if parent is None or root is None:
        return description
    while root.stack_id in outer:
        root = outer[root.stack_id]
    parents = {"ParentId": parent.stack_id, "RootId": root.stack_id}
    return cast("shapes.Stack", {**description, **parents})


@operation("DescribeStacks")
def describe_stacks(
    cfn: CloudFormation, call: Call, request: shapes.DescribeStacksInput
) -> shapes.DescribeStacksOutput:
    """Return one stack, or all that have not been deleted. Source: API_DescribeStacks."""
    nested = cfn.stacks.resources_of_type(call.account, call.region, STACK_TYPE)
    outer = {resource.physical_id: stack for stack, resource in nested}
    name = request.get("StackName")
    if name:
        stack = cfn.find_stack(call, name, stack_not_found)
        return {"Stacks": [_add_parents(stack, outer)]}
    return {
        "Stacks": [
            _add_parents(stack, outer)
            for stack in cfn.stacks.all(call.account, call.region)
            if stack.exists
        ]
    }


@operation("DescribeStackEvents")
def describe_stack_events(
    cfn: CloudFormation, call: Call, request: shapes.DescribeStackEventsInput
) -> shapes.DescribeStackEventsOutput:
    """Return a page of a stack's events, the newest first. Source: API_DescribeStackEvents."""
    if not request.get("StackName"):
        raise validation_error(
            "1 validation error detected: Value null at 'stackName' failed to satisfy constraint: Member must not be"
            " null"
        )
    stack = cfn.find_stack(call, request["StackName"])
    rows = cfn.stacks.events(
        stack.stack_id, start_of(request.get("NextToken"), MAX_ID), PAGE_ITEMS + 1
    )
    events: list[shapes.StackEvent] = []
    for _, event in rows[:PAGE_ITEMS]:
        row = {**event, "Timestamp": moment(event["Timestamp"])}
        properties = row.pop("ResourceProperties", None)
        if properties is not None and row["ResourceType"] != STACK_TYPE:
            row["ResourceProperties"] = json.dumps(properties, separators=(",", ":"))
        if not row["ResourceStatusReason"]:
            del row["ResourceStatusReason"]
        events.append(cast("shapes.StackEvent", row))
    answer: shapes.DescribeStackEventsOutput = {"StackEvents": events}
    if len(rows) > PAGE_ITEMS:
        answer["NextToken"] = str(rows[PAGE_ITEMS - 1][0])
    return answer


def _resource(resource: Resource) -> shapes.StackResourceSummary:
    value: shapes.StackResourceSummary = {
        "LogicalResourceId": resource.logical_id,
        "ResourceType": resource.type,
        "LastUpdatedTimestamp": moment(resource.updated_ms),
        "ResourceStatus": resource.status,
        "DriftInformation": _resource_drift(resource),
    }
    if resource.physical_id:
        value["PhysicalResourceId"] = resource.physical_id
    if resource.reason:
        value["ResourceStatusReason"] = resource.reason
    return value


def _stack_resource(stack: Stack, resource: Resource) -> shapes.StackResource:
    value: dict[str, Any] = dict(_resource(resource))
    value["Timestamp"] = value.pop("LastUpdatedTimestamp")
    return cast(
        "shapes.StackResource", {"StackName": stack.name, "StackId": stack.stack_id, **value}
    )


@operation("DescribeStackResources")
def describe_stack_resources(
    cfn: CloudFormation, call: Call, request: shapes.DescribeStackResourcesInput
) -> shapes.DescribeStackResourcesOutput:
    """Return a stack's resources, or one. Source: API_DescribeStackResources."""
    physical = request.get("PhysicalResourceId")
    name = request.get("StackName")
    if name:
        stack = cfn.find_stack(call, name, stack_not_found)
    else:
        stack = next(
            (
                candidate
                # An existing stack is preferred to a deleted one that had the same resource.
                for candidate in sorted(
                    cfn.stacks.all(call.account, call.region), key=lambda s: not s.exists
                )
                if any(r.physical_id == physical for r in list(candidate.resources.values()))
            ),
            None,
        )
        if stack is None:
            raise validation_error(f"Stack for {physical} does not exist")
    asked_id = request.get("LogicalResourceId")
    return {
        "StackResources": [
            _stack_resource(stack, resource)
            for logical_id, resource in list(stack.resources.items())
            if asked_id in (None, logical_id) and physical in (None, resource.physical_id)
        ]
    }


@operation("DescribeStackResource")
def describe_stack_resource(
    cfn: CloudFormation, call: Call, request: shapes.DescribeStackResourceInput
) -> shapes.DescribeStackResourceOutput:
    """Return one resource of a stack. Source: API_DescribeStackResource."""
    stack = cfn.stacks.find(call.account, call.region, request["StackName"])
    if stack is None:
        raise validation_error(f"Stack '{request['StackName']}' does not exist")
    resource = stack.resources.get(request["LogicalResourceId"])
    if resource is None:
        raise validation_error(
            f"Resource {request['LogicalResourceId']} does not exist for stack {request['StackName']}"
        )
    return {
        "StackResourceDetail": {
            "StackName": stack.name,
            "StackId": stack.stack_id,
            "Metadata": json.dumps(
                resource.metadata
            ),  # recorded: an empty object when the resource has no metadata
            **_resource(resource),
        }
    }


@operation("ListStackResources")
def list_stack_resources(
    cfn: CloudFormation, call: Call, request: shapes.ListStackResourcesInput
) -> shapes.ListStackResourcesOutput:
    """Return a stack's resources in brief. Source: API_ListStackResources."""
    stack = cfn.find_stack(call, request["StackName"], stack_not_found)
    return {
        "StackResourceSummaries": [
            _resource(resource) for resource in list(stack.resources.values())
        ]
    }


@operation("ListStacks")
def list_stacks(
    cfn: CloudFormation, call: Call, request: shapes.ListStacksInput
) -> shapes.ListStacksOutput:
    """Return all stacks in brief, deleted ones too. Source: API_ListStacks."""
    statuses = get_list(request, "StackStatusFilter")
    summaries: list[shapes.StackSummary] = []
    for stack in cfn.stacks.all(call.account, call.region):
        if statuses and stack.status not in statuses:
            continue
        summary: shapes.StackSummary = present(
            {
                "StackId": stack.stack_id,
                "StackName": stack.name,
                "TemplateDescription": stack.description or None,
                "CreationTime": moment(stack.created_ms),
                "LastUpdatedTime": None if stack.updated_ms is None else moment(stack.updated_ms),
                "DeletionTime": None if stack.deleted_ms is None else moment(stack.deleted_ms),
                "StackStatus": stack.status,
                "StackStatusReason": stack.reason or None,
                "DriftInformation": _drift(stack),
            }
        )
        summaries.append(summary)
    return {"StackSummaries": summaries}


@operation("ListExports")
def list_exports(
    cfn: CloudFormation, call: Call, request: shapes.ListExportsInput
) -> shapes.ListExportsOutput:
    """Return the account's exports. Source: API_ListExports."""
    return {
        "Exports": [
            {"ExportingStackId": stack.stack_id, "Name": name, "Value": value}
            for name, (stack, value) in sorted(cfn.exports.all(call.account, call.region).items())
        ]
    }


@operation("ListImports")
def list_imports(
    cfn: CloudFormation, call: Call, request: shapes.ListImportsInput
) -> shapes.ListImportsOutput:
    """Return the stacks that use an export. Source: API_ListImports."""
    name = request["ExportName"]
    users = [
        stack.name
        for stack in cfn.stacks.all(call.account, call.region)
        if stack.exists and name in stack.imports
    ]
    if not users:
        raise validation_error(f"Export '{name}' is not imported by any stack.")
    return {"Imports": users}


def _checkable(cfn: CloudFormation, call: Call, name: str) -> Stack:
    """Return a stack that is in a status in which drift can be detected. Raises AwsError."""
    stack = cfn.find_live_stack(call, name)
    if stack.status not in live_state.CHECKED_IN:  # observed
        raise validation_error(
            f"Drift detection cannot be performed on stack [{stack.stack_id}] while it is in [{stack.status}] state"
        )
    return stack


def _find_resource(stack: Stack, logical_id: str) -> Resource:
    resource = stack.resources.get(logical_id)
    if resource is None:
        raise validation_error(
            f"Resource {logical_id} does not exist for stack {stack.name}"
        )  # assumed
    return resource


def _detect(cfn: CloudFormation, call: Call, stack: Stack, resource: Resource) -> DetectedDrift:
    """Detect one resource's drift, and store the result. Raises AwsError."""
    context = cfn.operations.context(stack, resource)
    drift_found = live_state.drift_of(cfn.operations.ports, context, stack, resource)
    detected: DetectedDrift = {**drift_found, "Timestamp": call.now_ms}
    resource.drift = dict(detected)
    with cfn.lock:
        if stack.resources.get(resource.logical_id) is resource:
            cfn.stacks.save_resource(stack, resource)
    return detected


def _render_drift(detected: DetectedDrift) -> shapes.StackResourceDrift:
    return cast(
        "shapes.StackResourceDrift", {**detected, "Timestamp": moment(detected["Timestamp"])}
    )


@operation("DetectStackDrift")
def detect_stack_drift(
    cfn: CloudFormation, call: Call, request: shapes.DetectStackDriftInput
) -> shapes.DetectStackDriftOutput:
    """Compare a stack's resources with its template, before it returns. Source: API_DetectStackDrift."""
    stack = _checkable(cfn, call, request["StackName"])
    logical_ids = get_list(request, "LogicalResourceIds") or list(stack.resources)
    resources = [_find_resource(stack, name) for name in logical_ids]
    drifts: list[DetectedDrift] = []
    failed: list[str] = []
    for resource in resources:
        try:
            drifts.append(_detect(cfn, call, stack, resource))
        except AwsError as error:
            failed.append(f"{resource.logical_id}: {error.message}")
    status = live_state.stack_status(drifts)
    detection = DriftDetection(
        detection_id=cfn.ids.uuid(),
        stack_id=stack.stack_id,
        account=stack.account,
        region=stack.region,
        status="DETECTION_FAILED" if failed else "DETECTION_COMPLETE",
        drift_status="UNKNOWN" if failed and status == "IN_SYNC" else status,
        made_ms=call.now_ms,
        reason=f"Failed to detect drift on resources [{', '.join(failed)}]" if failed else "",
        drifted=live_state.count_drifted(drifts),
    )
    with cfn.lock:
        stack.drift_status, stack.drift_checked_ms = detection.drift_status, call.now_ms
        cfn.stacks.save(stack)
        cfn.stacks.save_detection(detection)
    return {"StackDriftDetectionId": detection.detection_id}


@operation("DescribeStackDriftDetectionStatus")
def describe_stack_drift_detection_status(
    cfn: CloudFormation, call: Call, request: shapes.DescribeStackDriftDetectionStatusInput
) -> shapes.DescribeStackDriftDetectionStatusOutput:
    """Return how a detection ended. Source: API_DescribeStackDriftDetectionStatus."""
    name = request["StackDriftDetectionId"]
    detection = cfn.stacks.detection(name)
    if detection is None or (detection.account, detection.region) != (call.account, call.region):
        raise validation_error(f"StackDriftDetectionId [{name}] does not exist")  # assumed
    return present(
        {
            "StackId": detection.stack_id,
            "StackDriftDetectionId": detection.detection_id,
            "StackDriftStatus": detection.drift_status,
            "DetectionStatus": detection.status,
            "DetectionStatusReason": detection.reason or None,
            "DriftedStackResourceCount": detection.drifted,
            "Timestamp": moment(detection.made_ms),
        }
    )


@operation("DetectStackResourceDrift")
def detect_stack_resource_drift(
    cfn: CloudFormation, call: Call, request: shapes.DetectStackResourceDriftInput
) -> shapes.DetectStackResourceDriftOutput:
    """Compare one resource with its template. Source: API_DetectStackResourceDrift; its answer is recorded."""
    stack = _checkable(cfn, call, request["StackName"])
    resource = _find_resource(stack, request["LogicalResourceId"])
    detected = _detect(cfn, call, stack, resource)
    if detected["StackResourceDriftStatus"] == "NOT_CHECKED":  # the words are assumed
        raise validation_error(
            f"Drift detection is not supported for resource {resource.logical_id} of type {resource.type}"
        )
    return {"StackResourceDrift": _render_drift(detected)}


@operation("DescribeStackResourceDrifts")
def describe_stack_resource_drifts(
    cfn: CloudFormation, call: Call, request: shapes.DescribeStackResourceDriftsInput
) -> shapes.DescribeStackResourceDriftsOutput:
    """Return a page of the results of the last detections. Source: API_DescribeStackResourceDrifts.

    It has no resource whose drift cannot be detected (documented): the CDK counts what is missing as unchecked.
    """
    stack = cfn.find_stack(call, request["StackName"])
    filters = get_list(request, "StackResourceDriftStatusFilters")
    rows = [
        cast("DetectedDrift", resource.drift)
        for resource in list(stack.resources.values())
        if (status := (resource.drift or {}).get("StackResourceDriftStatus", "NOT_CHECKED"))
        != "NOT_CHECKED"
        and (not filters or status in filters)
    ]
    start = start_of(request.get("NextToken"))
    end = start + (request.get("MaxResults") or PAGE_ITEMS)
    answer: shapes.DescribeStackResourceDriftsOutput = {
        "StackResourceDrifts": [_render_drift(row) for row in rows[start:end]]
    }
    if end < len(rows):
        answer["NextToken"] = str(end)
    return answer
