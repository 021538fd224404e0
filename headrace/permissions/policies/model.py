"""The data classes of permissions: principal, access, policies and decision. Frozen values; no rules."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.permissions.policies.document import Document, parse_document

PrincipalKind = Literal["root", "user", "role", "federated", "service", "provider", "anonymous"]
Effect = Literal["allow", "explicit deny", "implicit deny"]
Layer = Literal[
    "identity-based policy", "permissions boundary", "session policy", "resource-based policy"
]

# Values of condition keys: the key in lower case, its values as texts.
Context = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of an operation.

    `arn` is what GetCallerIdentity says, for a role `arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`; `identity_arn` is
    the user's or role's own ARN, to which policies are attached, with its path; for a federated user
    (`arn:aws:sts::ACCOUNT:federated-user/NAME`) the ARN of the user who requested the session. For a service, `arn` is
    its name (`lambda.amazonaws.com`) and `account` is empty; also for a user of an identity provider, whose `arn` is
    the name of the provider in trust policies (Federated). `name` is the user's or the role's name. `tags` are the
    user's or role's; `session_tags` win over them. `source_identity` is the session's, or empty.
    """

    kind: PrincipalKind
    arn: str
    account: str = ""
    identity_arn: str = ""
    user_id: str = ""
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    session_tags: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    source_identity: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """One action on one resource: `kinesis:PutRecords` on a stream's ARN, or `*` where the action has no resource.

    `account` is the resource's account. `context` has further condition keys, in lower case, beyond those of the
    principal (`headrace.permissions.policies.evaluate`).
    """

    action: str
    resource: str = "*"
    account: str = ""
    context: Context = field(default_factory=dict[str, tuple[str, ...]], hash=False)

    @staticmethod
    def to(action: str, resource: str) -> Access:
        """Return an access for which only action and ARN are known."""
        if not resource.startswith("arn:"):
            return Access(action, resource)
        _, _, _, region, account, _ = resource.split(":", 5)
        context = {"aws:requestedregion": (region,)} if region else {}
        return Access(action, resource, account, context)


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A named policy: a managed policy has an ARN, an inline policy and a resource's policy have none."""

    name: str
    document: Document
    arn: str = ""

    @staticmethod
    def of(name: str, text: str, arn: str = "") -> NamedPolicy:
        """Return the policy with its parsed document; each text is parsed once.

        Raises UnreadableDocument for a text that is not a policy; `grammar` checks what AWS would store.
        """
        return _parse_named(name, text, arn)


@functools.lru_cache(maxsize=4096)
def _parse_named(name: str, text: str, arn: str) -> NamedPolicy:
    return NamedPolicy(name, parse_document(text), arn)


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies that apply to one call.

    `identity`: the policies of the user (its groups included) or role, inline and managed. `session`: the session
    policies, None without any; an empty tuple allows nothing. `resource`: the policy of the resource, if it has one.
    """

    identity: tuple[NamedPolicy, ...] = ()
    boundary: NamedPolicy | None = None
    session: tuple[NamedPolicy, ...] | None = None
    resource: NamedPolicy | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A statement that applied: its policy, its index there, and its Sid (empty without one)."""

    policy: NamedPolicy
    index: int
    sid: str
    layer: Layer


@dataclass(frozen=True, slots=True)
class Decision:
    """AWS's decision on an access.

    `layer` is the kind of policy that decided: that allowed, denied, or did not allow. `matched` has the statements
    that decided: for an allow those that allow, for an explicit deny those that deny, else those that allowed in other
    layers. `sentence` is AWS's reason, the end of its refusal: "because no identity-based policy allows the
    kinesis:PutRecord action", "with an explicit deny in an identity-based policy"; empty if allowed.
    """

    allowed: bool
    effect: Effect
    layer: Layer
    matched: tuple[Match, ...] = ()
    sentence: str = ""
