"""The operations on StackSets: how far each is, how it ended in each account and region, and how one is stopped.

Errors' codes are the model's; their sentences are observed by many, where not marked.
"""

from __future__ import annotations

from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.values import get_list, moment, present
from headrace.services.cloudformation.actions.stack_sets import cut_page, find_stack_set
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.stack_sets import SetOperation, StackSet


def _find_operation(cfn: CloudFormation, one_set: StackSet, operation_id: str) -> SetOperation:
    for one in cfn.stack_sets.operations(one_set):
        if one.operation_id == operation_id:
            return one
    raise AwsError("OperationNotFoundException", f"Operation {operation_id} not found", 404)


def _operation_row(one: SetOperation) -> dict[str, Any]:
    failed = sum(result["Status"] == "FAILED" for result in one.results.values())
    return present(
        {
            "OperationId": one.operation_id,
            "Action": one.action,
            "Status": one.status,
            "CreationTimestamp": moment(one.created_ms),
            "EndTimestamp": None if one.ended_ms is None else moment(one.ended_ms),
            "StatusDetails": {"FailedStackInstancesCount": failed},
            "OperationPreferences": one.preferences or None,
        }
    )


@operation("DescribeStackSetOperation")
def describe_stack_set_operation(
    cfn: CloudFormation, call: Call, request: shapes.DescribeStackSetOperationInput
) -> shapes.DescribeStackSetOperationOutput:
    """Return an operation. Source: API_DescribeStackSetOperation."""
    one_set = find_stack_set(cfn, call, request["StackSetName"])
    one = _find_operation(cfn, one_set, request["OperationId"])
    row: Any = {
        **_operation_row(one),
        "StackSetId": one_set.set_id,
        "RetainStacks": one.retain,
        "AdministrationRoleARN": one_set.administration_role,
        "ExecutionRoleName": one_set.execution_role,
    }
    return {"StackSetOperation": row}


@operation("ListStackSetOperations")
def list_stack_set_operations(
    cfn: CloudFormation, call: Call, request: shapes.ListStackSetOperationsInput
) -> shapes.ListStackSetOperationsOutput:
    """Return a set's operations, newest first. Source: API_ListStackSetOperations."""
    operations = cfn.stack_sets.operations(find_stack_set(cfn, call, request["StackSetName"]))
    page, token = cut_page([_operation_row(one) for one in reversed(operations)], request)
    return present({"Summaries": page, "NextToken": token})


@operation("ListStackSetOperationResults")
def list_stack_set_operation_results(
    cfn: CloudFormation, call: Call, request: shapes.ListStackSetOperationResultsInput
) -> shapes.ListStackSetOperationResultsOutput:
    """Return how an operation ended in each account and region. Source: API_ListStackSetOperationResults."""
    one_set = find_stack_set(cfn, call, request["StackSetName"])
    one = _find_operation(cfn, one_set, request["OperationId"])
    rows: list[dict[str, str]] = []
    for account, region in one.targets:
        under_way = {"Account": account, "Region": region, "Status": "PENDING"}
        rows.append({**one.results.get(f"{account} {region}", under_way)})
    for condition in get_list(request, "Filters"):
        rows = [row for row in rows if row["Status"] in condition["Values"].split(",")]
    page, token = cut_page(rows, request)
    return present({"Summaries": page, "NextToken": token})


@operation("StopStackSetOperation")
def stop_stack_set_operation(
    cfn: CloudFormation, call: Call, request: shapes.StopStackSetOperationInput
) -> None:
    """Begin no further stack in an operation. Source: API_StopStackSetOperation."""
    with cfn.lock:
        one = _find_operation(
            cfn, find_stack_set(cfn, call, request["StackSetName"]), request["OperationId"]
        )
        if one.status != "RUNNING":
            raise AwsError(
                "InvalidOperationException",
                f"Operation {one.operation_id} is in {one.status} state and can not be stopped",  # assumed
            )
        one.status = "STOPPING"
        cfn.stack_sets.save(one)
