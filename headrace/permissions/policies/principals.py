"""Decides whether a statement's Principal or NotPrincipal matches a caller, and how directly. Pure functions.

A caller has several names: a role's session matches the session, the role and the account. The name in a resource's
policy matters: a grant to an account only lets the account's own policies decide; a grant to a role is limited by its
permissions boundary; a grant to a user, a session, a service or everybody takes effect directly. Source:
docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html, ..._notprincipal.html and
reference_policies_evaluation-logic_policy-eval-basics.html.
"""

from __future__ import annotations

from enum import IntEnum

from headrace.permissions.policies.document import Principals, Statement
from headrace.permissions.policies.model import Principal


class Grant(IntEnum):
    """How directly a resource's policy grants an access; a higher value is more direct."""

    NONE = 0
    ACCOUNT = 1
    ROLE = 2
    DIRECT = 3


def grant_of(statement: Statement, principal: Principal) -> Grant:
    """Return how directly the statement names the caller; NONE when it does not."""
    if statement.principals is None:
        return Grant.NONE
    if not statement.not_principals:
        return _find_grant(statement.principals, principal)
    if statement.effect == "Deny":
        return Grant.NONE if _is_wholly_named(statement.principals, principal) else Grant.DIRECT
    named = _find_grant(statement.principals, principal)
    return Grant.DIRECT if named is Grant.NONE else Grant.NONE


def _find_grant(named: Principals, principal: Principal) -> Grant:
    if named.is_everyone:
        return Grant.DIRECT
    if principal.kind == "service":
        return Grant.DIRECT if principal.arn in named.services else Grant.NONE
    if principal.kind == "provider":
        return Grant.DIRECT if principal.arn in named.federated else Grant.NONE
    if principal.kind == "anonymous":
        return Grant.NONE
    by_name = {name: grant for grant, names in _names(principal) for name in names}
    return max((by_name.get(name, Grant.NONE) for name in named.aws), default=Grant.NONE)


def _is_wholly_named(named: Principals, principal: Principal) -> bool:
    """Whether all of the caller's names are in the list; only then does a Deny with NotPrincipal not apply."""
    if named.is_everyone:
        return True
    if principal.kind == "service":
        return principal.arn in named.services
    if principal.kind == "provider":
        return principal.arn in named.federated
    if principal.kind == "anonymous":
        return False
    return all(any(name in named.aws for name in names) for _, names in _names(principal))


def _names(principal: Principal) -> list[tuple[Grant, tuple[str, ...]]]:
    """Return the caller's names, each in all its forms."""
    partition = principal.arn.split(":", 2)[1] if principal.arn.count(":") > 1 else "aws"
    account = (principal.account, f"arn:{partition}:iam::{principal.account}:root")
    names: list[tuple[Grant, tuple[str, ...]]] = [(Grant.ACCOUNT, account)]
    if principal.kind == "role":
        role_id = principal.user_id.partition(":")[0]
        names.append((Grant.ROLE, _spellings(principal.identity_arn, role_id)))
        names.append((Grant.DIRECT, _spellings(principal.arn, principal.user_id)))
    elif principal.kind == "federated":
        # The session policies limit a grant to the user who requested the session, as with a role.
        if principal.identity_arn:
            names.append((Grant.ROLE, (principal.identity_arn,)))
        names.append((Grant.DIRECT, _spellings(principal.arn, principal.user_id)))
    elif principal.kind == "user":
        arn = principal.identity_arn or principal.arn
        names.append((Grant.DIRECT, _spellings(arn, principal.user_id)))
    return names


def _spellings(arn: str, unique_id: str) -> tuple[str, ...]:
    return tuple(name for name in (arn, unique_id) if name)
