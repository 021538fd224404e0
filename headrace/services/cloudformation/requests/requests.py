"""Copies a request's settings into a stack, its stack policy too: shared by creations, updates and change sets.

`denials.py` applies stack policies to updates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.shapes.cloudformation import (
    CreateStackInput,
    UpdateStackInput,
)
from headrace.core.values import get_list
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.fidelity import log_ignored
from headrace.services.cloudformation.requests.template_expansion import StackRequest
from headrace.services.cloudformation.state import ChangeSet, Stack
from headrace.services.cloudformation.store import resource_document
from headrace.services.cloudformation.template import graph
from headrace.services.cloudformation.template.template import Template

# The members of a request that contain or link to a policy: the stack's, and the one for one update.
STANDING = ("StackPolicyBody", "StackPolicyURL")
FOR_NOW = ("StackPolicyDuringUpdateBody", "StackPolicyDuringUpdateURL")


def policy_of(
    cfn: CloudFormation, request: Mapping[str, Any], members: tuple[str, str] = STANDING
) -> str | None:
    """Return the policy that a request contains or links to, or None. Raises TemplateError."""
    body, url = (request.get(member) for member in members)
    if body and url:  # recorded, like the other sentence
        raise TemplateError(f"You cannot specify both {members[1]} and {members[0]}")
    if not body and not url:
        return None
    text = str(body) if body else cfn.read_object(str(url))
    if not _is_policy(text):
        raise TemplateError("Error validating stack policy: Invalid stack policy")
    return text


def _is_policy(text: str) -> bool:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict):
        return False
    statements: Any = cast("dict[str, Any]", document).get("Statement", [])
    return isinstance(statements, list) and all(map(_is_statement, cast("list[Any]", statements)))


def _is_statement(statement: Any) -> bool:
    """Whether a statement allows or denies updates to everybody (documented: protect-stack-resources)."""
    if not isinstance(statement, dict):
        return False
    members = cast("dict[str, Any]", statement)
    actions: Any = members.get("Action", members.get("NotAction"))
    names = cast("list[Any]", actions) if isinstance(actions, list) else [actions]
    return (
        members.get("Effect") in ("Allow", "Deny")
        and members.get("Principal") == "*"
        and ("Resource" in members or "NotResource" in members)
        and all(isinstance(name, str) and name.startswith("Update:") for name in names)
        and _is_condition(members.get("Condition", {}))
    )


def _is_condition(condition: Any) -> bool:
    return isinstance(condition, dict) and all(
        isinstance(keys, dict) for keys in cast("dict[str, Any]", condition).values()
    )


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
