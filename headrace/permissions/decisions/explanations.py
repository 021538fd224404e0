"""Explains a decision statement by statement, makes a role's smallest policy, and finds unused statements."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from headrace.core.patterns import glob_matches
from headrace.core.ports import CallerIdentity
from headrace.permissions.decisions.decisions import Decisions
from headrace.permissions.decisions.identity import NOT_IN_IAM, Identity, at, identity_of, with_tags
from headrace.permissions.policies.conditions import Condition, Values
from headrace.permissions.policies.document import Statement
from headrace.permissions.policies.evaluate import (
    RESOURCE,
    Grant,
    denial,
    evaluate,
    grant_of,
    layers_of,
    values_of,
)
from headrace.permissions.policies.model import (
    Access,
    Decision,
    Layer,
    NamedPolicy,
    Policies,
    Principal,
)
from headrace.permissions.requests.table import prefix_named

# Condition keys that belong to the permission: without iam:PassedToService a role could be passed to every service.
_KEPT_KEYS = {"iam:passedtoservice": "iam:PassedToService"}
_Conditions = tuple[tuple[str, str], ...]
_MOST_NAMES = 5
_PARTITION = "arn:${AWS::Partition}:"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Unused:
    """A statement that allowed no access: its policy, its number from 1, its Sid, and its unused actions."""

    policy: str
    number: int
    sid: str
    actions: tuple[str, ...]
    is_whole: bool


def least_policy(
    accesses: Iterable[Access], account: str, region: str, *, with_variables: bool = True
) -> dict[str, Any]:
    """Return the smallest identity policy that allows the accesses, as its JSON document.

    Actions on the same resources share a statement, and so do resources of one kind with the same actions. S3 objects
    below one prefix, and names that differ only in an id, become one wildcard. `with_variables` writes account and
    region as `${AWS::AccountId}` and `${AWS::Region}`, for Fn::Sub in templates.
    """
    by_place: dict[tuple[str, str, _Conditions], set[str]] = defaultdict(set)
    for access in accesses:
        service = access.action.partition(":")[0]
        resource = _general(access.resource)
        if with_variables:
            resource = _variables(resource, account, region)
        by_place[service, resource, _conditions(access)].add(access.action)
    by_actions: dict[tuple[str, tuple[str, ...], _Conditions], list[str]] = defaultdict(list)
    for (service, resource, conditions), actions in sorted(by_place.items()):
        by_actions[service, tuple(sorted(actions)), conditions].append(resource)
    taken: dict[str, int] = {}
    statements = [
        _statement(actions, resources, conditions, _sid(actions, taken))
        for (_, actions, conditions), resources in sorted(by_actions.items())
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def find_unused_statements(
    principal: Principal, accesses: Iterable[Access], policies: Policies
) -> tuple[Unused, ...]:
    """Return the statements of the principal's own policies that no access used, or not with all of their actions.

    An action with a wildcard counts as used when one access needed it. Denials are left out, since they are meant to
    stay unused.
    """
    used: dict[tuple[NamedPolicy, int], set[str]] = defaultdict(set)
    for access in _distinct(accesses):
        for match in evaluate(principal, access, policies).matched:
            used[match.policy, match.index].add(access.action.lower())
    unused_statements: list[Unused] = []
    for policy in policies.identity:
        for statement in policy.document.statements:
            if statement.effect == "Deny":
                continue
            actions = used.get((policy, statement.index), set())
            idle = _idle(statement.actions.sources, actions) if not statement.not_actions else ()
            if idle or not actions:
                unused_statements.append(
                    Unused(policy.name, statement.index + 1, statement.sid, idle, not actions)
                )
    return tuple(unused_statements)


def _distinct(accesses: Iterable[Access]) -> list[Access]:
    """Return the accesses without duplicates."""
    seen = {(a.action, a.resource, tuple(sorted(a.context.items()))): a for a in accesses}
    return list(seen.values())


def _idle(sources: Iterable[str], used: set[str]) -> tuple[str, ...]:
    return tuple(s for s in sources if not any(glob_matches(s.lower(), action) for action in used))


# --- the statements -------------------------------------------------------------------------------


def _conditions(access: Access) -> _Conditions:
    kept: list[tuple[str, str]] = []
    for key, name in _KEPT_KEYS.items():
        kept += [(name, value) for value in access.context.get(key, ())]
    return tuple(kept)


def _statement(
    actions: tuple[str, ...],
    resources: list[str],
    conditions: _Conditions,
    sid: str,
) -> dict[str, Any]:
    statement: dict[str, Any] = {
        "Sid": sid,
        "Effect": "Allow",
        "Action": list(actions) if len(actions) > 1 else "".join(actions),
        "Resource": _drop_covered(resources),
    }
    if conditions:
        statement["Condition"] = {"StringEquals": dict(conditions)}
    return statement


def _drop_covered(resources: list[str]) -> Any:
    """Return the resources without those that other resources in the list match."""
    if "*" in resources:
        return "*"
    wide = [resource for resource in resources if resource.endswith("*")]
    kept = [r for r in resources if not any(w != r and r.startswith(w[:-1]) for w in wide)]
    return kept[0] if len(kept) == 1 else kept


def _general(resource: str) -> str:
    """Return a resource with wildcards as people write it: an object's folder, a stack's ids, a group's streams."""
    if ":s3:::" in resource and "/" in resource:
        bucket, _, key = resource.partition("/")
        folder, slash, _ = key.partition("/")
        return f"{bucket}/{folder}/*" if slash else f"{bucket}/*"
    if ":log-group:" in resource and ":log-stream:" in resource:
        return resource.partition(":log-stream:")[0] + ":*"
    for mark in (":stack/", ":cluster/", "/jobruns/", ":event-source-mapping:"):
        head, separator, rest = resource.partition(mark)
        if separator:
            return f"{head}{mark}{rest.partition('/')[0] + '/*' if mark == ':stack/' else '*'}"
    if "/consumer/" in resource:
        return resource.rpartition(":")[0] + ":*"
    return resource.removesuffix("-??????") + "-*" if resource.endswith("-??????") else resource


def _variables(resource: str, account: str, region: str) -> str:
    """Return an ARN with pseudo parameters for its partition, region and account."""
    parts = resource.split(":", 5)
    if len(parts) != 6 or parts[0] != "arn":
        return resource
    _, _, service, in_region, of_account, rest = parts
    in_region = "${AWS::Region}" if in_region == region else in_region
    of_account = "${AWS::AccountId}" if of_account == account else of_account
    return f"{_PARTITION}{service}:{in_region}:{of_account}:{rest}"


def _sid(actions: tuple[str, ...], taken: dict[str, int]) -> str:
    """Return a Sid: the service and the verbs (`KinesisGetList`), with a number when it is used already."""
    service = next(iter(actions)).partition(":")[0].replace("-", " ").title().replace(" ", "")
    verbs = dict.fromkeys(_verb(action) for action in actions)
    name = service + "".join(list(verbs)[:3])
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}{taken[name]}"


def _verb(action: str) -> str:
    match = _WORD.match(action.partition(":")[2])
    return match[0] if match else ""


Verdict = Literal["allows", "denies", "does not apply"]


@dataclass(frozen=True, slots=True)
class StatementVerdict:
    """A statement in an explanation: its layer, policy, number from 1, Sid, verdict and reason."""

    layer: Layer
    policy: str
    number: int
    sid: str
    verdict: Verdict
    reason: str

    def line(self) -> str:
        """Return the statement as one line of text."""
        name = f"{self.sid}, statement {self.number}" if self.sid else f"statement {self.number}"
        return f"{self.layer} {self.policy}, {name}: {self.verdict} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, AWS's sentence when it is a refusal, and the verdict of each statement."""

    decision: Decision
    sentence: str
    statements: tuple[StatementVerdict, ...]

    def lines(self) -> tuple[str, ...]:
        """Return the explanation as lines: the decision, the statements that applied, then the others."""
        order = sorted(self.statements, key=lambda statement: statement.verdict == "does not apply")
        first = self.sentence or f"Allowed by the {self.decision.layer}."
        return (first, *(f"  {statement.line()}" for statement in order))


def explain(principal: Principal, access: Access, policies: Policies) -> Explanation:
    """Return why the principal may or may not make the access. Pure."""
    decision = evaluate(principal, access, policies)
    values = values_of(principal, access)
    statements = tuple(
        _verdict(layer, policy, statement, _misfit(layer, statement, principal, access, values))
        for layer, policy in layers_of(policies)
        for statement in policy.document.statements
    )
    sentence = "" if decision.allowed else denial(principal, access, decision)
    return Explanation(decision, sentence, statements)


def _verdict(
    layer: Layer, policy: NamedPolicy, statement: Statement, misfit: str
) -> StatementVerdict:
    verdict: Verdict = "allows" if statement.effect == "Allow" else "denies"
    return StatementVerdict(
        layer,
        policy.name,
        statement.index + 1,
        statement.sid,
        "does not apply" if misfit else verdict,
        misfit or "principal, action, resource and conditions fit",
    )


def _misfit(
    layer: Layer, statement: Statement, principal: Principal, access: Access, values: Values
) -> str:
    """Return the first part of the statement that does not match; empty when all match."""
    if layer == RESOURCE and grant_of(statement, principal) is Grant.NONE:
        return f"Principal does not name {principal.arn or 'an anonymous caller'}"
    if not statement.has_action(access.action.lower()):
        name = "NotAction lists" if statement.not_actions else "Action does not list"
        return f"{name} {access.action}"
    if not statement.has_resource(access.resource, values):
        name = "NotResource matches" if statement.not_resources else "Resource does not match"
        return f"{name} {access.resource}"
    unmet = statement.unmet(values)
    return "" if unmet is None else _unmet(unmet, values)


def _unmet(condition: Condition, values: Values) -> str:
    actual = values(condition.key)
    expected = ", ".join(text.source for text in condition.values)
    has = f"is {', '.join(actual)}" if actual else "is not in the request"
    return f"{condition.operator} on {condition.key} wants {expected}, which {has}"


_WHO = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}):(role|user)/\S+")
_SESSION = re.compile(r"arn:aws[a-z-]*:sts::(\d{12}):assumed-role/([^/\s]+)/(\S+)")
_SERVICE = re.compile(r"[a-z0-9.-]+\.amazonaws\.com")
_ACTION = re.compile(r"[a-z0-9-]+:[A-Za-z0-9]+")


class InvalidQuestion(ValueError):
    """The caller does not exist, or the question is malformed; the message is one sentence."""


def why(decisions: Decisions, arn: str, action: str, resource: str) -> dict[str, Any]:
    """Return whether a user, role or service may do an action, and how each statement counts. Raises InvalidQuestion.

    The result has `allowed`; `lines`, the explanation as text; and `statements`, each with its layer, policy, number
    from 1, Sid, verdict and reason.
    """
    identity = _parse_identity(arn)
    if _ACTION.fullmatch(action) is None:
        raise InvalidQuestion(f"An action is one such as kinesis:PutRecords, not {action!r}.")
    if resource != "*" and resource.count(":") < 5:
        raise InvalidQuestion(f"A resource is an ARN or *, not {resource!r}.")
    access = Access.to(action, resource or "*")
    subject = decisions.judge.subject_of(identity, access)
    if subject is None:
        raise InvalidQuestion(f"{identity.arn} {NOT_IN_IAM}.")
    access = at(access, subject[1], decisions.judge.clock.now_ms(), identity)[0]
    access = with_tags(access, subject[1], decisions.judge.tags_of)[0]
    explanation = explain(subject[0], access, subject[1])
    return {
        "allowed": explanation.decision.allowed,
        "lines": [*explanation.lines(), *_unknown_action_lines(action)],
        "statements": [
            {
                "layer": statement.layer,
                "policy": statement.policy,
                "statement": statement.number,
                "sid": statement.sid,
                "verdict": statement.verdict,
                "reason": statement.reason,
            }
            for statement in explanation.statements
        ],
    }


def _unknown_action_lines(action: str) -> list[str]:
    """Return a line about an action that AWS's tables do not have, which is usually misspelt."""
    vendor, _, name = action.partition(":")
    prefix = prefix_named(vendor)
    if prefix is None or name.lower() in prefix.actions:
        return []
    return [f"  AWS's list of the actions of {vendor} has no {name}."]


def policy_of(decisions: Decisions, role: str, account: str, region: str) -> dict[str, Any]:
    """Return the smallest policy for a role's accesses, and its unused statements. Raises InvalidQuestion.

    The result has `policy`, an IAM policy document; `unused`, sentences; and `accesses`, the number of accesses that
    the policy covers. `account` is the account of a role that is given by name, `region` is replaced by
    `${AWS::Region}`.
    """
    if not role:
        raise InvalidQuestion("Name a role, or its ARN.")
    arn = role if role.startswith("arn:") else f"arn:aws:iam::{account}:role/{role}"
    identity = _parse_identity(arn)
    entries = [entry for entry in decisions.entries() if entry.identity.arn == identity.arn]
    subject = decisions.judge.subject_of(identity, Access("sts:GetCallerIdentity"))
    if subject is None and not entries:
        hint = _roles_named_like(identity, decisions)
        raise InvalidQuestion(f"{identity.arn} {NOT_IN_IAM}, and nobody acted as it{hint}.")
    accesses = [entry.access for entry in entries]
    principal, policies = subject or (None, Policies())
    unused = () if principal is None else find_unused_statements(principal, accesses, policies)
    return {
        "policy": least_policy(accesses, identity.account, region),
        "unused": [_sentence(unused_action) for unused_action in unused],
        "accesses": len(accesses),
    }


def _roles_named_like(asked: Identity, decisions: Decisions) -> str:
    """Return "; of such names there is ..", the roles that acted and have the name in theirs, as CDK's have."""
    names = {
        entry.identity.name
        for entry in decisions.entries()
        if (entry.identity.kind, entry.identity.account) == (asked.kind, asked.account)
        and asked.name.lower() in entry.identity.name.lower()
    }
    return f"; of such names there is {', '.join(sorted(names)[:_MOST_NAMES])}" if names else ""


def _sentence(unused: Unused) -> str:
    name = f"{unused.policy}, statement {unused.number}" + (
        f" ({unused.sid})" if unused.sid else ""
    )
    return name if unused.is_whole else f"{name}: {', '.join(unused.actions)}"


def _parse_identity(arn: str) -> Identity:
    """Return the caller that a question is about. Raises InvalidQuestion."""
    session = _SESSION.fullmatch(arn)
    if session is not None:
        return Identity("role", session[2], session[1], session[3])
    if _WHO.fullmatch(arn) is None and _SERVICE.fullmatch(arn) is None:
        raise InvalidQuestion(
            f"{arn!r} is neither the ARN of a role or user nor a service such as lambda.amazonaws.com."
        )
    return identity_of(CallerIdentity(arn, "session"))
