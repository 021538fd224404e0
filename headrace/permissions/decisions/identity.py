"""The identity of a caller, from its access key or the calling service: hashable, and not yet looked up in IAM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from headrace.aws.signatures.sessions import RoleSession
from headrace.core.ports import CallerIdentity

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
