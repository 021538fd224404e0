"""Checks that the principals of policies exist in IAM, and replaces their ARNs by ids when they are deleted.

AWS stores a role or user in a policy by its unique id, and shows the ARN while it exists: after its deletion the policy
shows the id, and does not trust a new role with the old name. Source:
docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html. Here the policy holds the ARN until
the role or user is deleted, and then the id.

Reads users, groups, roles and their policies from moto's IAM; all permission decisions and simulations use it.

moto must be loaded. The results are moto's own objects, which other threads may change; lists of them are copies.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import importlib
import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES
from headrace.permissions.decisions.identity import Identity
from headrace.permissions.policies.document import UnreadableDocument, as_list
from headrace.permissions.policies.model import NamedPolicy, Policies, Principal

# The kinds of policy holders in an ARN, and where moto stores them.
HOLDERS = {"user": "users", "role": "roles", "group": "groups"}


def iam_backends() -> Iterator[tuple[str, Any]]:
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


def role_of_profile(account: str, name: str) -> str:
    """Return the name of the role in an instance profile; empty when there is none."""
    for backend in _backends_of(account):
        for profile in list(backend.instance_profiles.values()):
            if profile.name == name:
                return str(profile.roles[0].name) if profile.roles else ""
    return ""


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


log = logging.getLogger(__name__)

_HOLDER = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}):(role|user)/.+")
_UNIQUE_ID = re.compile(r"(AROA|AIDA)[A-Z0-9]{12,}")
# Service-linked roles, which services create on AWS, need not exist here.
_OF_SERVICES = ":role/aws-service-role/"
# The ids that replace the ARNs of roles and users that are being deleted.
_leaving: set[str] = set()


def exists_for(account: str) -> Callable[[str], bool]:
    """Return a test of whether IAM has a principal; other accounts than `account` pass it."""

    def exists(name: str) -> bool:
        if _UNIQUE_ID.fullmatch(name):
            return name in _leaving or _has_id(name)
        match = _HOLDER.fullmatch(name)
        if match is None or match[1] != account or _OF_SERVICES in name:
            return True
        holder = holder_of_arn(name)
        return holder is not None and str(holder.arn) == name

    return exists


def _has_id(unique_id: str) -> bool:
    for _, backend in iam_backends():
        holders = [*backend.roles.values(), *backend.users.values()]
        if any(str(holder.id) == unique_id for holder in holders):
            return True
    return False


def patch() -> None:
    """Make moto's deletions of roles and users put their ids into policies. Called once."""
    from moto.iam.models import IAMBackend

    backend: Any = IAMBackend
    backend.delete_role = _leaves_its_id(backend.delete_role, "get_role")
    backend.delete_user = _leaves_its_id(backend.delete_user, "get_user")


def _leaves_its_id(delete: Any, find: str) -> Any:
    @functools.wraps(delete)
    def delete_and_note(self: Any, name: str, *args: Any, **named: Any) -> Any:
        holder = getattr(self, find)(name)
        answer = delete(self, name, *args, **named)
        if CURRENT.control is not None:
            arn, unique_id = str(holder.arn), str(holder.id)
            _leaving.add(unique_id)
            try:
                _replace(arn, unique_id)
            finally:
                _leaving.discard(unique_id)
        return answer

    return delete_and_note


def _replace(arn: str, unique_id: str) -> None:
    """Replace an ARN by an id in all policies that have it as a principal."""
    quoted = json.dumps(arn)
    for _, backend in iam_backends():
        for role in list(backend.roles.values()):
            text = str(role.assume_role_policy_document)
            if quoted in text:
                role.assume_role_policy_document = without(text, arn, unique_id)
    for package, holder, attribute in _list_policies_in_moto():
        kept = getattr(holder, attribute)
        text = json.dumps(kept) if isinstance(kept, dict) else str(kept or "")
        if quoted in text:
            changed = without(text, arn, unique_id)
            setattr(holder, attribute, json.loads(changed) if isinstance(kept, dict) else changed)
            CHANGES.service(package)
    _replace_in_buckets(arn.split(":")[4], arn, unique_id)


def without(text: str, arn: str, unique_id: str) -> str:
    """Return a policy with a principal's ARN replaced by an id; conditions with the ARN keep it."""
    document: Any = json.loads(text)
    for statement in as_list(document.get("Statement", [])):
        for element in ("Principal", "NotPrincipal"):
            named: Any = statement.get(element)
            if isinstance(named, dict) and "AWS" in named:
                who: Any = named["AWS"]
                swapped = [unique_id if one == arn else one for one in as_list(who)]
                named["AWS"] = swapped if isinstance(who, list) else swapped[0]
    return json.dumps(document)


# moto's packages with resource policies: where they are, and the attribute with the text (or of two, the JSON).
_PLACES = {
    "sqs": ("sqs_backends", "queues", "_policy_json"),
    "sns": ("sns_backends", "topics", "_policy_json"),
    "kms": ("kms_backends", "keys", "policy"),
    "secretsmanager": ("secretsmanager_backends", "secrets", "policy"),
    "ecr": ("ecr_backends", "repositories", "policy"),
    "logs": ("logs_backends", "resource_policies", "policy_document"),
}


def _list_policies_in_moto() -> Iterator[tuple[str, Any, str]]:
    """Yield the package, the resource and the attribute of each policy; packages that are not imported are left out."""
    for package, (name, collection, attribute) in _PLACES.items():
        CHANGES.load_deferred(package)
        if f"moto.{package}.models" not in sys.modules:
            continue
        backends: Any = getattr(importlib.import_module(f"moto.{package}.models"), name)
        for regions in list(backends.values()):
            for backend in list(dict.values(regions)):
                for holder in list(getattr(backend, collection).values()):
                    if hasattr(holder, attribute):
                        yield package, holder, attribute


def _replace_in_buckets(account: str, arn: str, unique_id: str) -> None:
    control = CURRENT.control
    assert control is not None
    try:
        buckets = control.call("s3", "ListBuckets", {}, account=account).get("Buckets", ())
    except AwsError:
        return
    for bucket in buckets:
        name = {"Bucket": bucket["Name"]}
        try:
            text = str(control.call("s3", "GetBucketPolicy", name, account=account)["Policy"])
            if json.dumps(arn) in text:
                put = {**name, "Policy": without(text, arn, unique_id)}
                control.call("s3", "PutBucketPolicy", put, account=account)
        except AwsError as error:
            if error.code != "NoSuchBucketPolicy":
                log.warning("the policy of %s still names %s: %s", bucket["Name"], arn, error)


# The permissions of the account itself, to which a federated session belongs.
_EVERYTHING = NamedPolicy.of(
    "the account's root",
    json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}),
)  # fmt: skip


class MotoUsersAndRoles:
    """Implements `headrace.permissions.decisions.judge.UsersAndRoles` on moto's IAM. Thread-safe.

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
        for account, backend in iam_backends():
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
            identity=tuple(own_policies(identity.account, principal_found, is_user=is_user)),
            boundary=boundary_of(identity.account, principal_found),
            session=session,
        )

    def _session_policies(self, identity: Identity) -> tuple[NamedPolicy, ...]:
        own = parse_named("session", identity.policy) if identity.policy else ()
        managed = (find_managed_policy(identity.account, arn) for arn in identity.policy_arns)
        return (*own, *(policy for policy in managed if policy is not None))

    def _find(self, identity: Identity) -> Any:
        self._load()
        kind = "role" if identity.kind == "role" else "user"
        return holder_of(identity.account, kind, identity.name)


def _principal(identity: Identity, entity: Any, arn: str, user_id: str) -> Principal:
    kind = identity.kind
    return Principal(
        kind if kind in ("role", "federated") else "user",
        arn,
        identity.account,
        "" if entity is None else str(entity.arn),
        user_id,
        identity.name,
        {} if entity is None else tags_of(entity),
        dict(identity.tags),
        identity.source_identity,
    )
