"""Looks up access keys that moto's IAM and STS have created: users' keys, and those of assumed roles."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from datetime import UTC
from typing import Any

from headrace.aws.signatures.access_keys import AccessKey


def find_access_key(key_id: str) -> AccessKey | None:
    """Return an active key; None when no key has that id. moto must be loaded.

    `headrace.aws.signatures.sessions` reads the keys of headrace's own sessions, whose tokens name their owner.
    """
    from moto.iam.models import iam_backends
    from moto.sts.models import sts_backends

    for account, partitions in list(iam_backends.items()):
        for backend in list(partitions.values()):
            key = backend.access_keys.get(key_id)
            if key is not None and key.user_name is not None:
                return _of_user(account, backend, key)
    for account, partitions in list(sts_backends.items()):
        for backend in list(partitions.values()):
            session = backend.get_assumed_role_from_access_key(key_id)
            if session is not None:
                return _of_session(account, session)
    return None


def account_of(key_id: str) -> str | None:
    """Return the account of a user's key, active or not; None when no user has that key. moto must be loaded."""
    if not key_id.startswith(("AKIA", "ASIA", "LSIA")):
        return None
    from moto.iam.models import iam_backends

    # Not moto's own lookup, which creates a backend for every partition.
    for account, regions in list(iam_backends.items()):
        if any(key_id in backend.access_keys for backend in list(regions.values())):
            return str(account)
    return None


def _of_user(account: str, backend: Any, key: Any) -> AccessKey | None:
    user = backend.users.get(key.user_name)
    # The backend's own list in moto keeps deleted keys.
    if user is None or key not in user.access_keys or key.status != "Active":
        return None
    return AccessKey(key.access_key_id, key.secret_access_key, account=account)


def _of_session(account: str, session: Any) -> AccessKey:
    expires = session.expiration
    aware = expires if expires.tzinfo is not None else expires.replace(tzinfo=UTC)
    return AccessKey(
        session.access_key_id,
        session.secret_access_key,
        session.session_token,
        account,
        round(aware.timestamp() * 1000),
    )
