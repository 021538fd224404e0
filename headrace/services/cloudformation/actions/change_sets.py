"""Change sets: create, describe, execute, delete, list."""

import json
from dataclasses import replace
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.arn import make_arn
from headrace.core.values import get_list, moment, present
from headrace.services.cloudformation import requests
from headrace.services.cloudformation.actions.describe import parameter_list, start_of, tag_list
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.changes import imports
from headrace.services.cloudformation.changes.changes import (
    ResourceChanges,
    has_changes,
    outputs_differ,
)
from headrace.services.cloudformation.changes.live_state import Change, LiveState, live_state
from headrace.services.cloudformation.changes.live_state import take_over as take_over_live
from headrace.services.cloudformation.deployment.stack_operation import Deployment
from headrace.services.cloudformation.errors import (
    PAGE_ITEMS,
    change_set_not_found,
    stack_missing,
    validation_error,
)
from headrace.services.cloudformation.requests import check_topics
from headrace.services.cloudformation.state import EXECUTED, ChangeSet, Stack, remove_values
from headrace.services.cloudformation.template.template import Template
from headrace.services.cloudformation.template.template_checks import parse

# Requests that name a change set.
_Named = shapes.DescribeChangeSetInput | shapes.ExecuteChangeSetInput | shapes.DeleteChangeSetInput


@operation("CreateChangeSet")
def create_change_set(
    cfn: CloudFormation, call: Call, request: shapes.CreateChangeSetInput
) -> shapes.CreateChangeSetOutput:
    """Compute what a template would change; the change set is complete at once. Source: API_CreateChangeSet."""
    name, kind = request["ChangeSetName"], request.get("ChangeSetType") or "UPDATE"
    if kind != "IMPORT" and request.get("ResourcesToImport"):  # the words are assumed
        raise validation_error("ResourcesToImport can only be given with the ChangeSetType IMPORT")
    requests.check_name(request["StackName"])
    mode = request.get("DeploymentMode") or ""
    if mode and kind == "IMPORT":  # the words are assumed
        raise validation_error(
            f"DeploymentMode {mode} cannot be given with the ChangeSetType IMPORT"
        )
    expanded = requests.expand(cfn, call, request)
    live = _live(cfn, call, request) if mode else LiveState()
    with cfn.lock:
        stack = _stack_for(cfn, call, request, kind)
        token = request.get("ClientToken") or ""
        sets = [c for c in cfn.stacks.change_sets(stack.stack_id) if not c.is_executed]
        same = next((c for c in sets if c.name == name), None)
        if same is not None:
            if token and same.client_token == token:  # The same request again.
                return {"Id": same.change_set_id, "StackId": stack.stack_id}
            raise AwsError("AlreadyExistsException", f"ChangeSet {name} already exists", 400)
        template, values, failure = requests.prepare_new(cfn, stack, request, expanded)
        change_set = _build_change_set(cfn, call, request, stack, template, values)
        if failure:
            requests.fail_change_set(change_set, failure)
        else:
            _compare(cfn, stack, change_set, template, request, live)
        if stack.status == "REVIEW_IN_PROGRESS" and not cfn.stacks.find(
            call.account, call.region, stack.stack_id
        ):
            cfn.stacks.set_status(stack, "REVIEW_IN_PROGRESS", "User Initiated")
        cfn.stacks.save_change_set(change_set)
    return {"Id": change_set.change_set_id, "StackId": stack.stack_id}


def _build_change_set(
    cfn: CloudFormation,
    call: Call,
    request: shapes.CreateChangeSetInput,
    stack: Stack,
    template: Template,
    parameters: dict[str, Any],
) -> ChangeSet:
    name = request["ChangeSetName"]
    return ChangeSet(
        change_set_id=make_arn(
            "cloudformation", stack.region, stack.account, f"changeSet/{name}/{cfn.ids.uuid()}"
        ),
        name=name,
        stack_id=stack.stack_id,
        stack_name=stack.name,
        type=request.get("ChangeSetType") or "UPDATE",
        created_ms=call.now_ms,
        body=template.body,
        original_body=template.original,
        description=request.get("Description") or "",
        parameters=parameters,
        tags=dict(requests.tags_of(request, stack)),
        capabilities=get_list(request, "Capabilities"),
        notification_arns=get_list(request, "NotificationARNs"),
        rollback_configuration=dict(request.get("RollbackConfiguration") or {}),
        role_arn=request.get("RoleARN") or "",
        on_failure=request.get("OnStackFailure") or "",
        deployment_config=dict(request.get("DeploymentConfig") or {}),
        include_nested_stacks=bool(request.get("IncludeNestedStacks")),
        client_token=request.get("ClientToken") or "",
        imports_existing=bool(request.get("ImportExistingResources")),
    )


def _compare(
    cfn: CloudFormation,
    stack: Stack,
    change_set: ChangeSet,
    template: Template,
    request: shapes.CreateChangeSetInput,
    live: LiveState,
) -> None:
    """Store in a change set what its template would change. Raises TemplateError."""
    mode = request.get("DeploymentMode") or ""
    present_stack = live.of(stack) if mode else stack
    tags = change_set.tags
    changes = ResourceChanges(cfn.lookups, present_stack, template, change_set.parameters, tags)
    change_set.changes = changes.with_values
    change_set.plain_changes = [remove_values(change) for change in changes.plain]
    change_set.values_warning = changes.warning
    if mode:
        _note_drift(stack, change_set, live, mode)
    _decide_imports(cfn, stack, change_set, template, request)
    is_change = bool(change_set.changes) or has_changes(present_stack, template, changes, tags)
    if change_set.type == "UPDATE" and not is_change:
        requests.fail_change_set(change_set, requests.NO_CHANGES)


def _live(cfn: CloudFormation, call: Call, request: shapes.CreateChangeSetInput) -> LiveState:
    """Read the live state of the stack's resources, without the lock, because this calls other services."""
    stack = cfn.stacks.find(call.account, call.region, request["StackName"])
    if stack is None or not stack.exists:
        return LiveState(read_ms=call.now_ms)
    return live_state(cfn.operations.ports, cfn.operations.context, stack, call.now_ms)


def _note_drift(stack: Stack, change_set: ChangeSet, live: LiveState, mode: str) -> None:
    """Store in a REVERT_DRIFT change set which resources have drifted."""
    change_set.deployment_mode, change_set.drift_status = mode, live.status
    change_set.changes = live.changes(stack, change_set.changes)
    plain = live.changes(stack, change_set.plain_changes)
    change_set.plain_changes = [remove_values(change) for change in plain]
    change_set.live = {
        name: live.properties(stack.resources[name])
        for name, drift in live.drifts.items()
        if drift["StackResourceDriftStatus"] in ("MODIFIED", "DELETED")
    }


def _render_change(change: Change) -> shapes.ResourceChange:
    """Return a change with its times as datetimes."""
    details: list[Change] = []
    for detail in change["Details"]:
        drift = detail["Target"].get("Drift")
        if drift is not None:
            at = moment(drift["DriftDetectionTimestamp"])
            target = {**detail["Target"], "Drift": {**drift, "DriftDetectionTimestamp": at}}
            detail = {**detail, "Target": target}
        details.append(detail)
    return cast("shapes.ResourceChange", {**change, "Details": details})


def _decide_imports(
    cfn: CloudFormation,
    stack: Stack,
    change_set: ChangeSet,
    template: Template,
    request: shapes.CreateChangeSetInput,
) -> None:
    """Decide which existing resources a change set imports. Raises TemplateError, AwsError."""
    contexts = cfn.operations.context
    changes = change_set.changes
    if change_set.type == "IMPORT":
        importing = imports.check_request(template, get_list(request, "ResourcesToImport"))
        differ = outputs_differ(stack.body, template)
        imports.check_changes(stack, template, importing, changes, outputs_differ=differ)
        reason = imports.obstacle(cfn.stacks, contexts, stack, template, importing)
    elif request.get("ImportExistingResources"):
        added = {
            change["LogicalResourceId"]: json.loads(change["AfterContext"])["Properties"]
            for change in changes
            if change["Action"] == "Add"
        }
        importing, reason = imports.find_existing(cfn.stacks, contexts, stack, template, added)
    else:
        return
    change_set.importing = importing
    change_set.changes = imports.as_imports(changes, importing)
    change_set.plain_changes = imports.as_imports(change_set.plain_changes, importing)
    if reason:
        requests.fail_change_set(change_set, reason)


def _stack_for(
    cfn: CloudFormation, call: Call, request: shapes.CreateChangeSetInput, kind: str
) -> Stack:
    """Return a change set's stack; for type CREATE, a new one that is not stored."""
    name = request["StackName"]
    stack = cfn.stacks.find(call.account, call.region, name)
    if kind == "CREATE":
        if stack is not None and stack.status != "REVIEW_IN_PROGRESS":
            raise validation_error(
                f"Stack [{name}] already exists and cannot be created again with the changeSet"
                f" [{request['ChangeSetName']}]."
            )
        return stack or cfn.stacks.new(
            name, call.account, call.region, "REVIEW_IN_PROGRESS", call.now_ms
        )
    if kind == "IMPORT" and (stack is None or stack.status == "REVIEW_IN_PROGRESS"):
        return stack or cfn.stacks.new(
            name, call.account, call.region, "REVIEW_IN_PROGRESS", call.now_ms
        )
    if stack is None or not stack.exists:
        raise stack_missing(name)
    if stack.status not in requests.UPDATABLE:
        raise validation_error(
            f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated."
        )
    return stack


def _find(cfn: CloudFormation, call: Call, request: _Named) -> ChangeSet:
    name = request["ChangeSetName"]
    if name.startswith("arn:"):
        change_set_found = cfn.stacks.change_set(name)
    else:
        stack_name = request.get("StackName")
        if not stack_name:
            raise validation_error(
                "StackName must be specified if ChangeSetName is not specified as an ARN."
            )
        stack = cfn.find_stack(call, stack_name)
        sets = cfn.stacks.change_sets(stack.stack_id)
        named = [change_set for change_set in sets if change_set.name == name]
        # An executed change set keeps its name until a new one takes it.
        change_set_found = min(named, key=lambda change_set: change_set.is_executed, default=None)
    if change_set_found is None:
        raise change_set_not_found(name)
    return change_set_found


def _not_executable(change_set: ChangeSet) -> AwsError:
    status = f"status of [{change_set.status}]"
    if change_set.status == "CREATE_COMPLETE":
        status = f"execution status of [{change_set.execution_status}]"
    return AwsError(
        "InvalidChangeSetStatus",
        f"ChangeSet [{change_set.change_set_id}] cannot be executed in its current {status}",
    )


@operation("DescribeChangeSet")
def describe_change_set(
    cfn: CloudFormation, call: Call, request: shapes.DescribeChangeSetInput
) -> shapes.DescribeChangeSetOutput:
    """Return a change set with a page of its changes. Source: API_DescribeChangeSet."""
    change_set = _find(cfn, call, request)
    with_values = bool(request.get("IncludePropertyValues"))
    changes = change_set.changes if with_values else change_set.plain_changes
    start = start_of(request.get("NextToken"))
    page = changes[start : start + PAGE_ITEMS]
    answer = {
        "ChangeSetName": change_set.name,
        "ChangeSetId": change_set.change_set_id,
        "StackId": change_set.stack_id,
        "StackName": change_set.stack_name,
        "Description": change_set.description or None,
        "CreationTime": moment(change_set.created_ms),
        "ExecutionStatus": change_set.execution_status,
        "Status": change_set.status,
        "StatusReason": change_set.reason or (with_values and change_set.values_warning) or None,
        "Parameters": parameter_list(change_set.parameters) or None,
        "Capabilities": change_set.capabilities,
        "Tags": tag_list(change_set.tags) or None,
        "NotificationARNs": change_set.notification_arns,
        "RollbackConfiguration": change_set.rollback_configuration,
        "Changes": [
            {"Type": "Resource", "ResourceChange": _render_change(change)} for change in page
        ],
        "IncludeNestedStacks": change_set.include_nested_stacks,
        "ImportExistingResources": change_set.imports_existing or None,
        "OnStackFailure": change_set.on_failure or None,
        "DeploymentConfig": change_set.deployment_config or None,
        "DeploymentMode": change_set.deployment_mode or None,
        "StackDriftStatus": change_set.drift_status or None,
        "NextToken": str(start + PAGE_ITEMS) if start + PAGE_ITEMS < len(changes) else None,
    }
    return present(answer)


@operation("ExecuteChangeSet")
def execute_change_set(
    cfn: CloudFormation, call: Call, request: shapes.ExecuteChangeSetInput
) -> shapes.ExecuteChangeSetOutput:
    """Execute a change set in the background. Source: API_ExecuteChangeSet."""
    with cfn.lock:
        change_set = _find(cfn, call, request)
        stack = cfn.stacks.find(call.account, call.region, change_set.stack_id)
        if stack is None or not stack.exists:
            raise stack_missing(change_set.stack_name)
        if change_set.execution_status != "AVAILABLE":
            raise _not_executable(change_set)
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
        check_topics(cfn, stack, settings)
        template = replace(parse(change_set.body), original=change_set.original_body)
        deployed = take_over_live(stack, change_set.live)
        requests.take_over(stack, template, change_set.parameters, settings)
        if deployed and stack.previous is not None:
            stack.previous["deployed"] = deployed
        configured = change_set.deployment_config.get("DisableRollback")
        stack.disable_rollback = bool(request.get("DisableRollback") or configured)
        stack.retain_except_on_create = bool(request.get("RetainExceptOnCreate"))
        stack.on_failure = change_set.on_failure or "ROLLBACK"
        stack.change_set_id = change_set.change_set_id
        stack.request_token = request.get("ClientRequestToken") or ""
        stack.note_caller(call)
        if creating:
            stack.updated_ms = call.now_ms
        stack.importing = dict(change_set.importing)
        status = "CREATE_IN_PROGRESS" if creating else "UPDATE_IN_PROGRESS"
        if change_set.type == "IMPORT":
            status = "IMPORT_IN_PROGRESS"
        # In one transaction: a kill never leaves a change set marked as executed whose operation has not begun.
        with cfn.stacks.together():
            # The stack's other change sets are deleted (documented: API_ExecuteChangeSet), the executed one too.
            for other in cfn.stacks.change_sets(stack.stack_id):
                if other is not change_set:
                    cfn.stacks.delete_change_set(other)
            change_set.execution_status = EXECUTED
            cfn.stacks.save_change_set(change_set)
            cfn.stacks.set_status(stack, status, "User Initiated", whole=True)
    work = Deployment.create if creating else Deployment.update
    if change_set.type == "IMPORT":
        work = Deployment.import_resources
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
    stack = cfn.find_stack(call, request["StackName"])
    return {
        "Summaries": [
            present(
                {
                    "StackId": change_set.stack_id,
                    "StackName": change_set.stack_name,
                    "ChangeSetId": change_set.change_set_id,
                    "ChangeSetName": change_set.name,
                    "ExecutionStatus": change_set.execution_status,
                    "Status": change_set.status,
                    "StatusReason": change_set.reason or None,
                    "CreationTime": moment(change_set.created_ms),
                    "Description": change_set.description or None,
                    "IncludeNestedStacks": change_set.include_nested_stacks,
                }
            )
            for change_set in cfn.stacks.change_sets(stack.stack_id)
            if not change_set.is_executed
        ]
    }
