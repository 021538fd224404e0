"""Answers GetCallerIdentity for role sessions of this cloud, such as functions', which moto does not know."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any, cast

from headrace.aws import codec_moto
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.sessions import RoleSession, RoleSessions, token_of


def answer_of_session(sessions: RoleSessions, request: HttpRequest) -> HttpResponse | None:
    """Return the answer for a session of this cloud; None for all other callers. moto must be loaded."""
    assert request.call is not None
    session = sessions.find(request.call.access_key, token_of(request))
    if session is None:
        return None
    identity = {
        "UserId": f"{_role_id(sessions, session)}:{session.name}",
        "Account": session.account,
        "Arn": session.arn,
    }
    return codec_moto.serialize_output(
        "sts", "GetCallerIdentity", identity, request.call.request_id
    )


def _role_id(sessions: RoleSessions, session: RoleSession) -> str:
    """Return IAM's id of the role, or one of its form for a role that IAM does not have."""
    from moto.iam.models import iam_backends

    of_account: Any = cast("Any", iam_backends).get(session.account)
    backend: Any = None if of_account is None else of_account.get("aws")
    for role in () if backend is None else tuple(backend.roles.values()):
        if role.name == session.role:
            return str(role.id)
    return sessions.role_id(session.account, session.role)
