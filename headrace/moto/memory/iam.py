"""Reads users, groups, roles and their policies from moto's IAM; all permission decisions and simulations use it.

moto must be loaded. The results are moto's own objects, which other threads may change; lists of them are copies.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.model import NamedPolicy

log = logging.getLogger(__name__)

# The kinds of policy holders in an ARN, and where moto stores them.
HOLDERS = {"user": "users", "role": "roles", "group": "groups"}


def backends() -> Iterator[tuple[str, Any]]:
    """Yield each account with its IAM backend."""
    from moto.iam.models import iam_backends

    for account, partitions in list(cast("Any", iam_backends).items()):
        for backend in list(partitions.values()):
            yield str(account), backend


def backend_of(account: str) -> Any:
    """Return an account's IAM backend; None if it is unused: moto's own lookup would create it.

    On AWS an account is in one partition. Here one whose regions are in several has an IAM in each; this is the first.
    """
    return next(iter(_backends_of(account)), None)


def _backends_of(account: str) -> list[Any]:
    """Return an account's IAM backends, that of the partition `aws` first."""
    from moto.iam.models import iam_backends

    partitions: Any = cast("Any", iam_backends).get(account) or {}
    return [partitions[name] for name in sorted(partitions)]


def holder_of(account: str, kind: str, name: str) -> Any:
    """Return the user, role or group (`kind`) with a name; None when IAM does not have it."""
    for backend in _backends_of(account):
        holders: Any = getattr(backend, HOLDERS[kind])
        for holder in list(holders.values()):
            if holder.name == name:
                return holder
    return None


def holder_of_arn(arn: str) -> Any:
    """Return the user, role or group with an ARN; None when IAM does not have it, or for another kind of ARN."""
    parts = arn.split(":", 5)
    kind, _, path = parts[5].partition("/") if len(parts) == 6 else ("", "", "")
    if kind not in HOLDERS:
        return None
    return holder_of(parts[4], kind, path.rpartition("/")[2])


def groups_of(account: str, user: Any) -> list[Any]:
    """Return the groups that a user belongs to."""
    groups: list[Any] = [
        group for backend in _backends_of(account) for group in list(backend.groups.values())
    ]
    return [group for group in groups if user in group.users]


def inline_policies(holder: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and text of a holder's inline policies."""
    inline: Mapping[str, str] = dict(holder.policies)
    for name, text in inline.items():
        yield name, str(text)


def list_attached_policies(holder: Any) -> Iterator[NamedPolicy]:
    """Yield the managed policies of a holder, in their default versions."""
    for policy in list(holder.managed_policies.values()):
        yield from parse_named(str(policy.name), _text_of(policy), str(policy.arn))


def find_managed_policy(account: str, arn: str) -> NamedPolicy | None:
    """Return a managed policy, including AWS's own; None when it does not exist or cannot be parsed."""
    known = [backend.managed_policies.get(arn) for backend in _backends_of(account)]
    policy: Any = next((one for one in known if one is not None), None)
    if policy is None:
        return None
    return next(iter(parse_named(str(policy.name), _text_of(policy), arn)), None)


def boundary_of(account: str, holder: Any) -> NamedPolicy | None:
    """Return the permissions boundary of a user or a role; None without one."""
    arn = getattr(holder, "permissions_boundary_arn", None)
    return find_managed_policy(account, str(arn)) if arn else None


def own_policies(account: str, holder: Any, *, is_user: bool) -> list[NamedPolicy]:
    """Return all identity-based policies of a role, or of a user and the user's groups."""
    holders = [holder, *(groups_of(account, holder) if is_user else ())]
    row: list[NamedPolicy] = []
    for one in holders:
        for name, text in inline_policies(one):
            row += parse_named(name, text)
        row += list_attached_policies(one)
    return row


def parse_named(name: str, text: str, arn: str = "") -> Iterable[NamedPolicy]:
    """Return a policy with its document; None for invalid text, which allows nothing."""
    try:
        return (NamedPolicy.of(name, text, arn),)
    except UnreadableDocument as error:
        log.warning("the policy %s allows nothing: %s", name, error)
        return ()


def tags_of(holder: Any) -> dict[str, str]:
    """Return tags as names and values; moto stores them in several forms."""
    tags: Any = getattr(holder, "tags", None) or {}
    pairs = tags.values() if isinstance(tags, dict) else tags
    return {str(tag["Key"]): str(tag["Value"]) for tag in pairs}


def trust_policy_of(role_arn: str) -> str | None:
    """Return the trust policy of a role, as JSON; None when IAM does not have the role."""
    account, resource = role_arn.split(":", 5)[4:]
    role = holder_of(account, "role", resource.rpartition("/")[2])
    return None if role is None else str(role.assume_role_policy_document)


def _text_of(policy: Any) -> str:
    version = next(v for v in policy.versions if v.version_id == policy.default_version_id)
    return str(version.document)
