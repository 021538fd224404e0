"""A caller as the cloud knows one from a key or a service's word: small, hashable, and not yet looked up in IAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.core.ports import Acting


@dataclass(frozen=True, slots=True)
class Identity:
    """One caller.

    Attributes:
        kind: what `name` is; `key` for an access key that only IAM can tell the user of.
        name: of the user, role or service, or the access key id. A role's is without its path.
        account: empty for services and keys.
        session: the name of a role's session.
        policy: the session policy, as AssumeRole was given it.
        source_arn, source_account: of a service; see `Acting`.
    """

    kind: Literal["role", "user", "service", "key"]
    name: str
    account: str = ""
    session: str = ""
    policy: str = ""
    source_arn: str = ""
    source_account: str = ""

    @property
    def arn(self) -> str:
        """The caller's own ARN, without a path; a service's name."""
        if self.kind in ("service", "key"):
            return self.name
        return f"arn:aws:iam::{self.account}:{self.kind}/{self.name}"


def identity_of(acting: Acting) -> Identity:
    """Return the identity of those for whom a service acts."""
    if not acting.arn.startswith("arn:"):
        return Identity(
            "service",
            acting.arn,
            source_arn=acting.source_arn,
            source_account=acting.source_account,
        )
    account, resource = acting.arn.split(":", 5)[4:]
    kind = "user" if resource.startswith("user/") else "role"
    return Identity(kind, resource.rpartition("/")[2], account, acting.session)
