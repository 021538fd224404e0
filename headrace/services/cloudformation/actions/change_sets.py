"""Change sets: create, describe, execute, delete, list."""

from typing import Any, cast

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.arn import make_arn
from headrace.core.values import listed, moment
from headrace.services.cloudformation import requests
from headrace.services.cloudformation.actions.describe import parameter_list, tag_list
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.changes import has_changes, resource_changes
from headrace.services.cloudformation.deploy import Deployment
from headrace.services.cloudformation.errors import (
    TemplateError,
    change_set_not_found,
    stack_missing,
    validation_error,
)
from headrace.services.cloudformation.limits import PAGE_ITEMS
from headrace.services.cloudformation.state import ChangeSet, Stack
from headrace.services.cloudformation.template_checks import parse

# Requests that name a change set.
_Named = shapes.DescribeChangeSetInput | shapes.ExecuteChangeSetInput | shapes.DeleteChangeSetInput


@operation("CreateChangeSet")
def create_change_set(
    cfn: CloudFormation, call: Call, request: shapes.CreateChangeSetInput
) -> shapes.CreateChangeSetOutput:
    """Compute what a template would change; the change set is complete at once. Source: API_CreateChangeSet."""
    name, kind = request["ChangeSetName"], request.get("ChangeSetType") or "UPDATE"
    if kind == "IMPORT" or request.get("ResourcesToImport"):
        raise validation_error("headrace does not import resources into stacks.")
    with cfn.lock:
        stack = _stack_for(cfn, call, request["StackName"], kind)
        if any(present.name == name for present in cfn.stacks.change_sets(stack.stack_id)):
            raise AwsError("AlreadyExistsException", f"ChangeSet {name} already exists", 400)
        template, values = requests.prepare(cfn, stack, request)
        tags = requests.tags_of(request, stack)
        change_set = ChangeSet(
            change_set_id=make_arn(
                "cloudformation", stack.region, stack.account, f"changeSet/{name}/{cfn.ids.uuid()}"
            ),
            name=name,
            stack_id=stack.stack_id,
            stack_name=stack.name,
            type=kind,
            created_ms=call.now_ms,
            body=template.body,
            description=request.get("Description") or "",
            parameters=values,
            tags=dict(tags),
            capabilities=listed(request, "Capabilities"),
            notification_arns=listed(request, "NotificationARNs"),
            rollback_configuration=dict(request.get("RollbackConfiguration") or {}),
            role_arn=request.get("RoleARN") or "",
            on_failure=request.get("OnStackFailure") or "",
            deployment_config=dict(request.get("DeploymentConfig") or {}),
        )
        try:
            change_set.changes = resource_changes(cfn.lookups, stack, template, values)
        except TemplateError as error:
            requests.fail_change_set(change_set, str(error))
        else:
            if kind == "UPDATE" and not has_changes(stack, template, change_set.changes, tags):
                requests.fail_change_set(change_set, requests.NO_CHANGES)
        if stack.status == "REVIEW_IN_PROGRESS" and not cfn.stacks.find(
            call.account, call.region, stack.stack_id
        ):
            cfn.stacks.set_status(stack, "REVIEW_IN_PROGRESS", "User Initiated")
        cfn.stacks.save_change_set(change_set)
    return {"Id": change_set.change_set_id, "StackId": stack.stack_id}


def _stack_for(cfn: CloudFormation, call: Call, name: str, kind: str) -> Stack:
    """Return the stack a change set is for; a new one, not stored, for type CREATE."""
    stack = cfn.stacks.find(call.account, call.region, name)
    if stack is not None and not stack.exists:
        stack = None
    if kind == "CREATE":
        if stack is not None and stack.status != "REVIEW_IN_PROGRESS":
            raise validation_error(
                f"Stack [{name}] already exists and cannot be created again with the changeSet."
            )
        return stack or cfn.stacks.new(
            name, call.account, call.region, "REVIEW_IN_PROGRESS", call.now_ms
        )
    if stack is None:
        raise stack_missing(name)
    if stack.status not in requests.UPDATABLE:
        raise validation_error(
            f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated."
        )
    return stack


def _find(cfn: CloudFormation, call: Call, request: _Named) -> ChangeSet:
    name = request["ChangeSetName"]
    if name.startswith("arn:"):
        found = cfn.stacks.change_set(name)
    else:
        stack_name = request.get("StackName")
        if not stack_name:
            raise validation_error("StackName must be specified if ChangeSetName is not an ARN.")
        stack = cfn.stacks.find(call.account, call.region, stack_name)
        if stack is None:
            raise stack_missing(stack_name)
        sets = cfn.stacks.change_sets(stack.stack_id)
        found = next((change_set for change_set in sets if change_set.name == name), None)
    if found is None:
        raise change_set_not_found(name)
    return found


@operation("DescribeChangeSet")
def describe_change_set(
    cfn: CloudFormation, call: Call, request: shapes.DescribeChangeSetInput
) -> shapes.DescribeChangeSetOutput:
    """Return a change set with a page of its changes. Source: API_DescribeChangeSet."""
    change_set = _find(cfn, call, request)
    start = int(request.get("NextToken") or 0)
    page = change_set.changes[start : start + PAGE_ITEMS]
    with_values = bool(request.get("IncludePropertyValues"))
    answer: shapes.DescribeChangeSetOutput = {
        "ChangeSetName": change_set.name,
        "ChangeSetId": change_set.change_set_id,
        "StackId": change_set.stack_id,
        "StackName": change_set.stack_name,
        "CreationTime": moment(change_set.created_ms),
        "ExecutionStatus": change_set.execution_status,
        "Status": change_set.status,
        "Parameters": parameter_list(change_set.parameters),
        "Capabilities": change_set.capabilities,
        "Tags": tag_list(change_set.tags),
        "NotificationARNs": change_set.notification_arns,
        "RollbackConfiguration": cast(
            "shapes.RollbackConfiguration", change_set.rollback_configuration
        ),
        "Changes": cast(
            "list[shapes.Change]",
            [change if with_values else _without_values(change) for change in page],
        ),
        "IncludeNestedStacks": False,
    }
    if change_set.deployment_config:
        answer["DeploymentConfig"] = cast("shapes.DeploymentConfig", change_set.deployment_config)
    if change_set.reason:
        answer["StatusReason"] = change_set.reason
    if change_set.description:
        answer["Description"] = change_set.description
    if change_set.on_failure:
        answer["OnStackFailure"] = change_set.on_failure
    if start + PAGE_ITEMS < len(change_set.changes):
        answer["NextToken"] = str(start + PAGE_ITEMS)
    return answer


def _without_values(change: dict[str, Any]) -> dict[str, Any]:
    resource = {
        key: value
        for key, value in change["ResourceChange"].items()
        if key not in ("BeforeContext", "AfterContext")
    }
    hidden = ("BeforeValue", "AfterValue", "Path", "AttributeChangeType")
    resource["Details"] = [
        {
            **detail,
            "Target": {key: value for key, value in detail["Target"].items() if key not in hidden},
        }
        for detail in resource["Details"]
    ]
    return {**change, "ResourceChange": resource}


@operation("ExecuteChangeSet")
def execute_change_set(
    cfn: CloudFormation, call: Call, request: shapes.ExecuteChangeSetInput
) -> shapes.ExecuteChangeSetOutput:
    """Carry a change set out in the background. Source: API_ExecuteChangeSet."""
    with cfn.lock:
        change_set = _find(cfn, call, request)
        stack = cfn.stacks.find(call.account, call.region, change_set.stack_id)
        if stack is None or not stack.exists:
            raise stack_missing(change_set.stack_name)
        if change_set.execution_status != "AVAILABLE":
            raise AwsError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{change_set.change_set_id}] cannot be executed in its current status of"
                f" [{change_set.status}]",
            )
        if stack.in_progress:
            raise validation_error(
                f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated."
            )
        creating = stack.status == "REVIEW_IN_PROGRESS"
        settings: shapes.UpdateStackInput = {
            "StackName": stack.name,
            "Tags": tag_list(change_set.tags),
            "Capabilities": change_set.capabilities,
            "RoleARN": change_set.role_arn,
            "NotificationARNs": change_set.notification_arns,
            "RollbackConfiguration": cast(
                "shapes.RollbackConfiguration", change_set.rollback_configuration
            ),
        }
        template = parse(change_set.body)
        requests.take_over(stack, template, change_set.parameters, settings)
        stack.disable_rollback = bool(request.get("DisableRollback"))
        stack.on_failure = change_set.on_failure or "ROLLBACK"
        stack.change_set_id = change_set.change_set_id
        # The executed change set, and those that it makes stale, are gone.
        for other in cfn.stacks.change_sets(stack.stack_id):
            cfn.stacks.delete_change_set(other)
        status = "CREATE_IN_PROGRESS" if creating else "UPDATE_IN_PROGRESS"
        cfn.stacks.set_status(stack, status, "User Initiated", whole=True)
    work = Deployment.create if creating else Deployment.update
    cfn.operations.run(stack, work)
    return {}


@operation("DeleteChangeSet")
def delete_change_set(
    cfn: CloudFormation, call: Call, request: shapes.DeleteChangeSetInput
) -> shapes.DeleteChangeSetOutput:
    """Delete a change set; a missing one is no error. Source: API_DeleteChangeSet."""
    with cfn.lock:
        try:
            change_set = _find(cfn, call, request)
        except AwsError as error:
            if error.code == "ChangeSetNotFound":
                return {}
            raise
        cfn.stacks.delete_change_set(change_set)
    return {}


@operation("ListChangeSets")
def list_change_sets(
    cfn: CloudFormation, call: Call, request: shapes.ListChangeSetsInput
) -> shapes.ListChangeSetsOutput:
    """Return a stack's change sets. Source: API_ListChangeSets."""
    stack = cfn.stacks.find(call.account, call.region, request["StackName"])
    if stack is None:
        raise stack_missing(request["StackName"])
    return {
        "Summaries": [
            {
                "StackId": change_set.stack_id,
                "StackName": change_set.stack_name,
                "ChangeSetId": change_set.change_set_id,
                "ChangeSetName": change_set.name,
                "ExecutionStatus": change_set.execution_status,
                "Status": change_set.status,
                "StatusReason": change_set.reason,
                "CreationTime": moment(change_set.created_ms),
                "Description": change_set.description,
            }
            for change_set in cfn.stacks.change_sets(stack.stack_id)
        ]
    }
