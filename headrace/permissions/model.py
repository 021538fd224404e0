"""Who calls, what the call touches, which policies apply, and what was decided. Frozen values; no rules."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.permissions.document import Document, parse_document

PrincipalKind = Literal["root", "user", "role", "federated", "service", "provider", "anonymous"]
Effect = Literal["allow", "explicit deny", "implicit deny"]
Layer = Literal[
    "identity-based policy", "permissions boundary", "session policy", "resource-based policy"
]

# Values of condition keys: the key in lower case, its values as texts.
Context = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls.

    `arn` is what GetCallerIdentity says, for a role `arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`; `identity_arn`
    is the user's or role's own ARN, to which policies are attached, with its path; for a federated user
    (`arn:aws:sts::ACCOUNT:federated-user/NAME`) that of the user who asked for the session. For a service, `arn` is
    its name (`lambda.amazonaws.com`) and `account` is empty; so too for an identity provider, which vouches for
    whom IAM does not have: `arn` is what trust policies name as Federated. `name` is the user's or the role's name.
    `tags` are the user's or role's; `session_tags` win over them. `source_identity` is the session's, or empty.
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

    `account` is that of the resource. `context` has the condition keys that are known beyond those that the
    principal itself gives (`headrace.permissions.context`), in lower case.
    """

    action: str
    resource: str = "*"
    account: str = ""
    context: Context = field(default_factory=dict[str, tuple[str, ...]], hash=False)


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy as it is attached: a managed one has an ARN, an inline one and a resource's have none."""

    name: str
    document: Document
    arn: str = ""

    @staticmethod
    def of(name: str, text: str, arn: str = "") -> NamedPolicy:
        """Return the policy with its document parsed, once for each text.

        Raises UnreadableDocument for a text that is no policy; what a Put may store, `grammar` says.
        """
        return _named(name, text, arn)


@functools.lru_cache(maxsize=4096)
def _named(name: str, text: str, arn: str) -> NamedPolicy:
    return NamedPolicy(name, parse_document(text), arn)


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies that apply to one call.

    `identity`: the user's or role's own, inline and managed, a user's groups' too. `session`: None without a session
    policy; an empty tuple lets nothing through. `resource`: that of the resource that is touched, where it has one.
    """

    identity: tuple[NamedPolicy, ...] = ()
    boundary: NamedPolicy | None = None
    session: tuple[NamedPolicy, ...] | None = None
    resource: NamedPolicy | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A statement that applied: its policy, its place in it counted from 0, and its Sid (empty without one)."""

    policy: NamedPolicy
    index: int
    sid: str
    layer: Layer


@dataclass(frozen=True, slots=True)
class Decision:
    """What AWS would decide.

    `layer` is the kind of policy that decided: what allowed, what denied, or what did not allow. `matched`: for an
    allow the statements that allow, for an explicit deny those that deny, else what allowed as far as it went.
    `sentence` is the reason as AWS words it, which ends its refusal: "because no identity-based policy allows the
    kinesis:PutRecord action", "with an explicit deny in an identity-based policy"; empty if allowed.
    """

    allowed: bool
    effect: Effect
    layer: Layer
    matched: tuple[Match, ...] = ()
    sentence: str = ""
