"""Detects drift in a stack or in one resource, and describes the result."""

from __future__ import annotations

from typing import cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.values import get_list, moment, present
from headrace.services.cloudformation.actions.describe import start_of
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.changes import drift
from headrace.services.cloudformation.errors import stack_missing, validation_error
from headrace.services.cloudformation.limits import PAGE_ITEMS
from headrace.services.cloudformation.state import (
    DetectedDrift,
    DriftDetection,
    Resource,
    Stack,
)


def _checkable(cfn: CloudFormation, call: Call, name: str) -> Stack:
    """Return a stack that is in a status in which drift can be detected. Raises AwsError."""
    stack = cfn.stacks.find(call.account, call.region, name)
    if stack is None or not stack.exists:
        raise stack_missing(name)
    if stack.status not in drift.CHECKED_IN:  # observed
        raise validation_error(
            f"Drift detection cannot be performed on stack [{stack.stack_id}] while it is in [{stack.status}] state"
        )
    return stack


def _resource(stack: Stack, logical_id: str) -> Resource:
    resource = stack.resources.get(logical_id)
    if resource is None:
        raise validation_error(
            f"Resource {logical_id} does not exist for stack {stack.name}"
        )  # assumed
    return resource


def _detect(cfn: CloudFormation, call: Call, stack: Stack, resource: Resource) -> DetectedDrift:
    """Detect one resource's drift, and store the result. Raises AwsError."""
    context = cfn.operations.context(stack, resource)
    drift_found = drift.drift_of(cfn.operations.ports, context, stack, resource)
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
    resources = [_resource(stack, name) for name in logical_ids]
    drifts: list[DetectedDrift] = []
    failed: list[str] = []
    for resource in resources:
        try:
            drifts.append(_detect(cfn, call, stack, resource))
        except AwsError as error:
            failed.append(f"{resource.logical_id}: {error.message}")
    status = drift.stack_status(drifts)
    detection = DriftDetection(
        detection_id=cfn.ids.uuid(),
        stack_id=stack.stack_id,
        account=stack.account,
        region=stack.region,
        status="DETECTION_FAILED" if failed else "DETECTION_COMPLETE",
        drift_status="UNKNOWN" if failed and status == "IN_SYNC" else status,
        made_ms=call.now_ms,
        reason=f"Failed to detect drift on resources [{', '.join(failed)}]" if failed else "",
        drifted=drift.count_drifted(drifts),
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
    resource = _resource(stack, request["LogicalResourceId"])
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
    """Return a page of the results of the last detections. Source: API_DescribeStackResourceDrifts."""
    stack = cfn.stacks.find(call.account, call.region, request["StackName"])
    if stack is None:
        raise stack_missing(request["StackName"])
    filters = get_list(request, "StackResourceDriftStatusFilters")
    rows = [
        cast("DetectedDrift", resource.drift)
        for resource in list(stack.resources.values())
        if resource.drift and (not filters or resource.drift["StackResourceDriftStatus"] in filters)
    ]
    start = start_of(request.get("NextToken"))
    end = start + (request.get("MaxResults") or PAGE_ITEMS)
    answer: shapes.DescribeStackResourceDriftsOutput = {
        "StackResourceDrifts": [_render_drift(row) for row in rows[start:end]]
    }
    if end < len(rows):
        answer["NextToken"] = str(end)
    return answer
