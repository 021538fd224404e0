"""The condition keys that a call has by itself: who calls, in which account the resource is.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html and
reference_policies_variables.html (what aws:userid and aws:PrincipalType are for each kind of principal).
"""

from __future__ import annotations

from headrace.permissions.model import Access, Principal
from headrace.permissions.texts import Values

_TYPES = {
    "root": "Account", "user": "User", "role": "AssumedRole", "federated": "FederatedUser", "anonymous": "Anonymous",
}  # fmt: skip


def values_of(principal: Principal, access: Access) -> Values:
    """Return the values of a call's condition keys (asked in lower case); the access's own win over the principal's.

    Keys that only the time or the connection gives (aws:CurrentTime, aws:SourceIp) come with the access.
    """
    given = access.context
    derived: dict[str, tuple[str, ...]] = {}

    def values(key: str) -> tuple[str, ...]:
        found = given.get(key)
        if found is not None:
            return found
        if not derived:
            derived.update(keys_of(principal, access))
        return derived.get(key, ())

    return values


def keys_of(principal: Principal, access: Access) -> dict[str, tuple[str, ...]]:
    """Return the keys, in lower case, that follow from who calls and where the resource is."""
    keys = {
        # headrace is called without TLS on this machine; AWS's own clients use it.
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
