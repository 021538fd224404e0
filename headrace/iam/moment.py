"""The condition keys that only the moment of a call gives: the time, and where it came from.

They are added where a policy asks for them, and only there: a decision on the time holds for no longer than it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from headrace.permissions.evaluate import keys_asked
from headrace.permissions.model import Access, Policies

_CURRENT, _EPOCH, _SOURCE = "aws:currenttime", "aws:epochtime", "aws:sourceip"
# Whoever calls is on this machine.
_LOOPBACK = "127.0.0.1"


def at(access: Access, policies: Policies, now_ms: int) -> tuple[Access, bool]:
    """Return an access with these keys as far as the policies ask for them, and whether the time is among them."""
    asked = keys_asked(access, policies)
    now = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = {_CURRENT: now, _EPOCH: str(now_ms // 1000), _SOURCE: _LOOPBACK}
    missing = {k: (v,) for k, v in known.items() if k in asked and k not in access.context}
    if not missing:
        return access, False
    is_timed = _CURRENT in missing or _EPOCH in missing
    return replace(access, context={**access.context, **missing}), is_timed
