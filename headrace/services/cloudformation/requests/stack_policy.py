"""Reads stack policies from requests, and validates them. `denials.py` applies them to updates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import TemplateError

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
