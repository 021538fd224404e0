"""STS and IAM: who calls, whom one may become, and IAM's refusals, each in AWS's words."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable
from typing import Any

from headrace.aws.sessions import RoleSession, RoleSessions, role_name
from headrace.fallback.current import CURRENT
from headrace.fallback.services.time_of import utcnow
from headrace.fallback.sts_sessions import check_duration

_ROLE_ARN = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/.+")
# moto's identity of a caller whom it does not know; AWS has no such ARN.
_NOBODY = re.compile(r"arn:[a-z-]+:sts::(\d{12}):user/moto")
# moto's method and what AWS says when what it looks for is missing (observed by many users).
_MISSING = {
    "get_role": "The role with name {} cannot be found.",
    "get_policy": "Policy {} was not found.",
    "get_instance_profile": "Instance Profile {} cannot be found.",
}


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    from moto.iam.models import IAMBackend
    from moto.sts.models import STSBackend

    sts: Any = STSBackend
    sts.get_caller_identity = _as_root(STSBackend.get_caller_identity)
    # Of identities of others: what is AssumeRole itself, `headrace.fallback.sts_sessions` answers.
    sts.assume_role = _of_roles_only(STSBackend.assume_role)
    sts.assume_role_with_saml = _with_own_credentials(STSBackend.assume_role_with_saml)
    iam: Any = IAMBackend
    for name, sentence in _MISSING.items():
        setattr(iam, name, _in_awss_words(getattr(IAMBackend, name), sentence))


def _as_root(identity: Any) -> Any:
    """Have a caller whose key is nobody's be the account itself, as with the keys of a root user."""

    @functools.wraps(identity)
    def known(self: Any, *args: Any, **named: Any) -> tuple[str, str, str]:
        user_id, arn, account = identity(self, *args, **named)
        if _NOBODY.fullmatch(arn):
            return account, f"arn:aws:iam::{account}:root", account
        return user_id, arn, account

    return known


def _of_roles_only(assume_role: Any) -> Any:
    @functools.wraps(assume_role)
    def assumed(self: Any, *args: Any, **named: Any) -> Any:
        from moto.sts.exceptions import STSValidationError

        arn = str(named["role_arn"])
        if not _ROLE_ARN.fullmatch(arn):
            raise STSValidationError(f"{arn} is invalid")
        sessions = CURRENT.sessions
        if sessions is None:
            return assume_role(self, *args, **named)
        return _session(sessions, arn, named)

    return assumed


def _session(sessions: RoleSessions, role_arn: str, named: dict[str, Any]) -> Any:
    """Return a session as moto has one, with credentials that this cloud recognises without keeping them.

    Raises AwsError when it is to last longer than its role lets it.
    """
    from moto.iam.models import AccessKey
    from moto.sts.models import AssumedRole

    account = role_arn.split(":")[4]
    check_duration(account, role_name(role_arn), int(named["duration"]), is_chained=False)
    key = AccessKey(user_name=None, prefix="ASIA", account_id=account)
    made: Any = AssumedRole(
        account_id=account,
        region_name=named["region_name"],
        access_key=key,
        role_session_name=named["role_session_name"],
        role_arn=role_arn,
        policy=named["policy"],
        duration=named["duration"],
        external_id=named["external_id"],
    )
    return _issued(sessions, made, int(named["duration"]))


def _issued(sessions: RoleSessions, made: Any, duration_s: int) -> Any:
    """Return moto's session with this cloud's credentials of the same role."""
    session = RoleSession(
        made.role_arn.split(":")[4],
        role_name(made.role_arn),
        str(made.session_name),
        CURRENT.clock.now_ms() + duration_s * 1000,
        made.policy or "",
    )
    credentials = sessions.issue(session)
    made.access_key_id = credentials.access_key_id
    made.secret_access_key = credentials.secret_access_key
    made.session_token = credentials.session_token
    return made


def _with_own_credentials(assume_role: Any) -> Any:
    """Have a session of SAML's, whose role and duration moto reads from the assertion, be one of this cloud's."""

    @functools.wraps(assume_role)
    def assumed(self: Any, *args: Any, **named: Any) -> Any:
        made = assume_role(self, *args, **named)
        sessions = CURRENT.sessions
        if sessions is None:
            return made
        duration_s = round((made.expiration - utcnow()).total_seconds())
        account = made.role_arn.split(":")[4]
        check_duration(account, role_name(made.role_arn), duration_s, is_chained=False)
        return _issued(sessions, copy.copy(made), duration_s)

    return assumed


def _in_awss_words(find: Callable[..., Any], sentence: str) -> Any:
    @functools.wraps(find)
    def found(self: Any, name: str, *args: Any, **named: Any) -> Any:
        from moto.iam.exceptions import NotFoundException

        try:
            return find(self, name, *args, **named)
        except NotFoundException:
            raise NotFoundException(sentence.format(name)) from None

    return found
