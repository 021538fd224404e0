"""The condition keys of every call: those of the caller, and of the resource's account.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html and
reference_policies_variables.html (the values of aws:userid and aws:PrincipalType for each kind of principal).
"""

from __future__ import annotations

from headrace.permissions.policies.model import Access, Principal
from headrace.permissions.policies.texts import Values

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
