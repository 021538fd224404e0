"""Decides, as AWS does, whether a principal may make an access under the policies that apply. Pure functions.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-denyallow.html,
..._policy-eval-basics.html (one account), reference_policies_evaluation-logic-cross-account.html and
troubleshoot_access-denied.html (sentences). Organisations' policies (SCP, RCP) and VPC endpoints' do not exist here.

Decides whether a statement's Principal or NotPrincipal matches a caller, and how directly. Pure functions.

A caller has several names: a role's session matches the session, the role and the account. The name in a resource's
policy matters: a grant to an account only lets the account's own policies decide; a grant to a role is limited by its
permissions boundary; a grant to a user, a session, a service or everybody takes effect directly. Source:
docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html, ..._notprincipal.html and
reference_policies_evaluation-logic_policy-eval-basics.html.

The condition keys of every call: those of the caller, and of the resource's account.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html and
reference_policies_variables.html (the values of aws:userid and aws:PrincipalType for each kind of principal).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from headrace.permissions.policies.conditions import Values
from headrace.permissions.policies.document import Principals, Statement
from headrace.permissions.policies.model import (
    Access,
    Decision,
    Layer,
    Match,
    NamedPolicy,
    Policies,
    Principal,
)

_TYPES = {
    "root": "Account", "user": "User", "role": "AssumedRole", "federated": "FederatedUser", "anonymous": "Anonymous",
}  # fmt: skip


def values_of(principal: Principal, access: Access) -> Values:
    """Return the values of a call's condition keys (asked in lower case); the access's own win over the principal's.

    The access has the keys that depend on the time or the connection (aws:CurrentTime, aws:SourceIp).
    """
    context = access.context
    derived: dict[str, tuple[str, ...]] = {}

    def values(key: str) -> tuple[str, ...]:
        context_values = context.get(key)
        if context_values is not None:
            return context_values
        if not derived:
            derived.update(keys_of(principal, access))
        return derived.get(key, ())

    return values


def keys_of(principal: Principal, access: Access) -> dict[str, tuple[str, ...]]:
    """Return the keys, in lower case, that follow from the caller and the resource's account."""
    keys = {
        # Calls to headrace have no TLS, but clients use TLS on AWS.
        "aws:securetransport": "true",
        "aws:viaawsservice": "false",
        "aws:principalisawsservice": "true" if principal.kind == "service" else "false",
        "aws:principaltype": _TYPES.get(principal.kind, ""),
        "aws:userid": principal.user_id,
        "aws:resourceaccount": access.account,
        "aws:sourceidentity": principal.source_identity,
    }
    if principal.kind == "service":
        keys["aws:principalservicename"] = principal.arn
    elif principal.kind == "federated":
        keys["aws:principalarn"] = principal.arn
        keys["aws:principalaccount"] = principal.account
    elif principal.kind == "provider":
        keys["aws:federatedprovider"] = principal.arn
    elif principal.kind != "anonymous":
        keys["aws:principalarn"] = principal.identity_arn or principal.arn
        keys["aws:principalaccount"] = principal.account
    if principal.kind == "user":
        keys["aws:username"] = principal.name
    for name, value in {**principal.tags, **principal.session_tags}.items():
        keys[f"aws:principaltag/{name.lower()}"] = value
    return {key: (value,) for key, value in keys.items() if value}


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


IDENTITY: Layer = "identity-based policy"
BOUNDARY: Layer = "permissions boundary"
SESSION: Layer = "session policy"
RESOURCE: Layer = "resource-based policy"
ASSUME_ROLE = ("sts:assumerole", "sts:tagsession", "sts:setsourceidentity")


@dataclass(frozen=True, slots=True)
class _Call:
    principal: Principal
    access: Access
    policies: Policies
    values: Values

    @property
    def is_cross_account(self) -> bool:
        return bool(self.access.account) and self.access.account != self.principal.account


@dataclass(frozen=True, slots=True)
class _Allows:
    """The statements that allow, by kind of policy; `grant` says how directly the resource's policy allows."""

    identity: tuple[Match, ...]
    boundary: tuple[Match, ...]
    session: tuple[Match, ...]
    resource: tuple[Match, ...]
    grant: Grant
    is_bounded: bool
    has_session_policy: bool

    @property
    def is_within_limits(self) -> bool:
        """Whether the permissions boundary and the session policy, if there are any, allow too."""
        return not self.limit

    @property
    def limit(self) -> Layer | None:
        """The limit that does not allow."""
        if self.is_bounded and not self.boundary:
            return BOUNDARY
        return SESSION if self.has_session_policy and not self.session else None


def evaluate(principal: Principal, access: Access, policies: Policies) -> Decision:
    """Return AWS's decision. Pure; takes time in proportion to the statements about the action."""
    call = _Call(principal, access, policies, values_of(principal, access))
    denials = tuple(_denials(call))
    if denials:
        layer = denials[0].layer
        return Decision(
            allowed=False,
            effect="explicit deny",
            layer=layer,
            matched=denials,
            sentence=f"with an explicit deny in {_an(layer, access)}",
        )
    return _without_denial(call, _allows(call))


def needs_resource_policy(access: Access, policies: Policies) -> bool:
    """Whether identity-based policies alone cannot allow: a role's trust policy or a key's policy must too."""
    action = access.action.lower()
    if action.startswith(ASSUME_ROLE):
        return True
    return action.startswith("kms:") and policies.resource is not None


def keys_asked(access: Access, policies: Policies) -> frozenset[str]:
    """Return the condition keys, in lower case, on whose values the decision on an access can depend.

    A decision may be cached for the same principal, action, resource, policies and values of these keys.
    """
    return frozenset(
        key
        for _, policy in layers_of(policies)
        for statement in policy.document.about(access.action)
        for key in statement.keys
    )


def denial(principal: Principal, access: Access, decision: Decision) -> str:
    """Return AWS's sentence of refusal: the user, the action, the resource unless AWS omits it, the reason."""
    return (
        f"User: {principal.arn or 'anonymous'} is not authorized to perform: {access.action}"
        f"{_on_resource(access, decision)} {decision.sentence}"
    )


def _on_resource(access: Access, decision: Decision) -> str:
    if decision.layer == RESOURCE and access.action.lower().startswith(ASSUME_ROLE):
        return ""  # documented so
    if not access.action.startswith("s3:"):
        return f" on resource: {access.resource}"
    # S3 puts the resource in quotes and leaves out `*` (seen in many users' reports).
    return "" if access.resource == "*" else f' on resource: "{access.resource}"'


# --- explicit denials -----------------------------------------------------------------------------


def _denials(call: _Call) -> Iterator[Match]:
    for layer, policy in layers_of(call.policies):
        yield from _matches(call, layer, (policy,), "Deny")


def layers_of(policies: Policies) -> Iterator[tuple[Layer, NamedPolicy]]:
    """Return every policy with its layer, in the order in which AWS looks for denials."""
    for policy in policies.identity:
        yield IDENTITY, policy
    if policies.resource is not None:
        yield RESOURCE, policies.resource
    if policies.boundary is not None:
        yield BOUNDARY, policies.boundary
    for policy in policies.session or ():
        yield SESSION, policy


def _matches(
    call: _Call, layer: Layer, policies: Iterable[NamedPolicy], effect: str
) -> Iterator[Match]:
    for policy in policies:
        for statement in policy.document.about(call.access.action):
            if statement.effect == effect and _applies(call, layer, statement):
                yield Match(policy, statement.index, statement.sid, layer)


def _applies(call: _Call, layer: Layer, statement: Statement) -> bool:
    if layer == RESOURCE and grant_of(statement, call.principal) is Grant.NONE:
        return False
    return (
        statement.has_resource(call.access.resource, call.values)
        and statement.unmet(call.values) is None
    )


# --- allows ---------------------------------------------------------------------------------------


def _allows(call: _Call) -> _Allows:
    policies = call.policies
    resource = () if policies.resource is None else (policies.resource,)
    granted = tuple(_matches(call, RESOURCE, resource, "Allow"))
    grants = (
        grant_of(match.policy.document.statements[match.index], call.principal) for match in granted
    )
    boundary = () if policies.boundary is None else (policies.boundary,)
    return _Allows(
        identity=tuple(_matches(call, IDENTITY, policies.identity, "Allow")),
        boundary=tuple(_matches(call, BOUNDARY, boundary, "Allow")),
        session=tuple(_matches(call, SESSION, policies.session or (), "Allow")),
        resource=granted,
        grant=max(grants, default=Grant.NONE),
        is_bounded=policies.boundary is not None,
        has_session_policy=policies.session is not None,
    )


def _without_denial(call: _Call, allows: _Allows) -> Decision:
    if call.principal.kind in ("service", "provider", "anonymous"):
        return _allow(RESOURCE, allows) if allows.grant else _refuse(RESOURCE, call, allows)
    if call.is_cross_account:
        return _across(call, allows)
    return _within(call, allows)


def _within(call: _Call, allows: _Allows) -> Decision:
    """Decide within one account: the resource's policy or the principal's policies suffice, within the limits."""
    if allows.grant is Grant.DIRECT:
        return _allow(RESOURCE, allows)
    if allows.grant is Grant.ROLE and allows.is_within_limits:
        return _allow(RESOURCE, allows)
    has_own = bool(allows.identity) or call.principal.kind == "root"
    if has_own and needs_resource_policy(call.access, call.policies) and not allows.grant:
        return _refuse(RESOURCE, call, allows)
    return _by_own(call, allows, is_granted=has_own or allows.grant is Grant.ROLE)


def _across(call: _Call, allows: _Allows) -> Decision:
    """Decide across two accounts: the principal's policies and the resource's policy must both allow."""
    has_own = bool(allows.identity) or call.principal.kind == "root"
    own = _by_own(call, allows, is_granted=has_own)
    if own.allowed and not allows.grant:
        return _refuse(RESOURCE, call, allows)
    return own


def _by_own(call: _Call, allows: _Allows, *, is_granted: bool) -> Decision:
    if not is_granted:
        return _refuse(IDENTITY, call, allows)
    if allows.limit is not None:
        return _refuse(allows.limit, call, allows)
    return _allow(IDENTITY, allows)


def _allow(layer: Layer, allows: _Allows) -> Decision:
    matched = allows.resource if layer == RESOURCE else (*allows.identity, *allows.resource)
    limits = (*allows.boundary, *allows.session)
    return Decision(allowed=True, effect="allow", layer=layer, matched=(*matched, *limits))


def _refuse(layer: Layer, call: _Call, allows: _Allows) -> Decision:
    action = call.access.action
    name = "role trust policy" if layer == RESOURCE and _is_trust(call.access) else layer
    return Decision(
        allowed=False,
        effect="implicit deny",
        layer=layer,
        matched=(*allows.identity, *allows.resource, *allows.boundary, *allows.session),
        sentence=f"because no {name} allows the {action} action",
    )


def _is_trust(access: Access) -> bool:
    return access.action.lower().startswith(ASSUME_ROLE)


def _an(layer: Layer, access: Access) -> str:
    if layer == RESOURCE and _is_trust(access):
        return "the role trust policy"
    return f"an {layer}" if layer == IDENTITY else f"a {layer}"
