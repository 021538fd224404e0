"""Names the identity under which a service acts, and asks whether a role or a user may do something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.core.arn import make_arn


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """The identity under which a service calls another in process, without a signed request.

    Attributes:
        arn: the ARN of a role or user, or the name of a service such as `events.amazonaws.com`.
        session: the name of a role's session.
        source_arn: the resource for which a service acts: the condition key aws:SourceArn.
        source_account: the account of that resource when its ARN names none, such as a bucket's.
        policy, policy_arns: the policies that limit the session, as they were passed to AssumeRole.
    """

    arn: str
    session: str = ""
    source_arn: str = ""
    source_account: str = ""
    policy: str = ""
    policy_arns: tuple[str, ...] = ()


# Values of condition keys.
Keys = Mapping[str, tuple[str, ...]]


class Guard(Protocol):
    """Decides whether a service may do something on behalf of a role or a user. Never blocks for long."""

    def denial(
        self, acting: CallerIdentity, action: str, resource: str, context: Keys | None = None
    ) -> str:
        """Return AWS's sentence that refuses an action, such as `kinesis:GetRecords`; empty when it is allowed.

        Empty too when a refusal is only noted (`--iam report`). After the first call it costs one dictionary lookup.
        `context`: further condition keys, in lower case, beyond those of the caller and the resource.
        """
        ...

    def note(self, acting: CallerIdentity, action: str, resource: str) -> None:
        """Note an action for the report without refusing it, even with `--iam enforce`. Never blocks."""
        ...


class NoGuard:
    """A `Guard` that allows everything, for services that are built without a cloud."""

    def denial(
        self, acting: CallerIdentity, action: str, resource: str, context: Keys | None = None
    ) -> str:
        """See `Guard.denial`."""
        return ""

    def note(self, acting: CallerIdentity, action: str, resource: str) -> None:
        """See `Guard.note`."""


# Takes an account and a principal's ARN or unique id; returns whether IAM has it. Policies name principals.
PrincipalCheck = Callable[[str, str], bool]


def accept_principal(account: str, name: str) -> bool:
    """Accept every principal: the check of services that are built without a cloud."""
    return True


class KeyStates(Protocol):
    """The KMS keys of a cloud. Thread-safe."""

    @property
    def keys_version(self) -> int:
        """A number that grows with each change of a key."""
        ...

    def state_of_key(self, key_id: str, account: str, region: str) -> tuple[str, str]:
        """Return a key's ARN and its state, such as `Enabled`; "" and "" when it does not exist.

        `key_id`: an id, an alias or an ARN.
        """
        ...


class AnyKeys:
    """The `KeyStates` of a cloud without KMS: every key exists and is enabled."""

    keys_version = 0

    def state_of_key(self, key_id: str, account: str, region: str) -> tuple[str, str]:
        """See `KeyStates.state_of_key`."""
        if key_id.startswith("arn:"):
            return key_id, "Enabled"
        name = key_id if "alias/" in key_id else f"key/{key_id}"
        return make_arn("kms", region, account, name), "Enabled"
