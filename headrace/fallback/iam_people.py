"""Users, roles and their policies as moto's IAM holds them, for whoever judges what callers may do."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from headrace.aws.sessions import RoleSessions
from headrace.iam.identity import Identity
from headrace.permissions.document import UnreadableDocument
from headrace.permissions.model import NamedPolicy, Policies, Principal

log = logging.getLogger(__name__)


class MotoPeople:
    """`headrace.iam.judge.People` on moto's IAM. Thread-safe.

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
        self._sessions = sessions
        self._is_ready = is_ready
        self._load = load
        self._version = version

    @property
    def is_ready(self) -> bool:
        """See `People.is_ready`."""
        return self._is_ready()

    @property
    def version(self) -> int:
        """See `People.version`."""
        return self._version()

    def user_of(self, access_key: str) -> Identity | None:
        """See `People.user_of`."""
        self._load()
        for account, backend in _backends():
            key = backend.access_keys.get(access_key)
            if key is not None and key.user_name is not None:
                return Identity("user", str(key.user_name), account)
        return None

    def principal(self, identity: Identity) -> Principal | None:
        """See `People.principal`."""
        if identity.kind == "service":
            return Principal("service", identity.name)
        found = self._find(identity)
        if found is None:
            return None
        user_id, arn = str(found.id), str(found.arn)
        if identity.kind == "role":
            user_id = f"{user_id}:{identity.session}"
            arn = f"arn:aws:sts::{identity.account}:assumed-role/{identity.name}/{identity.session}"
        return Principal(
            identity.kind if identity.kind == "role" else "user",
            arn,
            identity.account,
            str(found.arn),
            user_id,
            identity.name,
            _tags(found),
        )

    def policies(self, identity: Identity) -> Policies:
        """See `People.policies`."""
        found = self._find(identity)
        if found is None:
            return Policies()
        backend = _backend(identity.account)
        own = list(_policies_of(found))
        if identity.kind == "user":
            for group in list(backend.groups.values()):
                if found in group.users:
                    own += _policies_of(group)
        boundary = getattr(found, "permissions_boundary_arn", None)
        limit = backend.managed_policies.get(boundary) if boundary else None
        session = [("session", identity.policy, "")] if identity.policy else None
        return Policies(
            identity=_named(own),
            boundary=None if limit is None else next(iter(_named([_managed(limit)])), None),
            session=None if session is None else _named(session),
        )

    def _find(self, identity: Identity) -> Any:
        self._load()
        backend = _backend(identity.account)
        if backend is None:
            return None
        if identity.kind == "user":
            return backend.users.get(identity.name)
        return role_of(backend, identity.name)


def role_of(backend: Any, name: str) -> Any:
    """Return the role of a name; None when IAM does not have it."""
    return next((role for role in list(backend.roles.values()) if role.name == name), None)


def trust_policy_of(role_arn: str) -> str | None:
    """Return the trust policy of a role, as JSON; None when IAM does not have the role. moto must be loaded."""
    account, resource = role_arn.split(":", 5)[4:]
    backend = _backend(account)
    role = None if backend is None else role_of(backend, resource.rpartition("/")[2])
    return None if role is None else str(role.assume_role_policy_document)


def _backends() -> Iterable[tuple[str, Any]]:
    from moto.iam.models import iam_backends

    for account, partitions in list(cast("Any", iam_backends).items()):
        for backend in list(partitions.values()):
            yield str(account), backend


def _backend(account: str) -> Any:
    from moto.iam.models import iam_backends

    partitions: Any = cast("Any", iam_backends).get(account)
    return None if partitions is None else partitions.get("aws")


def _policies_of(holder: Any) -> Iterable[tuple[str, str, str]]:
    """Yield name, text and ARN of what is attached to a user, a group or a role."""
    inline: Mapping[str, str] = dict(holder.policies)
    for name, text in inline.items():
        yield name, text, ""
    for policy in list(holder.managed_policies.values()):
        yield _managed(policy)


def _managed(policy: Any) -> tuple[str, str, str]:
    version = next(v for v in policy.versions if v.version_id == policy.default_version_id)
    return str(policy.name), str(version.document), str(policy.arn)


def _named(policies: Iterable[tuple[str, str, str]]) -> tuple[NamedPolicy, ...]:
    named: list[NamedPolicy] = []
    for name, text, arn in policies:
        try:
            named.append(NamedPolicy.of(name, text, arn))
        except UnreadableDocument as error:
            log.warning("the policy %s allows nothing: %s", name, error)
    return tuple(named)


def _tags(found: Any) -> dict[str, str]:
    """Return tags as names and values, which moto keeps in several forms."""
    tags: Any = getattr(found, "tags", None) or {}
    pairs = tags.values() if isinstance(tags, dict) else tags
    return {str(tag["Key"]): str(tag["Value"]) for tag in pairs}
