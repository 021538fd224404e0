"""Copies a request's settings into a stack: shared by creations, updates and change sets."""

from __future__ import annotations

from typing import Any

from headrace.aws.shapes.cloudformation import (
    CreateStackInput,
    UpdateStackInput,
)
from headrace.core.values import get_list
from headrace.services.cloudformation.fidelity import log_ignored
from headrace.services.cloudformation.requests.template_expansion import StackRequest
from headrace.services.cloudformation.state import ChangeSet, Stack
from headrace.services.cloudformation.store import resource_document
from headrace.services.cloudformation.template import graph
from headrace.services.cloudformation.template.template import Template

NO_CHANGES = (
    "The submitted information didn't contain changes."
    " Submit different information to create a change set."
)
NO_UPDATES = "No updates are to be performed."
UPDATABLE = (
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE",
    "IMPORT_COMPLETE",
    "IMPORT_ROLLBACK_COMPLETE",
    "UPDATE_FAILED",
    "CREATE_FAILED",
)


def tags_of(request: StackRequest, stack: Stack) -> dict[str, str]:
    """Return the tags that a request gives the stack; without any, the stack's own."""
    tags = request.get("Tags")
    return stack.tags if tags is None else {tag["Key"]: tag["Value"] for tag in tags}


def disables_rollback(request: CreateStackInput | UpdateStackInput) -> bool:
    """Whether a request keeps the resources of a failed operation as they are."""
    configured = request.get("DeploymentConfig") or {}
    return bool(request.get("DisableRollback") or configured.get("DisableRollback"))


def take_over(
    stack: Stack, template: Template, values: dict[str, Any], request: StackRequest
) -> None:
    """Copy a request's template and settings into the stack; the caller stores it when it sets the status."""
    tags = tags_of(request, stack)
    if stack.body:
        # The state that a failed update restores.
        stack.previous = {
            "body": stack.body,
            "original_body": stack.original_body,
            "description": stack.description,
            "parameters": stack.parameters,
            "tags": stack.tags,
            "capabilities": stack.capabilities,
            "outputs": stack.outputs,
            "imports": list(stack.imports),
            "resources": {
                name: resource_document(resource) for name, resource in stack.resources.items()
            },
            "order": graph.in_order(
                {name: set(r.depends_on) for name, r in stack.resources.items()}
            ),
        }
    stack.enforced_policy = stack.policy if stack.body else ""
    stack.temporary_policy = ""
    stack.retain_except_on_create = bool(request.get("RetainExceptOnCreate"))
    stack.importing = {}
    stack.body = template.body
    stack.original_body = template.original
    stack.description = template.description
    stack.parameters = values
    stack.tags = tags
    stack.capabilities = get_list(request, "Capabilities")
    stack.imports = []
    stack.role_arn = request.get("RoleARN") or stack.role_arn
    if request.get("NotificationARNs") is not None:
        stack.notification_arns = get_list(request, "NotificationARNs")
    if configuration := request.get("RollbackConfiguration"):
        # A request without a member keeps the stack's value (documented: API_RollbackConfiguration).
        stack.rollback_configuration = {**stack.rollback_configuration, **configuration}
    log_ignored(stack.name, template)


def fail_change_set(change_set: ChangeSet, reason: str) -> None:
    """Set a change set to FAILED, so that it cannot be executed."""
    change_set.status = "FAILED"
    change_set.reason = reason
    change_set.execution_status = "UNAVAILABLE"
