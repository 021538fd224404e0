"""IAM and STS: creates AWS managed policies on first use, ends sessions, and keeps both out of the snapshot.

moto creates 1,400 policies in a quarter of a second at the first request to any service, and keeps the keys of every
session for ever.

A group can get a new path without a new name.

Policies match by wildcards in bounded time.

Permissions boundaries are allowed on users too, and must be existing managed policies.

IAM's OpenID Connect providers and service-linked roles: calls that moto lacks, and AWS's refusals.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import base64
import functools
import hashlib
import heapq
import json
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import ModuleType
from typing import Any

from headrace.core.patterns import glob_matches
from headrace.moto import principals
from headrace.moto.current_cloud import use_clock, utcnow
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES, RowKey, Rows
from headrace.moto.storage.stored_names import stored_as
from headrace.services.iam import policy_checks


def patch_boundaries() -> None:
    """Add what moto's IAM lacks. Called once."""
    from moto.iam.models import IAMBackend, Role, User
    from moto.iam.responses import IamResponse

    user: Any = User
    user.permissions_boundary_arn = None
    role: Any = Role
    user.permissions_boundary = role.permissions_boundary = property(_boundary_of)
    responses: Any = IamResponse
    responses.create_user = _with_boundary(IamResponse.create_user)
    responses.create_role = _of_role_with_boundary(IamResponse.create_role)
    responses.put_user_permissions_boundary = _put_of_user
    responses.delete_user_permissions_boundary = _delete_of_user
    backend: Any = IAMBackend
    backend.put_role_permissions_boundary = _of_what_is_there(backend.put_role_permissions_boundary)


def _boundary_of(holder: Any) -> dict[str, str] | None:
    """Return a holder's boundary as AWS shows it (recorded in 2026; the type's documentation has another name)."""
    arn = holder.permissions_boundary_arn
    return {"PermissionsBoundaryType": "Policy", "PermissionsBoundaryArn": arn} if arn else None


def _check(backend: Any, arn: str) -> None:
    """Refuse a boundary that is not an existing policy (recorded)."""
    from moto.iam.exceptions import InvalidInput, NotFoundException

    if not backend.policy_arn_regex.match(arn):
        raise InvalidInput(f"ARN {arn} is not valid.")
    if arn not in backend.managed_policies:
        raise NotFoundException(f"Scope ARN: {arn} does not exist or is not attachable.")


def _of_what_is_there(put: Any) -> Any:
    @functools.wraps(put)
    def check_first(self: Any, role_name: str, permissions_boundary: str) -> None:
        self.get_role(role_name)
        _check(self, permissions_boundary)
        put(self, role_name, permissions_boundary)

    return check_first


def _of_role_with_boundary(create_role: Any) -> Any:
    @functools.wraps(create_role)
    def check_and_create(self: Any) -> Any:
        if arn := self._get_param("PermissionsBoundary"):
            _check(self.backend, arn)
        return create_role(self)

    return check_and_create


def _with_boundary(create_user: Any) -> Any:
    @functools.wraps(create_user)
    def check_and_create(self: Any) -> Any:
        arn = self._get_param("PermissionsBoundary")
        if arn:
            _check(self.backend, arn)
        answer = create_user(self)
        if arn:
            answer.result["User"].permissions_boundary_arn = arn
        return answer

    return check_and_create


def _put_of_user(self: Any) -> Any:
    from moto.core.responses import EmptyResult

    user = self.backend.get_user(self._get_param("UserName"))
    arn = self._get_param("PermissionsBoundary")
    _check(self.backend, arn)
    user.permissions_boundary_arn = arn
    return EmptyResult()


def _delete_of_user(self: Any) -> Any:
    from moto.core.responses import EmptyResult

    self.backend.get_user(self._get_param("UserName")).permissions_boundary_arn = None
    return EmptyResult()


def match_by_wildcards(access_control: ModuleType) -> None:
    """Match actions and resources by wildcards instead of regular expressions."""
    access_control.IAMPolicyStatement._match = staticmethod(glob_matches)


def allow_new_paths() -> None:
    """Allow a group to change its path without its name."""
    from moto.iam.models import IAMBackend

    backend: Any = IAMBackend
    update = backend.update_group

    @functools.wraps(update)
    def update_group(
        self: Any, group_name: str, new_group_name: str | None, new_path: str | None
    ) -> Any:
        if new_group_name and new_group_name != group_name:
            return update(self, group_name, new_group_name, new_path)
        group = self.get_group(group_name)
        group.path = new_path or group.path
        return None

    backend.update_group = update_group


# The most sessions of an account that have not expired.
MOST_SESSIONS = 20_000


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    import moto.iam.models as iam
    import moto.sts.models as sts_models
    from moto.sts.models import STSBackend

    use_clock(sts_models)
    backend: Any = iam.IAMBackend
    backend._init_managed_policies = _make_empty_policies
    backend._init_aws_policies = _no_policies
    backend.__init__ = _with_policies(iam.IAMBackend.__init__)
    policy_checks.patch()
    patch_boundaries()
    policy_checks.limit_attachments()
    allow_new_paths()
    principals.patch()
    models: Any = iam
    models.aws_managed_policies_data = ""
    _forget_policies()
    models.mark_account_as_visited = _leave_unnoted(iam.mark_account_as_visited)
    pickles.register_reducer(_Policies, _reduce_policies)
    pickles.register_filter("iam", _without_sessions)
    sts: Any = STSBackend
    sts.__init__ = _with_sessions(STSBackend.__init__)
    sts.get_assumed_role_from_access_key = _session_of


def _leave_unnoted(mark: Any) -> Any:
    """Keep a key's last use, which every request sets, from counting as a change of IAM."""

    @functools.wraps(mark)
    def mark_unnoted(*args: Any, **named: Any) -> None:
        was, CHANGES.is_watching = CHANGES.is_watching, False
        try:
            mark(*args, **named)
        finally:
            CHANGES.is_watching = was

    return mark_unnoted


def _make_empty_policies(backend: Any) -> _Policies:
    return _Policies(backend)


def _no_policies(_: Any) -> tuple[Any, ...]:
    return ()


def _session_of(backend: Any, access_key_id: str) -> Any:
    return backend.assumed_roles.by_key.get(access_key_id)


# --- AWS managed policies -------------------------------------------------------------------------


def _forget_policies() -> None:
    """Drop the module of AWS's policies: five megabytes of text, which are read again if somebody looks for one."""
    sys.modules.pop("moto.iam.aws_managed_policies", None)
    sys.modules["moto.iam"].__dict__.pop("aws_managed_policies", None)


# Python's import fails when another thread drops the module meanwhile; reads do not hold moto's lock.
_READING_POLICIES = threading.Lock()


def _read_policies() -> str:
    """Return the JSON text of AWS's policies, an object of each by name."""
    with _READING_POLICIES:
        from moto.iam.aws_managed_policies import aws_managed_policies_data

        _forget_policies()
    return aws_managed_policies_data


_POLICY_NAME = re.compile(r"[\w+=,.@-]+")


@stored_as("iam_policies")
class _Policies(dict[str, Any]):
    """Managed policies by ARN; each of AWS's own is created at its first lookup, all when somebody lists them."""

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self.backend = backend
        self.is_filled = False

    def fill(self) -> None:
        """Create AWS's policies, except those that exist because they were changed."""
        if self.is_filled:
            return
        documents: dict[str, Any] = json.loads(_read_policies())
        policies = [self._create(name, data) for name, data in documents.items()]
        by_arn: dict[str, Any] = {policy.arn: policy for policy in policies}
        by_arn.update(self.items_there())
        super().update(by_arn)
        self.is_filled = True

    def items_there(self) -> dict[str, Any]:
        """Return the policies that exist so far."""
        return {arn: dict.__getitem__(self, arn) for arn in list(dict.__iter__(self))}

    def _create(self, name: str, data: dict[str, Any]) -> Any:
        from moto.iam.models import AWSManagedPolicy

        account, region = self.backend.account_id, self.backend.region_name
        policy: Any = AWSManagedPolicy.from_data(name, account, region, data)
        digest = base64.b32encode(hashlib.sha256(policy.arn.encode()).digest()).decode()
        policy.id = f"ANPA{digest[:17]}"
        return policy

    def _look(self, key: Any) -> None:
        """Create the policy of AWS's that this ARN names, if it is not there; all of them if its text is not found."""
        if self.is_filled or dict.__contains__(self, key) or ":iam::aws:" not in str(key):
            return
        name, text = str(key).rpartition("/")[2], _read_policies()
        # Most deployments name one policy: all take a tenth of a second.
        start = text.find(f'\n "{name}":{{') if _POLICY_NAME.fullmatch(name) else -1
        if start < 0:
            self.fill()
            return
        data, _ = json.JSONDecoder().raw_decode(text, text.index("{", start))
        policy = self._create(name, data)
        # Another thread may have made and attached it meanwhile.
        super().setdefault(policy.arn, policy)

    def __contains__(self, key: object) -> bool:
        self._look(key)
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self._look(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._look(key)
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        self.fill()
        return super().__iter__()

    def __len__(self) -> int:
        self.fill()
        return super().__len__()

    def keys(self) -> Any:
        self.fill()
        return super().keys()

    def values(self) -> Any:
        self.fill()
        return super().values()

    def items(self) -> Any:
        self.fill()
        return super().items()


@stored_as("iam_aws_policies")
class _AwsPolicies:
    """AWS managed policies, in place of moto's list."""

    def __init__(self, policies: _Policies) -> None:
        self.policies = policies

    def __iter__(self) -> Iterator[Any]:
        return (p for arn, p in self.policies.items() if ":iam::aws:" in arn)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __add__(self, others: list[Any]) -> list[Any]:
        return [*self, *others]


def _with_policies(init: Any) -> Any:
    @functools.wraps(init)
    def with_policies(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.aws_managed_policies = _AwsPolicies(self.managed_policies)

    return with_policies


def _reduce_policies(policies: _Policies) -> Any:
    kept = [
        (arn, policy)
        for arn, policy in policies.items_there().items()
        if ":iam::aws:" not in arn or policy.attachment_count or len(policy.versions) > 1
    ]
    return _Policies, (policies.backend,), None, None, iter(kept)


def _without_sessions(_: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Drop the keys of sessions, which are stored with STS's state."""
    keys = state.get("access_keys", {})
    return {**state, "access_keys": {k: v for k, v in keys.items() if v.user_name is not None}}


# --- sessions -------------------------------------------------------------------------------------


@stored_as("iam_session_rows")
class _Sessions(Rows):
    """The sessions of an account, by access key, oldest first; expired ones are dropped."""

    service = "sts"

    def __init__(self, rows_id: int | None = None) -> None:
        super().__init__(rows_id)
        self.by_key: dict[str, Any] = {}
        self._ends: list[tuple[datetime, str]] = []

    def append(self, session: Any) -> None:
        """Add a session, as moto does to its list."""
        now = utcnow()
        while self._ends and (self._ends[0][0] <= now or len(self.by_key) >= MOST_SESSIONS):
            _, key = heapq.heappop(self._ends)
            _keys_of(self.by_key.pop(key)).pop(key, None)
            CHANGES.row(self, key)
        self._add(session.access_key_id, session)
        CHANGES.row(self, session.access_key_id)

    def _add(self, key: str, session: Any) -> None:
        self.by_key[key] = session
        heapq.heappush(self._ends, (session.expiration, key))

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self.by_key.values()))

    def encode_row(self, key: Any) -> bytes | None:
        """See `Rows.encode_row`."""
        return pickles.dump(self.by_key[key]) if key in self.by_key else None

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        return list(self.by_key)

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        for key, value in rows:
            session = pickles.load(value)
            self._add(str(key), session)
            _keys_of(session)[str(key)] = session.access_key


def _keys_of(session: Any) -> Any:
    """Return the IAM access keys of a session's account."""
    from moto.iam.models import iam_backends

    return iam_backends[session.account_id][session.partition].access_keys


def _with_sessions(init: Any) -> Any:
    @functools.wraps(init)
    def with_sessions(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.assumed_roles = _Sessions()

    return with_sessions


def add_client_id_calls(module: Any) -> None:
    """Add the calls that add a client to a provider and remove it. Both are idempotent (documented)."""
    from moto.core.responses import EmptyResult

    def clients_of(self: Any) -> list[str]:
        provider = self.backend.get_open_id_connect_provider(
            self._get_param("OpenIDConnectProviderArn")
        )
        return provider.client_id_list

    def add_client_id_to_open_id_connect_provider(self: Any) -> EmptyResult:
        clients, client = clients_of(self), self._get_param("ClientID")
        if client not in clients:
            clients.append(client)
        return EmptyResult()

    def remove_client_id_from_open_id_connect_provider(self: Any) -> EmptyResult:
        clients, client = clients_of(self), self._get_param("ClientID")
        if client in clients:
            clients.remove(client)
        return EmptyResult()

    response = module.IamResponse
    response.add_client_id_to_open_id_connect_provider = add_client_id_to_open_id_connect_provider
    response.remove_client_id_from_open_id_connect_provider = (
        remove_client_id_from_open_id_connect_provider
    )


def keep_password_reset(module: Any) -> None:
    """Keep whether a new login profile's password must be changed, which moto keeps only of an update."""
    create, get = module.IamResponse.create_login_profile, module.IamResponse.get_login_profile

    @functools.wraps(create)
    def create_login_profile(self: Any) -> Any:
        create(self)
        user = self.backend.get_user(self._get_param("UserName"))
        user.password_reset_required = self._get_bool_param("PasswordResetRequired", False)
        return get(self)

    module.IamResponse.create_login_profile = create_login_profile


def refuse_as_aws(module: Any) -> None:
    """Refuse a provider or a service-linked role that exists, and a service that is no service, as AWS does.

    The sentences are assumed, after users' reports.
    """
    from moto.iam.exceptions import EntityAlreadyExists, InvalidInput

    backend = module.IAMBackend
    create_provider = backend.create_open_id_connect_provider
    create_role = backend.create_service_linked_role

    @functools.wraps(create_provider)
    def create_open_id_connect_provider(self: Any, url: str, *args: Any, **named: Any) -> Any:
        try:
            return create_provider(self, url, *args, **named)
        except EntityAlreadyExists as error:
            raise EntityAlreadyExists(f"Provider with url {url} already exists.") from error

    @functools.wraps(create_role)
    def create_service_linked_role(self: Any, service_name: str, *args: Any, **named: Any) -> Any:
        if not service_name.endswith(".amazonaws.com"):
            raise InvalidInput(f"{service_name} is not a valid service principal.")
        try:
            return create_role(self, service_name, *args, **named)
        except EntityAlreadyExists as error:
            name = error.message.split(" ")[3]
            raise InvalidInput(
                f"Service role name {name} has been taken in this account, please try a different suffix."
            ) from error

    backend.create_open_id_connect_provider = create_open_id_connect_provider
    backend.create_service_linked_role = create_service_linked_role
