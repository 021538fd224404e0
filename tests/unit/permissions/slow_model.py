"""IAM's evaluation written a second time: slow, without compilation, straight from the documentation's sentences.

It shares nothing with headrace.permissions: it reads policies as JSON, tries every way in which a wildcard can match,
and takes a request through the questions of AWS's flow chart in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OPPOSITES = {
    "StringNotEquals": "StringEquals",
    "StringNotLike": "StringLike",
    "NumericNotEquals": "NumericEquals",
}


@dataclass
class Asked:
    """A request: who asks, by all names, for what, on which resource, with which keys."""

    kind: str
    account: str
    arn: str
    role: str
    action: str
    resource: str
    resource_account: str
    keys: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@dataclass
class Given:
    """The policies that apply, as JSON documents."""

    identity: list[dict[str, Any]]
    boundary: dict[str, Any] | None = None
    session: list[dict[str, Any]] | None = None
    resource: dict[str, Any] | None = None


def matches(pattern: str, text: str) -> bool:
    """Whether wildcards match: character by character, every length of a star tried."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(matches(pattern[1:], text[n:]) for n in range(len(text) + 1))
    if not text:
        return False
    return pattern[0] in ("?", text[0]) and matches(pattern[1:], text[1:])


def listed(said: Any) -> list[Any]:
    return said if isinstance(said, list) else [said]


def substituted(pattern: str, asked: Asked) -> str | None:
    """Return a pattern with the values of its variables; None where one is missing."""
    for name in ("aws:username", "aws:PrincipalTag/team"):
        mark = "${" + name + "}"
        if mark in pattern:
            found = asked.keys.get(name, [])
            if len(found) != 1:
                return None
            pattern = pattern.replace(mark, found[0])
    return pattern


def action_fits(statement: dict[str, Any], action: str) -> bool:
    negated = "NotAction" in statement
    patterns = listed(statement["NotAction" if negated else "Action"])
    return any(matches(p.lower(), action.lower()) for p in patterns) != negated


def resource_fits(statement: dict[str, Any], asked: Asked) -> bool:
    if "Resource" not in statement and "NotResource" not in statement:
        return True
    negated = "NotResource" in statement
    found = False
    for said in listed(statement["NotResource" if negated else "Resource"]):
        pattern = substituted(said, asked)
        found = found or (pattern is not None and matches(pattern, asked.resource))
    return found != negated


def one_value_meets(operator: str, value: str, wanted: list[str], asked: Asked) -> bool:
    if operator in OPPOSITES:
        return not one_value_meets(OPPOSITES[operator], value, wanted, asked)
    if operator == "StringEquals":
        return any(substituted(one, asked) == value for one in wanted)
    if operator == "StringLike":
        patterns = [substituted(one, asked) for one in wanted]
        return any(p is not None and matches(p, value) for p in patterns)
    if operator == "NumericEquals":
        return any(float(one) == float(value) for one in wanted)
    if operator == "NumericLessThan":
        return any(float(value) < float(one) for one in wanted)
    if operator == "Bool":
        # Compared with true or false, nothing else.
        return any(
            one.lower() in ("true", "false") and one.lower() == value.lower() for one in wanted
        )
    raise AssertionError(operator)


def condition_met(operator: str, key: str, wanted: list[str], asked: Asked) -> bool:
    values = asked.keys.get(key, [])
    if operator == "Null":
        return any((one == "true") == (not values) for one in wanted)
    qualifier, _, rest = operator.partition(":") if ":" in operator else ("", "", operator)
    if rest.endswith("IfExists"):
        if not values:
            return True
        rest = rest.removesuffix("IfExists")
    if qualifier == "ForAllValues":
        return all(one_value_meets(rest, value, wanted, asked) for value in values)
    if qualifier == "ForAnyValue":
        return any(one_value_meets(rest, value, wanted, asked) for value in values)
    if not values:
        return rest in OPPOSITES
    return one_value_meets(rest, values[0], wanted, asked)


def conditions_met(statement: dict[str, Any], asked: Asked) -> bool:
    for operator, keys in statement.get("Condition", {}).items():
        for key, wanted in keys.items():
            if not condition_met(operator, key, listed(wanted), asked):
                return False
    return True


def named_as(statement: dict[str, Any], asked: Asked) -> str:
    """Return as what a resource's statement names the caller: nobody, account, role, itself."""
    root = f"arn:aws:iam::{asked.account}:root"
    if "NotPrincipal" in statement:
        names = listed(statement["NotPrincipal"].get("AWS", []))
        spared = [asked.account in names or root in names]
        if asked.kind == "role":
            spared.append(asked.role in names)
        spared.append(asked.arn in names)
        if statement["Effect"] == "Deny":
            return "nobody" if all(spared) else "itself"
        return "nobody" if any(spared) else "itself"
    said = statement["Principal"]
    names = ["*"] if said == "*" else listed(said.get("AWS", []))
    if "*" in names or asked.arn in names:
        return "itself"
    if asked.kind == "role" and asked.role in names:
        return "role"
    return "account" if asked.account in names or root in names else "nobody"


def fits(statement: dict[str, Any], asked: Asked) -> bool:
    return (
        action_fits(statement, asked.action)
        and resource_fits(statement, asked)
        and conditions_met(statement, asked)
    )


def effects(document: dict[str, Any], asked: Asked, effect: str) -> list[dict[str, Any]]:
    return [s for s in document["Statement"] if s["Effect"] == effect and fits(s, asked)]


def allows(documents: list[dict[str, Any]], asked: Asked) -> bool:
    return any(effects(document, asked, "Allow") for document in documents)


def decide(asked: Asked, given: Given) -> str:
    """Return what AWS decides: allow, explicit deny or implicit deny."""
    everything = [*given.identity, *(given.session or [])]
    everything += [given.boundary] if given.boundary else []
    if any(effects(document, asked, "Deny") for document in everything):
        return "explicit deny"
    as_what: set[str] = set()
    if given.resource:
        denials = effects(given.resource, asked, "Deny")
        if any(named_as(statement, asked) != "nobody" for statement in denials):
            return "explicit deny"
        as_what = {named_as(s, asked) for s in effects(given.resource, asked, "Allow")} - {"nobody"}
    within = given.boundary is None or allows([given.boundary], asked)
    within = within and (given.session is None or allows(given.session, asked))
    own = allows(given.identity, asked)
    if asked.account != asked.resource_account:
        return "allow" if own and within and as_what else "implicit deny"
    if "itself" in as_what or ("role" in as_what and within):
        return "allow"
    return "allow" if own and within else "implicit deny"
