"""Validates IAM's policies when they are stored, as IAM does: grammar, principals, sizes; moto checks only a part.

IAM's quotas on attached policies and on groups, which moto lacks.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html; the sentence is the one that users report
("Cannot exceed quota for PoliciesPerRole: 10"). Ten is the default; AWS raises it on request.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.moto.principals import exists_for
from headrace.permissions.policies.document import find_missing_principal
from headrace.permissions.policies.grammar import (
    Holder,
    PolicyError,
    PolicyKind,
    check_policy,
    check_size,
    size_of,
)

# Inline policies may have any version; moto does not tell its validator whether a policy is inline.
_is_inline: ContextVar[bool] = ContextVar("is_inline", default=False)
_INLINE: dict[str, tuple[Holder, str]] = {
    "put_role_policy": ("role", "get_role"),
    "put_user_policy": ("user", "get_user"),
    "put_group_policy": ("group", "get_group"),
}


def patch() -> None:
    """Replace moto's checks. Called once."""
    import moto.iam.models as iam

    # Only IAM's names for these classes are replaced: ECR validates its repositories' policies with the same classes.
    models: Any = iam
    models.IAMPolicyDocumentValidator = _Identity
    models.IAMTrustPolicyDocumentValidator = _Trust
    backend: Any = iam.IAMBackend
    for name, (holder, find) in _INLINE.items():
        setattr(backend, name, _inline(getattr(backend, name), holder, find))
    backend.create_role = _with_trust(backend.create_role)
    backend.update_assume_role_policy = _with_trust(backend.update_assume_role_policy)
    backend.create_policy = _check_managed(backend.create_policy, place=2)
    backend.create_policy_version = _check_managed(backend.create_policy_version, place=1)


def _raise_as_moto(check: Callable[[], None]) -> None:
    """Raise moto's error for an AwsError, so that the answer has IAM's form."""
    from moto.iam.exceptions import LimitExceededException, MalformedPolicyDocument

    try:
        check()
    except PolicyError as error:
        if error.code == "LimitExceeded":
            raise LimitExceededException(error.message) from None
        raise MalformedPolicyDocument(error.message) from None


def _check(text: str, kind: PolicyKind, *, is_managed: bool = True) -> None:
    _raise_as_moto(lambda: check_policy(text, kind, is_managed=is_managed))


class _Identity:
    """Replaces moto's validator of identity policies."""

    def __init__(self, text: str) -> None:
        self._text = text

    def validate(self) -> None:
        """Raise moto's error when IAM refuses the policy."""
        _check(self._text, "identity", is_managed=not _is_inline.get())


class _Trust(_Identity):
    """Replaces moto's validator of trust policies."""

    def validate(self) -> None:
        """Raise moto's error when IAM refuses the policy."""
        _check(self._text, "trust")
        _raise_as_moto(lambda: check_size(self._text, "trust"))


def _inline(put: Any, holder: Holder, find: str) -> Any:
    """Return an operation that stores an inline policy, with a limit on the total size of a holder's policies."""

    @functools.wraps(put)
    def put_policy(self: Any, name: str, policy_name: str, policy_json: str) -> Any:
        policies: Mapping[str, str] = getattr(self, find)(name).policies
        others = sum(size_of(text) for key, text in policies.items() if key != policy_name)
        token = _is_inline.set(True)
        try:
            _check(policy_json, "identity", is_managed=False)
            _raise_as_moto(lambda: check_size(policy_json, holder, name, others=others))
            return put(self, name, policy_name, policy_json)
        finally:
            _is_inline.reset(token)

    return put_policy


def _with_trust(put: Any) -> Any:
    """Return an operation that stores a role's trust policy, its second argument."""

    @functools.wraps(put)
    def check_and_put(self: Any, role_name: str, *args: Any, **named: Any) -> Any:
        text = str(
            args[0]
            if args
            else named.get("assume_role_policy_document") or named["policy_document"]
        )
        _check(text, "trust")
        _raise_as_moto(lambda: check_size(text, "trust"))
        # Not while state is loaded: it was valid once, and a principal may have been deleted since.
        if CURRENT.control is not None:
            missing = find_missing_principal(text, exists_for(str(self.account_id)))
            if missing:
                _raise_as_moto(lambda: _raise(f'Invalid principal in policy: "AWS":"{missing}"'))
        return put(self, role_name, *args, **named)

    return check_and_put


def _raise(sentence: str) -> None:
    raise PolicyError("MalformedPolicyDocument", sentence)


def _check_managed(create: Any, *, place: int) -> Any:
    """Return an operation that stores a managed policy: its argument at `place`, or `policy_document`."""

    @functools.wraps(create)
    def check_and_create(self: Any, *args: Any, **named: Any) -> Any:
        text = str(args[place] if len(args) > place else named["policy_document"])
        _check(text, "identity")
        _raise_as_moto(lambda: check_size(text, "policy"))
        return create(self, *args, **named)

    return check_and_create


MOST_ATTACHED = 10
MOST_GROUPS = 10
_HOLDERS = {"Role": "get_role", "User": "get_user", "Group": "get_group"}


def limit_attachments() -> None:
    """Add the quotas to moto's IAM. Called once."""
    from moto.iam.models import IAMBackend

    backend: Any = IAMBackend
    for kind, find in _HOLDERS.items():
        name = f"attach_{kind.lower()}_policy"
        setattr(backend, name, _limit_attachments(getattr(backend, name), kind, find))
    backend.add_user_to_group = _limit_groups(backend.add_user_to_group)


def _limit_attachments(attach: Any, kind: str, find: str) -> Any:
    @functools.wraps(attach)
    def check_and_attach(self: Any, policy_arn: str, holder: str) -> Any:
        policies: Any = getattr(self, find)(holder).managed_policies
        if policy_arn not in policies and len(policies) >= MOST_ATTACHED:
            _refuse(f"PoliciesPer{kind}", MOST_ATTACHED)
        return attach(self, policy_arn, holder)

    return check_and_attach


def _limit_groups(add: Any) -> Any:
    @functools.wraps(add)
    def check_and_add(self: Any, group_name: str, user_name: str) -> Any:
        user = self.get_user(user_name)
        groups = [group for group in self.groups.values() if user in group.users]
        is_member = any(group.name == group_name for group in groups)
        if not is_member and len(groups) >= MOST_GROUPS:
            _refuse("GroupsPerUser", MOST_GROUPS)
        return add(self, group_name, user_name)

    return check_and_add


def _refuse(quota: str, most: int) -> None:
    from moto.iam.exceptions import LimitExceededException

    raise LimitExceededException(f"Cannot exceed quota for {quota}: {most}")
