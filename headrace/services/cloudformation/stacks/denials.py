"""Decides which resources an update may change, replace or delete under the stack policy. Pure functions.

Documented: .../UserGuide/protect-stack-resources.html. The sentences of denials were observed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from headrace.core.wildcards import glob_matches


def denial(policy: str, action: str, logical_id: str, kind: str) -> str:
    """Return why a policy denies an update action on a resource; an empty text: it is allowed.

    Args:
        policy: as `policy_of` returned it; an empty text allows everything.
        action: such as `Update:Replace`.
        logical_id: the resource's.
        kind: the resource's type.
    """
    if not policy:
        return ""
    statements: list[dict[str, Any]] = json.loads(policy).get("Statement", [])
    resource = f"LogicalResourceId/{logical_id}"
    allowed = False
    for number, statement in enumerate(statements, 1):
        if not (
            _is_meant(statement, "Action", action)
            and _is_meant(statement, "Resource", resource)
            and _holds(statement.get("Condition") or {}, kind)
        ):
            continue
        if statement["Effect"] == "Deny":
            named = _texts(statement.get("Resource", statement.get("NotResource")))
            return (
                f"Action denied by stack policy: Statement [#{number}] does not allow [{action}] for resource"
                f" [{', '.join(named)}];"
            )
        allowed = True
    # A stack policy denies every update that no statement allows (documented).
    return "" if allowed else "Action not allowed by stack policy"


def _texts(value: Any) -> list[str]:
    return [str(item) for item in cast("list[Any]", value if isinstance(value, list) else [value])]


def _is_meant(statement: Mapping[str, Any], member: str, value: str) -> bool:
    """Whether a statement's Action or Resource, or NotAction or NotResource, applies to a value."""
    if f"Not{member}" in statement:
        return not any(glob_matches(text, value) for text in _texts(statement[f"Not{member}"]))
    return any(glob_matches(text, value) for text in _texts(statement.get(member, [])))


def _holds(condition: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition on the resource's type is true; any other condition is false."""
    for operator, keys in condition.items():
        for key, values in cast("Mapping[str, Any]", keys).items():
            expected = _texts(values)
            matches = operator == "StringLike" and any(
                glob_matches(text, kind) for text in expected
            )
            equals = operator == "StringEquals" and kind in expected
            if key != "ResourceType" or not (matches or equals):
                return False
    return True
