"""Answers STS's operations that create sessions, with credentials that name their owner.

Nothing is stored: the session's data is sealed in its token, see `headrace.aws.signatures.access_keys`. Sources: the
operations' references; docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html, reference_iam-quotas.html and, on
source identities, id_credentials_temp_control-access_monitor.html; sentences as AWS's users and LocalStack report them.

Verifies the codes of users' MFA devices in GetSessionToken and AssumeRole.

A virtual device's code follows from its seed (RFC 6238, 30 seconds, six digits), which CreateVirtualMFADevice returns.
The seed of a device that was not created in this cloud is unknown, and any six digits are accepted.
Sentences: as users report them of STS (github.com/aws/aws-cli/issues/2951 and /3875).

Answers GetCallerIdentity for this cloud's temporary credentials, such as functions', which moto does not know.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import base64
import binascii
import hmac
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from xml.sax.saxutils import escape

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call
from headrace.aws.protocols import codec_moto
from headrace.aws.protocols.validate import validate
from headrace.aws.signatures.access_keys import RoleSession, RoleSessions, role_name
from headrace.aws.signatures.credential_scopes import token_of
from headrace.core.arn import is_account_id, partition_of
from headrace.core.ports import CallerIdentity
from headrace.moto import principals
from headrace.moto.current_cloud import CURRENT
from headrace.moto.requests.quick import NotPlain, QuickCall, QuickRequest
from headrace.permissions.policies.grammar import PolicyError, check_policy
from headrace.services.iam import sts_federation


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
        user = principals.holder_of(session.account, "user", session.role)
        return "" if user is None else str(user.id)
    role = principals.holder_of(session.account, "role", session.role)
    role_id = sessions.role_id(session.account, session.role) if role is None else str(role.id)
    return f"{role_id}:{session.name}"


STEP_S = 30
# A device's clock may be off: the codes of the previous and next step count too (assumed, RFC 6238 recommends one).
STEPS_OFF = 1
_FAILED = "MultiFactorAuthentication failed"
_WRONG_CODE = f"{_FAILED} with invalid MFA one time pass code. "
_WRONG_DEVICE = (
    f"{_FAILED}, unable to validate MFA code.  Please verify your MFA serial number is valid and associated with this"
    " user."
)


def check_code(account: str, user: str, serial_number: str, code: str, now_ms: int) -> None:
    """Refuse a wrong code, or a device of another user. Raises AwsError."""
    holder = principals.holder_of(account, "user", user) if user else None
    if holder is None or serial_number not in holder.mfa_devices:
        raise AwsError("AccessDenied", _WRONG_DEVICE, 403)
    seed = _seed_of(account, serial_number)
    if seed is None:
        return
    step = now_ms // 1000 // STEP_S
    near = range(step - STEPS_OFF, step + STEPS_OFF + 1)
    if not any(hmac.compare_digest(code_of(seed, counter), code) for counter in near):
        raise AwsError("AccessDenied", _WRONG_CODE, 403)


def code_of(seed: bytes, step: int) -> str:
    """Return the code of a 30-second step since 1970. Source: RFC 6238 and RFC 4226."""
    digest = hmac.digest(seed, step.to_bytes(8, "big"), "sha1")
    start = digest[-1] & 15
    number = int.from_bytes(digest[start : start + 4], "big") & 0x7FFF_FFFF
    return f"{number % 1_000_000:06d}"


def _seed_of(account: str, serial_number: str) -> bytes | None:
    """Return the seed of a virtual device; None for another device."""
    backend = principals.backend_of(account)
    device: Any = None if backend is None else backend.virtual_mfa_devices.get(serial_number)
    if device is None:
        return None
    try:
        return base64.b32decode(str(device.base32_string_seed))
    except binascii.Error:
        return None


HOUR_S = 3600
LONG_S = 12 * HOUR_S
MOST_POLICY_CHARACTERS = 2048
MOST_POLICY_ARNS = 10
_ALREADY_SET = "The source identity is already set for this assume role session"
_CONFLICT = (
    "One of the specified transitive tag keys can't be set because it conflicts with a transitive tag key from the"
    " calling session."
)
_NOT_REQUESTED = "The specified transitive tag key must be included in the requested tags."
_DUPLICATE = "Duplicate tag keys found. Please note that Tag keys are case insensitive."
_TOO_LONG = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
_CHAINED = "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining."


@dataclass(frozen=True, slots=True)
class _Request:
    """A request and its caller: `session` for temporary credentials, `user` for a user's own key."""

    call: Call
    operation: str
    params: Mapping[str, Any]
    session: RoleSession | None
    user: str
    sessions: RoleSessions

    def text(self, name: str) -> str:
        return str(self.params.get(name) or "")

    def expires_ms(self, duration_s: int) -> int:
        return self.call.now_ms + duration_s * 1000

    def refuse_session(self, operation: str) -> None:
        """Refuse a caller with temporary credentials. Raises AwsError."""
        if self.session is not None:
            sentence = f"Cannot call {operation} with session credentials"
            raise AwsError("AccessDenied", sentence, 403)


def answer_of_sts(sessions: RoleSessions, request: HttpRequest) -> HttpResponse:
    """Return the answer to one of OPERATIONS. Raises AwsError, with STS's sentences. moto must be loaded."""
    call = request.call
    assert call is not None
    operation, params = codec_moto.parse_request("sts", request)
    validate("sts", operation, params, code="ValidationError")
    session = sessions.find(call.access_key, token_of(request))
    asked = _Request(call, operation, params, session, _user_of(call.access_key), sessions)
    return codec_moto.serialize_output(
        "sts", operation, _ANSWERS[operation](asked), call.request_id
    )


def _user_of(access_key: str) -> str:
    """Return the name of a key's user; empty for any other key."""
    for _, backend in principals.iam_backends():
        key = backend.access_keys.get(access_key)
        if key is not None and key.user_name is not None:
            return str(key.user_name)
    return ""


# --- the operations -------------------------------------------------------------------------------


def _assume_role(asked: _Request) -> dict[str, Any]:
    arn = asked.text("RoleArn")
    account, role = _role_of(arn)
    if asked.session is not None and asked.session.kind == "federated":
        asked.refuse_session("AssumeRole")
    duration_s = int(asked.params.get("DurationSeconds") or HOUR_S)
    check_duration(account, role, duration_s, is_chained=_is_chained(asked.session))
    _has_mfa(asked)
    tags, transitive = _tags(asked)
    policy, policy_arns = _policies(asked, account)
    session = RoleSession(
        account,
        role,
        asked.text("RoleSessionName"),
        asked.expires_ms(duration_s),
        policy,
        policy_arns,
        tags,
        transitive,
        _source_identity(asked),
        issued_ms=asked.call.now_ms,
        partition=arn.split(":", 2)[1],
    )
    return _answer_of_role(asked, session)


def _answer_of_role(asked: _Request, session: RoleSession) -> dict[str, Any]:
    answer = {
        "Credentials": _credentials(asked, session),
        "AssumedRoleUser": {
            "AssumedRoleId": user_id_of(asked.sessions, session),
            "Arn": session.arn,
        },
        **_build_packed_size(session),
    }
    return (
        {**answer, "SourceIdentity": session.source_identity} if session.source_identity else answer
    )


def _assume_role_with_web_identity(asked: _Request) -> dict[str, Any]:
    account = _role_of(asked.text("RoleArn"))[0]
    token = asked.text("WebIdentityToken")
    return _assume_for(asked, sts_federation.identity_of_token(token, account, asked.call.now_ms))


def _assume_role_with_saml(asked: _Request) -> dict[str, Any]:
    role, provider = asked.text("RoleArn"), asked.text("PrincipalArn")
    assertion = asked.text("SAMLAssertion")
    return _assume_for(
        asked, sts_federation.identity_of_assertion(assertion, role, provider, asked.call.now_ms)
    )


def _assume_for(asked: _Request, vouched: sts_federation.ConfirmedIdentity) -> dict[str, Any]:
    """Return a role's session for an identity that a provider has confirmed. Raises AwsError.

    A problem with the identity is refused where permissions are enforced, and otherwise recorded.
    """
    arn, name = asked.text("RoleArn"), asked.text("RoleSessionName") or vouched.session_name
    account, role = _role_of(arn)
    action = f"sts:{asked.operation}"
    # An invalid token has no provider; no trust policy names this text.
    acting = CallerIdentity(vouched.provider or "an unknown identity provider")
    if vouched.problem is not None:
        acting = CallerIdentity("an identity that STS does not take")
    context = {**vouched.keys, "sts:rolesessionname": (name,)}
    if CURRENT.guard.denial(acting, action, arn, context):
        sentence = f"Not authorized to perform {action}"  # seen by many users
        raise vouched.problem or AwsError("AccessDenied", sentence, 403)
    duration_s = int(asked.params.get("DurationSeconds") or vouched.duration_s or HOUR_S)
    check_duration(account, role, duration_s, is_chained=False)
    policy, policy_arns = _policies(asked, account)
    session = RoleSession(
        account,
        role,
        name or "session",
        asked.expires_ms(duration_s),
        policy,
        policy_arns,
        source_identity=vouched.source_identity,
        issued_ms=asked.call.now_ms,
        keys=(*vouched.keys.items(), ("aws:federatedprovider", (vouched.provider,))),
        partition=arn.split(":", 2)[1],
    )
    return {**_answer_of_role(asked, session), **vouched.shown}


def _get_session_token(asked: _Request) -> dict[str, Any]:
    asked.refuse_session("GetSessionToken")
    duration_s = _long_duration(asked)
    kind = "user" if asked.user else "root"
    session = RoleSession(
        asked.call.account,
        asked.user,
        "",
        asked.expires_ms(duration_s),
        kind=kind,
        issued_ms=asked.call.now_ms,
        has_mfa=_has_mfa(asked),
        partition=partition_of(asked.call.region),
    )
    return {"Credentials": _credentials(asked, session)}


def _get_federation_token(asked: _Request) -> dict[str, Any]:
    asked.refuse_session("GetFederationToken")
    duration_s = _long_duration(asked)
    account = asked.call.account
    policy, policy_arns = _policies(asked, account)
    session = RoleSession(
        account,
        asked.user,
        asked.text("Name"),
        asked.expires_ms(duration_s),
        policy,
        policy_arns,
        _tags(asked)[0],
        kind="federated",
        issued_ms=asked.call.now_ms,
        partition=partition_of(asked.call.region),
    )
    return {
        "Credentials": _credentials(asked, session),
        "FederatedUser": {
            "FederatedUserId": user_id_of(asked.sessions, session),
            "Arn": session.arn,
        },
        "PackedPolicySize": 0,  # recorded of a request without policies
        **_build_packed_size(session),
    }


_ANSWERS: dict[str, Callable[[_Request], dict[str, Any]]] = {
    "AssumeRole": _assume_role,
    "AssumeRoleWithSAML": _assume_role_with_saml,
    "AssumeRoleWithWebIdentity": _assume_role_with_web_identity,
    "GetSessionToken": _get_session_token,
    "GetFederationToken": _get_federation_token,
}
OPERATIONS = frozenset(_ANSWERS)


def _credentials(asked: _Request, session: RoleSession) -> dict[str, Any]:
    issued = asked.sessions.issue(session)
    return {
        "AccessKeyId": issued.access_key_id,
        "SecretAccessKey": issued.secret_access_key,
        "SessionToken": issued.session_token,
        "Expiration": datetime.fromtimestamp(issued.expires_ms // 1000, UTC),
    }


def _has_mfa(asked: _Request) -> bool:
    """Whether a request has a valid code of its caller's MFA device. Raises AwsError for a wrong one."""
    serial_number, code = asked.text("SerialNumber"), asked.text("TokenCode")
    if not serial_number and not code:
        return False
    check_code(asked.call.account, asked.user, serial_number, code, asked.call.now_ms)
    return True


# --- the request's members ------------------------------------------------------------------------


def _role_of(arn: str) -> tuple[str, str]:
    """Return the account and name in a role's ARN. Raises AwsError."""
    parts = arn.split(":", 5)
    is_role = (
        len(parts) == 6 and parts[0] == "arn" and parts[2] == "iam" and is_account_id(parts[4])
    )
    if not is_role or not parts[5].startswith("role/") or parts[5].endswith("/"):
        raise AwsError("ValidationError", f"{arn} is invalid")
    return parts[4], role_name(arn)


def _is_chained(session: RoleSession | None) -> bool:
    return session is not None and session.kind == "role"


def check_duration(account: str, role: str, duration_s: int, *, is_chained: bool) -> None:
    """Refuse a duration that the role does not allow. Raises AwsError ValidationError.

    The maximum is an hour for a role that IAM does not have, or that sets none.
    """
    if is_chained and duration_s > HOUR_S:
        raise AwsError("ValidationError", _CHAINED)
    holder = principals.holder_of(account, "role", role)
    if holder is not None and duration_s > int(holder.max_session_duration or HOUR_S):
        raise AwsError("ValidationError", _TOO_LONG)


def _long_duration(asked: _Request) -> int:
    """Return the duration of a user's session in seconds; at most an hour for the account itself."""
    duration_s = int(asked.params.get("DurationSeconds") or LONG_S)
    return duration_s if asked.user else min(duration_s, HOUR_S)


def _tags(asked: _Request) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return a session's tags, with the inherited ones, and the keys that it passes on. Raises AwsError."""
    tag_list = cast("Sequence[Mapping[str, str]]", asked.params.get("Tags") or ())
    tags = {tag["Key"]: tag["Value"] for tag in tag_list}
    keys = {key.lower() for key in tags}
    if len(keys) != len(tag_list):
        raise AwsError("InvalidParameterValue", _DUPLICATE)
    transitive_tag_keys = tuple(cast("Sequence[str]", asked.params.get("TransitiveTagKeys") or ()))
    caller = asked.session
    inherited = {key.lower() for key in (() if caller is None else caller.transitive)}
    if keys & inherited:
        raise AwsError("InvalidParameterValue", _CONFLICT)
    if not {key.lower() for key in transitive_tag_keys} <= keys:
        raise AwsError("InvalidParameterValue", _NOT_REQUESTED)
    of_caller = {} if caller is None else dict(caller.tags)
    kept = [(key, value) for key, value in of_caller.items() if key.lower() in inherited]
    return (*kept, *tags.items()), (*sorted(inherited), *transitive_tag_keys)


def _source_identity(asked: _Request) -> str:
    """Return the session's source identity; once set, it applies to all sessions of the chain. Raises AwsError."""
    source_identity = asked.text("SourceIdentity")
    first = "" if asked.session is None else asked.session.source_identity
    if first and source_identity and source_identity != first:
        raise AwsError("AccessDenied", _ALREADY_SET, 403)  # the code is assumed
    return first or source_identity


def _policies(asked: _Request, account: str) -> tuple[str, tuple[str, ...]]:
    """Return the session policies: a text, and ARNs of managed policies. Raises AwsError."""
    text = asked.text("Policy")
    if len(text) > MOST_POLICY_CHARACTERS:
        percent = math.ceil(len(text) * 100 / MOST_POLICY_CHARACTERS)
        sentence = (
            f"Packed policy consumes {percent}% of allotted space, please use smaller policy."
        )
        raise AwsError("PackedPolicyTooLarge", sentence)
    if text:
        try:
            check_policy(text, "session")
        except PolicyError as error:
            raise AwsError(error.code, error.message) from None
    listed = cast("Sequence[Mapping[str, str]]", asked.params.get("PolicyArns") or ())
    arns = tuple(dict.fromkeys(one.get("arn", "") for one in listed))
    if len(arns) > MOST_POLICY_ARNS:
        raise AwsError(
            "ValidationError",
            f"1 validation error detected: Value '[{', '.join(arns)}]' at 'policyArns' failed to satisfy constraint:"
            f" Member must have length less than or equal to {MOST_POLICY_ARNS}",
        )
    for arn in arns:
        if principals.find_managed_policy(account, arn) is None:
            # IAM's sentence for an attached policy; assumed for a session's.
            sentence = f"Policy {arn} does not exist or is not attachable."
            raise AwsError("NoSuchEntity", sentence, 404)
    return text, arns


def _build_packed_size(session: RoleSession) -> dict[str, Any]:
    """Return the packed size of policies and tags in percent. AWS's packing is not public: this uses zlib."""
    parts = [session.policy, *session.policy_arns, *(f"{k}={v}" for k, v in session.tags)]
    if not any(parts):
        return {}
    size = len(zlib.compress("\n".join(parts).encode()))
    return {"PackedPolicySize": min(100, math.ceil(size * 100 / MOST_POLICY_CHARACTERS))}


# --- the quick way (see `headrace.moto.requests.quick`) ------------------------------------------------


def _assume_quickly(request: QuickRequest) -> bytes:
    """Answer AssumeRole without policies, tags and a device, for a caller that has no session itself."""
    call, sessions = request.call, CURRENT.sessions
    params: dict[str, Any] = request.fields(("RoleArn", "RoleSessionName", "DurationSeconds"))
    if sessions is None or sessions.account_of(call.access_key) is not None:
        raise NotPlain
    if (duration := params.get("DurationSeconds")) is not None:
        if not (duration.isascii() and duration.isdigit() and len(duration) < 9):
            raise NotPlain
        params["DurationSeconds"] = int(duration)
    try:
        validate("sts", "AssumeRole", params, code="ValidationError")
        user = _user_of(call.access_key)
        answer = _assume_role(_Request(call, "AssumeRole", params, None, user, sessions))
    except AwsError:
        raise NotPlain from None
    credentials = dict(answer.pop("Credentials"))
    credentials["Expiration"] = credentials["Expiration"].strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>'
        f"<Credentials>{_elements(credentials)}</Credentials>"
        f"<AssumedRoleUser>{_elements(answer.pop('AssumedRoleUser'))}</AssumedRoleUser>{_elements(answer)}"
        f"</AssumeRoleResult><ResponseMetadata><RequestId>{call.request_id}</RequestId></ResponseMetadata>"
        "</AssumeRoleResponse>"
    ).encode()


def _elements(values: Mapping[str, Any]) -> str:
    return "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in values.items())


QUICK_CALLS = (
    QuickCall(
        "Action=AssumeRole",
        "sts",
        _assume_quickly,
        content_type="text/xml",
        is_motos=False,
        uses_state=False,
    ),
)
