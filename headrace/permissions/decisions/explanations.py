"""Explains permissions to the user: why an access is allowed or denied, and the smallest policy for a role."""

from __future__ import annotations

import re
from typing import Any

from headrace.core.ports import CallerIdentity
from headrace.permissions.decisions.condition_values import at, with_tags
from headrace.permissions.decisions.decisions import Decisions
from headrace.permissions.decisions.identity import Identity, identity_of
from headrace.permissions.decisions.refusals import NOT_IN_IAM
from headrace.permissions.policies.explain import explain
from headrace.permissions.policies.least_privilege import (
    Unused,
    find_unused_statements,
    least_policy,
)
from headrace.permissions.policies.model import Access, Policies
from headrace.permissions.requests.table import prefix_named

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
    subject = decisions.subject_of(identity, access)
    if subject is None:
        raise InvalidQuestion(f"{identity.arn} {NOT_IN_IAM}.")
    access = at(access, subject[1], decisions.clock.now_ms(), identity)[0]
    access = with_tags(access, subject[1], decisions.tags_of)[0]
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
    subject = decisions.subject_of(identity, Access("sts:GetCallerIdentity"))
    if subject is None and not entries:
        raise InvalidQuestion(f"{identity.arn} {NOT_IN_IAM}, and nobody acted as it.")
    accesses = [entry.access for entry in entries]
    principal, policies = subject or (None, Policies())
    unused = () if principal is None else find_unused_statements(principal, accesses, policies)
    return {
        "policy": least_policy(accesses, identity.account, region),
        "unused": [_sentence(unused_action) for unused_action in unused],
        "accesses": len(accesses),
    }


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
