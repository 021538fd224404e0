"""SignalResource: reports to a stack that a resource is ready, or has failed."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.services.cloudformation.actions.stacks import living
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.deployment.alias_deployments import policy_of
from headrace.services.cloudformation.errors import validation_error
from headrace.services.cloudformation.signals import SIGNALLED, Signal, receiver_of
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.template.template_checks import parse

_IN_PROGRESS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS")


def _waits(stack: Stack, resource: Resource) -> bool:
    # CodeDeploy passes on the results of an alias's lifecycle hooks as signals.
    definition = parse(stack.body).resources.get(resource.logical_id, resource.definition)
    return resource.type in SIGNALLED or policy_of(definition) is not None


@operation("SignalResource")
def signal_resource(cfn: CloudFormation, call: Call, request: shapes.SignalResourceInput) -> None:
    """Send a signal to a resource that waits for it. Source: API_SignalResource; the sentences were observed."""
    name = request["LogicalResourceId"]
    with cfn.lock:
        stack = living(cfn, call, request["StackName"])
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
