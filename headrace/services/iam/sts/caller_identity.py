"""Answers GetCallerIdentity for this cloud's temporary credentials, such as functions', which moto does not know."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.protocols import codec_moto
from headrace.aws.signatures.access_keys import RoleSession, RoleSessions
from headrace.aws.signatures.credential_scopes import token_of
from headrace.moto.memory import iam


def answer_of_session(sessions: RoleSessions, request: HttpRequest) -> HttpResponse | None:
    """Return the answer for a session of this cloud; None for any other caller. moto must be loaded."""
    assert request.call is not None
    session = sessions.find(request.call.access_key, token_of(request))
    if session is None:
        return None
    identity = {
        "UserId": user_id_of(sessions, session),
        "Account": session.account,
        "Arn": session.arn,
    }
    return codec_moto.serialize_output(
        "sts", "GetCallerIdentity", identity, request.call.request_id
    )


def user_id_of(sessions: RoleSessions, session: RoleSession) -> str:
    """Return a caller's id in the form of `aws:userid` (IAM User Guide, reference_policies_variables.html).

    A role that IAM does not have gets an id of the same form.
    """
    if session.kind == "root":
        return session.account
    if session.kind == "federated":
        return f"{session.account}:{session.name}"
    if session.kind == "user":
        user = iam.holder_of(session.account, "user", session.role)
        return "" if user is None else str(user.id)
    role = iam.holder_of(session.account, "role", session.role)
    role_id = sessions.role_id(session.account, session.role) if role is None else str(role.id)
    return f"{role_id}:{session.name}"
