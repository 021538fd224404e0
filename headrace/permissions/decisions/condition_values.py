"""Adds the condition keys that depend on a single call: its time, source address, MFA session and resource tags.

They are added only when a policy uses them: a decision that depends on the time cannot be cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headrace.core.values import iso_seconds_of
from headrace.permissions.decisions.identity import Identity
from headrace.permissions.policies.evaluate import keys_asked
from headrace.permissions.policies.model import Access, Policies

_CURRENT, _EPOCH, _SOURCE = "aws:currenttime", "aws:epochtime", "aws:sourceip"
_MFA, _MFA_AGE = "aws:multifactorauthpresent", "aws:multifactorauthage"
_TAG = ":resourcetag/"
_ISSUED = "aws:tokenissuetime"
_TIMED = frozenset({_CURRENT, _EPOCH, _MFA_AGE, _ISSUED})
# All callers are on this machine.
_LOOPBACK = "127.0.0.1"


def at(
    access: Access, policies: Policies, now_ms: int, identity: Identity | None = None
) -> tuple[Access, bool]:
    """Return an access with those of these keys that the policies use, and whether the time is one of them."""
    asked = keys_asked(access, policies)
    known = {_CURRENT: iso_seconds_of(now_ms), _EPOCH: str(now_ms // 1000), _SOURCE: _LOOPBACK}
    values = {key: (value,) for key, value in known.items()}
    if identity is not None:
        values |= _of_session(identity, now_ms)
    missing = {k: v for k, v in values.items() if k in asked and k not in access.context}
    if not missing:
        return access, False
    return replace(access, context={**access.context, **missing}), not _TIMED.isdisjoint(missing)


def with_tags(
    access: Access, policies: Policies, tags_of: Callable[[str], Mapping[str, str]]
) -> tuple[Access, bool]:
    """Return an access with the resource tags that the policies use, and whether they use any.

    Source: reference_policies_condition-keys.html, aws:ResourceTag. Keys of this name with a service's prefix have the
    same values.
    """
    asked = [key for key in keys_asked(access, policies) if _TAG in key]
    if not asked:
        return access, False
    tags = {key.lower(): value for key, value in tags_of(access.resource).items()}
    tag_values = {key: (tags[name],) for key in asked if (name := key.partition(_TAG)[2]) in tags}
    return replace(access, context={**tag_values, **access.context}), True


def _of_session(identity: Identity, now_ms: int) -> dict[str, tuple[str, ...]]:
    """Return the condition keys of a session. A call with a user's own access keys has none of them.

    Source: reference_policies_condition-keys.html and id_credentials_mfa_configure-api-require.html: only the sessions
    of GetSessionToken have MFA keys; a role's sessions never have. headrace lets a service's session for a role begin
    when the service calls.
    """
    if not identity.is_temporary:
        return {}
    issued_ms = identity.issued_ms or now_ms
    values: dict[str, tuple[str, ...]] = {
        **dict(identity.keys),
        _MFA: ("true" if identity.has_mfa else "false",),
        _ISSUED: (iso_seconds_of(issued_ms),),
    }
    if identity.has_mfa:
        values[_MFA_AGE] = (str((now_ms - issued_ms) // 1000),)
    return values
