"""Who acts, and whether a role or a user may do something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Acting:
    """The identity under which a service calls another in process, where there is no signed request.

    Attributes:
        arn: a role's or a user's, or a service's name such as `events.amazonaws.com`.
        session: the name of a role's session.
        source_arn: the resource for which a service acts, which a resource's policy may ask for.
        source_account: the account of that resource, where its ARN does not say it, as a bucket's.
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
        self, acting: Acting, action: str, resource: str, context: Keys | None = None
    ) -> str:
        """Return the sentence with which AWS refuses an action, such as `kinesis:GetRecords`; empty to go on.

        Empty too where a refusal is only noted (`--iam report`). After the first call it costs a dictionary's lookup.
        `context`: values of condition keys, in lower case, beyond those that the caller and the resource have.
        """
        ...

    def note(self, acting: Acting, action: str, resource: str) -> None:
        """Note an action for the report, also where all others are enforced. Never blocks."""
        ...


class NoGuard:
    """A `Guard` that lets everything pass, for services that are built without a cloud around them."""

    def denial(
        self, acting: Acting, action: str, resource: str, context: Keys | None = None
    ) -> str:
        """See `Guard.denial`."""
        return ""

    def note(self, acting: Acting, action: str, resource: str) -> None:
        """See `Guard.note`."""
