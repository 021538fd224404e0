"""Makes the smallest policy for a role's accesses, grouped as people write policies, and finds unused statements."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.core.wildcards import glob_matches
from headrace.permissions.policies.evaluate import evaluate
from headrace.permissions.policies.model import Access, NamedPolicy, Policies, Principal

# Condition keys that belong to the permission: without iam:PassedToService a role could be passed to every service.
_KEPT_KEYS = {"iam:passedtoservice": "iam:PassedToService"}
_Conditions = tuple[tuple[str, str], ...]
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
