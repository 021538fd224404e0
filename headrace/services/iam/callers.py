"""Reads users, roles and their policies from moto's IAM, for permission decisions."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from headrace.aws.signatures.access_keys import RoleSessions
from headrace.moto import principals
from headrace.permissions.decisions.identity import Identity
from headrace.permissions.policies.model import NamedPolicy, Policies, Principal

# The permissions of the account itself, to which a federated session belongs.
_EVERYTHING = NamedPolicy.of(
    "the account's root",
    json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}),
)  # fmt: skip


class MotoUsersAndRoles:
    """Implements `headrace.permissions.decisions.decisions.UsersAndRoles` on moto's IAM. Thread-safe.

    Args:
        sessions: gives the ids of roles that IAM does not have.
        is_ready: whether moto is loaded.
        load: loads it, and waits.
        version: grows with each change of a policy.
    """

    def __init__(
        self,
        sessions: RoleSessions,
        *,
        is_ready: Callable[[], bool],
        load: Callable[[], None],
        version: Callable[[], int],
    ) -> None:
        self.is_ready = is_ready
        self.version = version
        self._sessions = sessions
        self._load = load

    def user_of(self, access_key: str) -> Identity | None:
        """See `UsersAndRoles.user_of`."""
        self._load()
        for account, backend in principals.iam_backends():
            key = backend.access_keys.get(access_key)
            if key is not None and key.user_name is not None:
                return Identity("user", str(key.user_name), account)
        return None

    def principal(self, identity: Identity) -> Principal | None:
        """See `UsersAndRoles.principal`."""
        if identity.kind == "service":
            return Principal("service", identity.name)
        if identity.kind == "provider":
            return Principal("provider", identity.name)
        if identity.kind == "root":
            return Principal("root", identity.arn, identity.account, identity.arn, identity.account)
        principal_found = self._find(identity)
        if identity.kind == "federated" and (principal_found is not None or not identity.name):
            user_id = f"{identity.account}:{identity.session}"
            return _principal(identity, principal_found, identity.arn, user_id)
        if principal_found is None:
            return None
        if identity.kind == "role":
            arn = identity.session_arn
            return _principal(
                identity, principal_found, arn, f"{principal_found.id}:{identity.session}"
            )
        return _principal(
            identity, principal_found, str(principal_found.arn), str(principal_found.id)
        )

    def policies(self, identity: Identity) -> Policies:
        """See `UsersAndRoles.policies`."""
        if identity.kind == "root":
            return Policies(identity=(_EVERYTHING,))
        principal_found = self._find(identity)
        session = self._session_policies(identity) if identity.has_session_policy else None
        if principal_found is None:
            is_root = identity.kind == "federated" and not identity.name
            return Policies(identity=(_EVERYTHING,) if is_root else (), session=session)
        is_user = identity.kind != "role"
        return Policies(
            identity=tuple(
                principals.own_policies(identity.account, principal_found, is_user=is_user)
            ),
            boundary=principals.boundary_of(identity.account, principal_found),
            session=session,
        )

    def _session_policies(self, identity: Identity) -> tuple[NamedPolicy, ...]:
        own = principals.parse_named("session", identity.policy) if identity.policy else ()
        managed = (
            principals.find_managed_policy(identity.account, arn) for arn in identity.policy_arns
        )
        return (*own, *(policy for policy in managed if policy is not None))

    def _find(self, identity: Identity) -> Any:
        self._load()
        kind = "role" if identity.kind == "role" else "user"
        return principals.holder_of(identity.account, kind, identity.name)


def _principal(identity: Identity, entity: Any, arn: str, user_id: str) -> Principal:
    kind = identity.kind
    return Principal(
        kind if kind in ("role", "federated") else "user",
        arn,
        identity.account,
        "" if entity is None else str(entity.arn),
        user_id,
        identity.name,
        {} if entity is None else principals.tags_of(entity),
        dict(identity.tags),
        identity.source_identity,
    )
