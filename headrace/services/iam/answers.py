"""Answers IAM and STS operations that moto lacks or answers wrongly: sessions, and the policy simulator."""

from __future__ import annotations

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.signatures.sessions import RoleSessions
from headrace.services.iam.policy_simulation import OPERATIONS as SIMULATIONS
from headrace.services.iam.policy_simulation import answer_of_simulation
from headrace.services.iam.sts.caller_identity import answer_of_session
from headrace.services.iam.sts.sessions import OPERATIONS as STS_SESSIONS
from headrace.services.iam.sts.sessions import answer_of_sts


def answer_without_moto(
    package: str, operation: str, request: HttpRequest, sessions: RoleSessions | None
) -> HttpResponse | None:
    """Return the answer to an operation of moto's package; None if moto answers it. moto must be loaded.

    Raises AwsError, with the service's sentence.
    """
    if package == "iam" and operation in SIMULATIONS:
        return answer_of_simulation(request)
    if package != "sts" or sessions is None:
        return None
    if operation == "GetCallerIdentity":
        return answer_of_session(sessions, request)
    return answer_of_sts(sessions, request) if operation in STS_SESSIONS else None
