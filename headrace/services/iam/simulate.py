"""Computes the answers of IAM's policy simulator: SimulatePrincipalPolicy, SimulateCustomPolicy, GetContextKeysFor...

Shapes and defaults: docs.aws.amazon.com/IAM/latest/APIReference/API_SimulateCustomPolicy.html and
API_SimulatePrincipalPolicy.html. The simulator's names for the policies of a request (`PolicyInputList.1`) are from
their examples; the sentences of refusals are assumed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from headrace.core.values import parse_json
from headrace.permissions.policies.conditions import Values
from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.evaluate import evaluate, keys_asked, layers_of, values_of
from headrace.permissions.policies.grammar import PolicyError, PolicyKind, check_policy
from headrace.permissions.policies.model import (
    Access,
    Decision,
    Match,
    NamedPolicy,
    Policies,
    Principal,
)

_DECISIONS = {"allow": "allowed", "explicit deny": "explicitDeny", "implicit deny": "implicitDeny"}
_ACTION = re.compile(r"[A-Za-z0-9-]+:[A-Za-z0-9*?]+")
_VARIABLE = re.compile(r"\$\{([^}*?$,]+)[^}]*\}")


class BadSimulation(Exception):
    """IAM refuses the simulation: InvalidInput with this message."""


def parse_policies(texts: Iterable[str], name: str, kind: PolicyKind) -> tuple[NamedPolicy, ...]:
    """Return the policies in the request, with the simulator's names for them. Raises BadSimulation."""
    named: list[NamedPolicy] = []
    for number, text in enumerate(texts, start=1):
        try:
            check_policy(text, kind, is_managed=False)
            named.append(NamedPolicy.of(f"{name}.{number}" if kind != "resource" else name, text))
        except (PolicyError, UnreadableDocument) as error:
            raise BadSimulation(str(error)) from None
    return tuple(named)


def simulate(
    principal: Principal, policies: Policies, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one page of results, for each action on each resource. `parameters` are the operation's.

    Raises BadSimulation for input that IAM refuses.
    """
    actions = cast("list[str]", parameters["ActionNames"])
    for action in actions:
        if not _ACTION.fullmatch(action):
            raise BadSimulation(f"Invalid action name: {action}")
    resources = cast("list[str]", parameters.get("ResourceArns") or ["*"])
    owner = str(parameters.get("ResourceOwner") or "").split(":")
    account = owner[4] if len(owner) > 4 else owner[0]
    context = context_of(cast("list[Mapping[str, Any]]", parameters.get("ContextEntries") or []))
    accesses = [
        Access(action, resource, account or principal.account, context)
        for action in actions
        for resource in resources
    ]
    start = _start_of(parameters)
    end = start + int(parameters.get("MaxItems") or 100)
    answer: dict[str, Any] = {
        "EvaluationResults": [_result(principal, a, policies) for a in accesses[start:end]],
        "IsTruncated": end < len(accesses),
    }
    if end < len(accesses):
        answer["Marker"] = str(end)
    return answer


def context_keys(texts: Iterable[str]) -> list[str]:
    """Return the condition keys that policies refer to, in conditions and as variables, sorted."""
    keys: set[str] = set()
    for text in texts:
        try:
            keys.update(_keys_in(parse_json(text)))
        except ValueError:
            raise BadSimulation("Syntax errors in policy.") from None
    return sorted(keys)


def context_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return ContextEntries as condition keys and their values."""
    return {
        str(entry.get("ContextKeyName", "")).lower(): tuple(
            str(value) for value in cast("list[Any]", entry.get("ContextKeyValues") or [])
        )
        for entry in entries
    }


def _start_of(parameters: Mapping[str, Any]) -> int:
    marker = str(parameters.get("Marker") or "0")
    if not marker.isascii() or not marker.isdigit() or len(marker) > 6:
        raise BadSimulation(f"Invalid Marker: {marker}")
    return int(marker)


def _keys_in(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        members = cast("dict[str, Any]", document)
        condition = members.get("Condition")
        if isinstance(condition, dict):
            for keys in cast("dict[str, Any]", condition).values():
                if isinstance(keys, dict):
                    yield from cast("dict[str, Any]", keys)
        for value in members.values():
            yield from _keys_in(value)
    elif isinstance(document, list):
        for value in cast("list[Any]", document):
            yield from _keys_in(value)
    elif isinstance(document, str):
        yield from (key.strip() for key in _VARIABLE.findall(document))


# --- one result -----------------------------------------------------------------------------------


def _result(principal: Principal, access: Access, policies: Policies) -> dict[str, Any]:
    decision = evaluate(principal, access, policies)
    result: dict[str, Any] = {
        "EvalActionName": access.action,
        "EvalResourceName": access.resource,
        "EvalDecision": _DECISIONS[decision.effect],
        "MatchedStatements": _list_matched(decision),
        "MissingContextValues": _list_missing_keys(access, policies, values_of(principal, access)),
    }
    if policies.boundary is not None:
        is_within = any(match.layer == "permissions boundary" for match in decision.matched)
        result["PermissionsBoundaryDecisionDetail"] = {
            "AllowedByPermissionsBoundary": is_within and decision.effect != "explicit deny"
        }
    return result


def _list_matched(decision: Decision) -> list[dict[str, Any]]:
    """Return the statements that decided; an implicit denial has none."""
    if decision.effect == "implicit deny":
        return []
    return [_statement(match) for match in decision.matched]


def _statement(match: Match) -> dict[str, Any]:
    start, end = position_of(match.policy.document.text, match.index)
    kind = "resource" if match.layer == "resource-based policy" else "none"
    if match.policy.arn:
        kind = "aws-managed" if ":iam::aws:" in match.policy.arn else "user-managed"
    elif match.policy.name.startswith(("user_", "role_", "group_")):
        kind = match.policy.name.partition("_")[0]
    return {
        "SourcePolicyId": match.policy.name,
        "SourcePolicyType": kind,
        "StartPosition": start,
        "EndPosition": end,
    }


def _list_missing_keys(access: Access, policies: Policies, values: Values) -> list[str]:
    """Return the condition keys that statements about the access use and the request does not give."""
    asked = {key for key in keys_asked(access, policies) if not values(key)}
    value = {
        key.lower(): key
        for key in context_keys(policy.document.text for _, policy in layers_of(policies))
    }
    return sorted(value.get(key, key) for key in asked)


def position_of(text: str, index: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return line and column, counted from 1, of a statement's start and of the position after its end."""
    starts_and_ends = _spans(text)
    start, end = starts_and_ends[index] if index < len(starts_and_ends) else (0, len(text))
    return _place(text, start), _place(text, end)


def _place(text: str, offset: int) -> dict[str, int]:
    line_start = text.rfind("\n", 0, offset) + 1
    return {"Line": text.count("\n", 0, offset) + 1, "Column": offset - line_start + 1}


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each statement of a policy, which is valid JSON."""
    decoder = json.JSONDecoder()
    position = _past_white(text, text.index("{") + 1)
    while text[position] == '"':
        name, position = decoder.raw_decode(text, position)
        position = _past_white(text, _past_white(text, position) + 1)
        if name == "Statement":
            return _spans_of_value(decoder, text, position)
        position = _past_white(text, decoder.raw_decode(text, position)[1])
        position = _past_white(text, position + 1) if text[position] == "," else position
    return []


def _spans_of_value(decoder: json.JSONDecoder, text: str, at: int) -> list[tuple[int, int]]:
    if text[at] == "{":
        return [(at, decoder.raw_decode(text, at)[1])]
    spans: list[tuple[int, int]] = []
    at = _past_white(text, at + 1)
    while text[at] == "{":
        end = decoder.raw_decode(text, at)[1]
        spans.append((at, end))
        at = _past_white(text, end)
        at = _past_white(text, at + 1) if text[at] == "," else at
    return spans


def _past_white(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
