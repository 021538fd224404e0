"""Names the identity under which a service acts, and asks whether a role or a user may do something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """The identity under which a service calls another in process, without a signed request.

    Attributes:
        arn: the ARN of a role or user, or the name of a service such as `events.amazonaws.com`.
        session: the name of a role's session.
        source_arn: the resource for which a service acts: the condition key aws:SourceArn.
        source_account: the account of that resource when its ARN names none, such as a bucket's.
    """

    arn: str
    session: str = ""
    source_arn: str = ""
    source_account: str = ""


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
