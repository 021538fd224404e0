"""Stacks: create, update, delete, cancel, roll back, protect, and signal a resource."""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.values import get_list
from headrace.services.cloudformation import requests
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.changes.changes import ResourceChanges, has_changes
from headrace.services.cloudformation.deployment.alias_deployments import alias_policy
from headrace.services.cloudformation.deployment.stack_operation import Deployment, fail_creation
from headrace.services.cloudformation.errors import (
    stack_not_found,
    validation_error,
)
from headrace.services.cloudformation.requests import (
    FOR_NOW,
    check_topics,
    policy_of,
)
from headrace.services.cloudformation.signals import SIGNALLED, Signal, receiver_of
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.template.template_checks import parse


@operation("CreateStack")
def create_stack(
    cfn: CloudFormation, call: Call, request: shapes.CreateStackInput
) -> shapes.CreateStackOutput:
    """Create a stack in the background. Source: API_CreateStack."""
    name, token = request["StackName"], request.get("ClientRequestToken") or ""
    requests.check_name(name)
    expanded = requests.expand(cfn, call, request)
    with cfn.lock:
        present = cfn.stacks.find(call.account, call.region, name)
        if present is not None and present.status != "REVIEW_IN_PROGRESS":
            if token and present.request_token == token:  # The same request again.
                return {"StackId": present.stack_id}
            raise AwsError("AlreadyExistsException", f"Stack [{name}] already exists")
        stack = present or cfn.stacks.new(
            name, call.account, call.region, "CREATE_IN_PROGRESS", call.now_ms
        )
        template, values, failure = requests.prepare_new(cfn, stack, request, expanded)
        # This raises when a value cannot be evaluated.
        ResourceChanges(cfn.lookups, stack, template, values, stack.tags)
        check_topics(cfn, stack, request)
        stack.policy = policy_of(cfn, request) or ""
        stack.disable_rollback = requests.disables_rollback(request)
        requests.take_over(stack, template, values, request)
        stack.request_token = token
        stack.note_caller(call)
        for change_set in cfn.stacks.change_sets(stack.stack_id):
            change_set.execution_status = "OBSOLETE"  # recorded
            cfn.stacks.save_change_set(change_set)
        stack.on_failure = request.get("OnFailure") or "ROLLBACK"
        stack.timeout_minutes = request.get("TimeoutInMinutes") or 0
        stack.termination_protection = bool(request.get("EnableTerminationProtection"))
        cfn.stacks.set_status(stack, "CREATE_IN_PROGRESS", "User Initiated", whole=True)
        # The stack is there, and goes back at once (recorded).
        work = fail_creation(cfn.stacks, stack, f"{failure}.") if failure else Deployment.create
    if work is not None:
        cfn.operations.run(stack, work)
    return {"StackId": stack.stack_id}


@operation("UpdateStack")
def update_stack(
    cfn: CloudFormation, call: Call, request: shapes.UpdateStackInput
) -> shapes.UpdateStackOutput:
    """Update a stack in the background. Source: API_UpdateStack."""
    expanded = requests.expand(cfn, call, request)
    with cfn.lock:
        stack = cfn.find_live_stack(call, request["StackName"])
        if stack.status not in requests.UPDATABLE:
            raise validation_error(
                f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated."
            )
        template, values = requests.prepare(cfn, stack, request, expanded)
        tags = requests.tags_of(request, stack)
        changes = ResourceChanges(cfn.lookups, stack, template, values, tags)
        if not has_changes(stack, template, changes, tags):
            raise validation_error(requests.NO_UPDATES)
        check_topics(cfn, stack, request)
        policy = policy_of(cfn, request)
        temporary = policy_of(cfn, request, FOR_NOW)
        stack.request_token = request.get("ClientRequestToken") or ""
        stack.note_caller(call)
        requests.take_over(stack, template, values, request)
        if temporary is not None:
            stack.enforced_policy = stack.temporary_policy = temporary
        # The new policy applies to later updates, not to this one.
        stack.policy = policy or stack.policy
        stack.disable_rollback = requests.disables_rollback(request)
        cfn.stacks.set_status(stack, "UPDATE_IN_PROGRESS", "User Initiated", whole=True)
    cfn.operations.run(stack, Deployment.update)
    return {"StackId": stack.stack_id}


# DeleteStack interrupts these operations; an update must be cancelled first.
_DELETABLE_IN_PROGRESS = ("CREATE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS")


@operation("DeleteStack")
def delete_stack(cfn: CloudFormation, call: Call, request: shapes.DeleteStackInput) -> None:
    """Delete a stack in the background, even while it is being created; a missing one is no error.

    Source: API_DeleteStack; the refusal during an update was observed.
    """
    with cfn.lock:
        stack = cfn.stacks.find(call.account, call.region, request["StackName"])
        if stack is None or not stack.exists:
            return
        if stack.termination_protection:
            raise validation_error(
                f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        if stack.status == "DELETE_IN_PROGRESS":
            return
        stack.role_arn = request.get("RoleARN") or stack.role_arn
        stack.request_token = request.get("ClientRequestToken") or ""
        stack.note_caller(call)
        if stack.in_progress:
            interrupted = stack.status in _DELETABLE_IN_PROGRESS and cfn.operations.interrupt(
                stack, "DELETE_IN_PROGRESS"
            )
            if not interrupted:
                raise validation_error(
                    f"Stack [{stack.stack_id}] cannot be deleted while in status {stack.status}"
                )
            return
        for output in stack.outputs:
            users = cfn.exports.importers(stack, output.get("ExportName", ""))
            if users:
                shown = ", ".join(sorted(user.name for user in users))
                # Observed by many: the stack keeps its status, and a stack event gives the reason.
                reason = (
                    f"Delete canceled. Cannot delete export {output['ExportName']} as it is in use by"
                    f" {shown}."
                )
                cfn.stacks.set_status(stack, stack.status, reason)
                return
        failed = stack.status == "DELETE_FAILED"
        if get_list(request, "RetainResources") and not failed:  # observed
            raise validation_error(
                f"Invalid operation on stack [{stack.stack_id}]. When you delete a stack, specify which resources to"
                " retain only when the stack is in the DELETE_FAILED state."
            )
        if (
            request.get("DeletionMode") == "FORCE_DELETE_STACK" and not failed
        ):  # the words are assumed
            raise validation_error(
                f"Invalid operation on stack [{stack.stack_id}]. A stack can be deleted by force only when it is in the"
                " DELETE_FAILED state."
            )
        stack.force_delete = request.get("DeletionMode") == "FORCE_DELETE_STACK"
        retained = set(get_list(request, "RetainResources"))
        for name in retained & set(stack.resources):
            stack.resources[name].deletion_policy = "Retain"
        cfn.stacks.set_status(stack, "DELETE_IN_PROGRESS", "User Initiated", whole=True)
    cfn.operations.run(stack, Deployment.delete)


@operation("CancelUpdateStack")
def cancel_update_stack(
    cfn: CloudFormation, call: Call, request: shapes.CancelUpdateStackInput
) -> None:
    """Stop an update and roll it back. Source: API_CancelUpdateStack."""
    with cfn.lock:
        stack = cfn.find_live_stack(call, request["StackName"])
        stack.request_token = request.get("ClientRequestToken") or stack.request_token
        if stack.status != "UPDATE_IN_PROGRESS" or not cfn.operations.interrupt(
            stack, "UPDATE_ROLLBACK_IN_PROGRESS"
        ):
            # The sentence was observed.
            raise validation_error("CancelUpdateStack cannot be called from current stack status")


@operation("ContinueUpdateRollback")
def continue_update_rollback(
    cfn: CloudFormation, call: Call, request: shapes.ContinueUpdateRollbackInput
) -> shapes.ContinueUpdateRollbackOutput:
    """Retry a failed rollback without the resources to skip. Source: API_ContinueUpdateRollback."""
    with cfn.lock:
        stack = cfn.find_live_stack(call, request["StackName"])
        if stack.status != "UPDATE_ROLLBACK_FAILED" or stack.previous is None:
            # Assumed to read like CancelUpdateStack's.
            raise validation_error(
                "ContinueUpdateRollback cannot be called from current stack status"
            )
        skip = get_list(request, "ResourcesToSkip")
        failed = [name for name, r in stack.resources.items() if r.status == "UPDATE_FAILED"]
        wrong = sorted(set(skip) - set(failed))
        if wrong:
            raise validation_error(
                f"The resources to skip must be in UPDATE_FAILED state: [{', '.join(wrong)}] are not"
            )
        stack.request_token = request.get("ClientRequestToken") or ""
        stack.note_caller(call)
        stack.previous["skip"] = [*stack.previous.get("skip", []), *skip]
        cfn.stacks.set_status(stack, "UPDATE_ROLLBACK_IN_PROGRESS", "User Initiated", whole=True)
    cfn.operations.run(stack, Deployment.roll_back_update)
    return {}


@operation("RollbackStack")
def rollback_stack(
    cfn: CloudFormation, call: Call, request: shapes.RollbackStackInput
) -> shapes.RollbackStackOutput:
    """Roll back an operation that failed with rollback disabled. Source: API_RollbackStack."""
    with cfn.lock:
        stack = cfn.find_live_stack(call, request["StackName"])
        stack.request_token = request.get("ClientRequestToken") or ""
        stack.note_caller(call)
        if (retain := request.get("RetainExceptOnCreate")) is not None:
            stack.retain_except_on_create = bool(retain)
        if stack.status == "CREATE_FAILED":
            cfn.stacks.set_status(stack, "ROLLBACK_IN_PROGRESS", "User Initiated")
            work = Deployment.roll_back_creation
        elif stack.status == "UPDATE_FAILED" and stack.previous is not None:
            cfn.stacks.set_status(stack, "UPDATE_ROLLBACK_IN_PROGRESS", "User Initiated")
            work = Deployment.roll_back_update
        else:
            raise validation_error(
                f"Stack:{stack.stack_id} is in {stack.status} state and can not be rolled back."
            )
    cfn.operations.run(stack, work)
    return {"StackId": stack.stack_id}


@operation("UpdateTerminationProtection")
def update_termination_protection(
    cfn: CloudFormation, call: Call, request: shapes.UpdateTerminationProtectionInput
) -> shapes.UpdateTerminationProtectionOutput:
    """Switch a stack's termination protection on or off. Source: API_UpdateTerminationProtection."""
    with cfn.lock:
        stack = cfn.find_live_stack(call, request["StackName"], stack_not_found)
        stack.termination_protection = bool(request["EnableTerminationProtection"])
        cfn.stacks.save(stack)
    return {"StackId": stack.stack_id}


@operation("SetStackPolicy")
def set_stack_policy(cfn: CloudFormation, call: Call, request: shapes.SetStackPolicyInput) -> None:
    """Store a stack policy, which later updates are checked against. Source: API_SetStackPolicy."""
    with cfn.lock:
        stack = cfn.find_live_stack(call, request["StackName"])
        stack.policy = policy_of(cfn, request) or stack.policy
        cfn.stacks.save(stack)


@operation("GetStackPolicy")
def get_stack_policy(
    cfn: CloudFormation, call: Call, request: shapes.GetStackPolicyInput
) -> shapes.GetStackPolicyOutput:
    """Return a stack policy. Source: API_GetStackPolicy."""
    stack = cfn.find_live_stack(call, request["StackName"])
    policy = stack.policy
    if stack.in_progress and stack.temporary_policy:  # recorded
        policy = stack.temporary_policy
    return {"StackPolicyBody": policy} if policy else {}


_IN_PROGRESS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS")


def _waits(stack: Stack, resource: Resource) -> bool:
    # CodeDeploy passes on the results of an alias's lifecycle hooks as signals.
    definition = parse(stack.body).resources.get(resource.logical_id, resource.definition)
    return resource.type in SIGNALLED or alias_policy(definition) is not None


@operation("SignalResource")
def signal_resource(cfn: CloudFormation, call: Call, request: shapes.SignalResourceInput) -> None:
    """Send a signal to a resource that waits for it. Source: API_SignalResource; the sentences were observed."""
    name = request["LogicalResourceId"]
    with cfn.lock:
        stack = cfn.find_live_stack(call, request["StackName"])
        if not stack.in_progress:
            raise validation_error(
                f"Stack:{stack.stack_id} is in {stack.status} state and can not be signaled."
            )
        resource = stack.resources.get(name)
        if resource is None:
            raise validation_error(f"Resource {name} does not exist for stack {stack.name}")
        if resource.status not in _IN_PROGRESS or not _waits(stack, resource):
            raise validation_error(
                f"Resource {name} is in {resource.status} state and cannot be signaled"
            )
        signal = Signal(request["UniqueId"], request["Status"])
        receiver = receiver_of(stack.stack_id, name)
        if not cfn.operations.ports.signals.send(receiver, signal):
            raise validation_error(
                f"Signal with ID {signal.unique_id} for resource {name} already exists. Signals may only be updated"
                " with a FAILURE status."
            )
