"""The identity of a caller, from its access key or the calling service: hashable, and not yet looked up in IAM.

The errors of services for requests that IAM denies.

Adds the condition keys that depend on a single call: its time, source address, MFA session and resource tags.

They are added only when a policy uses them: a decision that depends on the time cannot be cached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import protocol_of
from headrace.aws.signatures.access_keys import RoleSession
from headrace.core.ports import CallerIdentity
from headrace.core.values import iso_seconds_of
from headrace.permissions.policies.evaluate import keys_asked
from headrace.permissions.policies.model import Access, Policies

# The end of the reason when the caller's role or user does not exist.
NOT_IN_IAM = "does not exist in IAM"


def refusal(service: str, sentence: str, action: str) -> AwsError:
    """Return the service's error for a denied action, which may be an action on the resource's key."""
    if sentence.endswith(NOT_IN_IAM):
        return gone(service)
    is_key = action.startswith("kms:") and service != "kms"
    return build_key_refusal(service, sentence) if is_key else build_refusal(service, sentence)


def build_refusal(service: str, sentence: str) -> AwsError:
    """Return a service's error for an action that IAM denies the caller.

    Source: docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html and each service's page of
    common errors (documented): AccessDenied in XML, AccessDeniedException in JSON, and some services' own.
    """
    code, status = _code_of(service)
    return AwsError(code, sentence, status)


# The errors of services for a caller who may not use the key of an encrypted resource. Kinesis' is observed
# (github.com/serverless-operations/serverless-apigateway-service-proxy/issues/101), the others are documented in each
# operation's reference.
_KEY_CODES = {
    "kinesis": "KMSAccessDeniedException",
    "firehose": "InvalidKMSResourceException",
    "sqs": "KMS.AccessDeniedException",
    "sns": "KMSAccessDenied",
}


def build_key_refusal(service: str, sentence: str) -> AwsError:
    """Return a service's error for a caller who may not use the key of the requested resource."""
    code = _KEY_CODES.get(service)
    return build_refusal(service, sentence) if code is None else AwsError(code, sentence, 400)


@functools.cache
def _code_of(service: str) -> tuple[str, int]:
    own = {"sns": ("AuthorizationError", 403), "ec2": ("UnauthorizedOperation", 403)}
    if service in own:
        return own[service]
    protocol = protocol_of(service)
    # SQS's JSON protocol has the error codes of its query protocol (observed by many users).
    if protocol in ("query", "rest-xml") or service == "sqs":
        return "AccessDenied", 403
    return "AccessDeniedException", 403 if protocol == "rest-json" else 400


def gone(service: str) -> AwsError:
    """Return the error for a session whose role is deleted. Source: users' reports (assumed for every service)."""
    sentence = "The security token included in the request is invalid."
    code, status = _code_of(service)
    if service == "s3":
        return AwsError(
            "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.",
            403,
        )
    is_json = code == "AccessDeniedException"
    return AwsError(
        "UnrecognizedClientException" if is_json else "InvalidClientTokenId", sentence, status
    )


# The web identity providers that are built into IAM (id_roles_providers_oidc.html), as trust policies name them.
WEB_PROVIDERS = frozenset(
    {
        "accounts.google.com",
        "cognito-identity.amazonaws.com",
        "graph.facebook.com",
        "www.amazon.com",
    }
)


@dataclass(frozen=True, slots=True)
class Identity:
    """One caller.

    Attributes:
        kind: what `name` is; `root` for an account itself, `key` for an access key whose user must be looked up in
            IAM, `federated` for a session of GetFederationToken, `provider` for a user of an OpenID Connect or SAML
            provider.
        name: the name of the user, role or service, the account, or the access key id. A role's name is without its
            path. For a federated session it is the name of the user who requested it, empty for the account itself.
        account: empty for services and keys.
        session: the name of a role's session, or of a federated user.
        policy: the session policy, as it was passed to AssumeRole.
        policy_arns: the managed policies that limit the session too.
        tags: the session's tags.
        source_identity: the session's source identity; empty without one.
        source_arn, source_account: for a service; see `CallerIdentity`.
        has_temporary_keys: for a user, whether the call has a session's credentials.
        has_mfa: whether the session was requested with an MFA device's code.
        keys: the condition keys of all calls of the session, with their values.
        issued_ms: when the session was issued, 0 when unknown; it does not count when identities are compared.
        partition: the partition of its ARN.
    """

    kind: Literal["root", "role", "user", "service", "key", "federated", "provider"]
    name: str
    account: str = ""
    session: str = ""
    policy: str = ""
    source_arn: str = ""
    source_account: str = ""
    policy_arns: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    source_identity: str = ""
    has_temporary_keys: bool = False
    has_mfa: bool = False
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    issued_ms: int = field(default=0, compare=False)
    partition: str = "aws"

    @property
    def is_temporary(self) -> bool:
        """Whether the caller has temporary credentials."""
        return self.kind in ("role", "federated") or self.has_temporary_keys

    @property
    def arn(self) -> str:
        """The caller's own ARN, without a path; a service's name."""
        if self.kind in ("service", "key", "provider"):
            return self.name
        if self.kind == "root":
            return f"arn:{self.partition}:iam::{self.account}:root"
        if self.kind == "federated":
            return f"arn:{self.partition}:sts::{self.account}:federated-user/{self.session}"
        return f"arn:{self.partition}:iam::{self.account}:{self.kind}/{self.name}"

    @property
    def session_arn(self) -> str:
        """The ARN of a role's session."""
        return f"arn:{self.partition}:sts::{self.account}:assumed-role/{self.name}/{self.session}"

    @property
    def has_session_policy(self) -> bool:
        """Whether the session has a session policy; without one, a federated session has no permissions of its own."""
        return bool(self.policy or self.policy_arns) or self.kind == "federated"


def identity_of_session(session: RoleSession) -> Identity | None:
    """Return the identity of the holder of temporary credentials; None for the account itself."""
    if session.kind == "root":
        return None
    if session.kind == "user":
        return Identity(
            "user",
            session.role,
            session.account,
            has_temporary_keys=True,
            has_mfa=session.has_mfa,
            issued_ms=session.issued_ms,
            partition=session.partition,
        )
    return Identity(
        session.kind,
        session.role,
        session.account,
        session.name,
        session.policy,
        policy_arns=session.policy_arns,
        tags=session.tags,
        source_identity=session.source_identity,
        keys=session.keys,
        issued_ms=session.issued_ms,
        partition=session.partition,
    )


def identity_of(acting: CallerIdentity) -> Identity:
    """Return the identity under which a service acts."""
    if acting.arn in WEB_PROVIDERS or "-provider/" in acting.arn:
        return Identity("provider", acting.arn)
    if not acting.arn.startswith("arn:"):
        return Identity(
            "service",
            acting.arn,
            source_arn=acting.source_arn,
            source_account=acting.source_account,
        )
    account, resource = acting.arn.split(":", 5)[4:]
    partition = acting.arn.split(":", 2)[1]
    if resource == "root":
        return Identity("root", account, account, partition=partition)
    kind = "user" if resource.startswith("user/") else "role"
    return Identity(
        kind,
        resource.rpartition("/")[2],
        account,
        acting.session,
        acting.policy,
        policy_arns=acting.policy_arns,
        partition=partition,
    )


_CURRENT, _EPOCH, _SOURCE = "aws:currenttime", "aws:epochtime", "aws:sourceip"
_MFA, _MFA_AGE = "aws:multifactorauthpresent", "aws:multifactorauthage"
_TAG = ":resourcetag/"
_ISSUED = "aws:tokenissuetime"
_TIMED = frozenset({_CURRENT, _EPOCH, _MFA_AGE, _ISSUED})
# All callers are on this machine.
_LOOPBACK = "127.0.0.1"


def at(
    access: Access, policies: Policies, now_ms: int, identity: Identity | None = None
) -> tuple[Access, bool]:
    """Return an access with those of these keys that the policies use, and whether the time is one of them."""
    asked = keys_asked(access, policies)
    known = {_CURRENT: iso_seconds_of(now_ms), _EPOCH: str(now_ms // 1000), _SOURCE: _LOOPBACK}
    values = {key: (value,) for key, value in known.items()}
    if identity is not None:
        values |= _of_session(identity, now_ms)
    missing = {k: v for k, v in values.items() if k in asked and k not in access.context}
    if not missing:
        return access, False
    return replace(access, context={**access.context, **missing}), not _TIMED.isdisjoint(missing)


def with_tags(
    access: Access, policies: Policies, tags_of: Callable[[str], Mapping[str, str]]
) -> tuple[Access, bool]:
    """Return an access with the resource tags that the policies use, and whether they use any.

    Source: reference_policies_condition-keys.html, aws:ResourceTag. Keys of this name with a service's prefix have the
    same values.
    """
    asked = [key for key in keys_asked(access, policies) if _TAG in key]
    if not asked:
        return access, False
    tags = {key.lower(): value for key, value in tags_of(access.resource).items()}
    tag_values = {key: (tags[name],) for key in asked if (name := key.partition(_TAG)[2]) in tags}
    return replace(access, context={**tag_values, **access.context}), True


def _of_session(identity: Identity, now_ms: int) -> dict[str, tuple[str, ...]]:
    """Return the condition keys of a session. A call with a user's own access keys has none of them.

    Source: reference_policies_condition-keys.html and id_credentials_mfa_configure-api-require.html: only the sessions
    of GetSessionToken have MFA keys; a role's sessions never have. headrace lets a service's session for a role begin
    when the service calls.
    """
    if not identity.is_temporary:
        return {}
    issued_ms = identity.issued_ms or now_ms
    values: dict[str, tuple[str, ...]] = {
        **dict(identity.keys),
        _MFA: ("true" if identity.has_mfa else "false",),
        _ISSUED: (iso_seconds_of(issued_ms),),
    }
    if identity.has_mfa:
        values[_MFA_AGE] = (str((now_ms - issued_ms) // 1000),)
    return values
