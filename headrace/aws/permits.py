"""Asks whether a caller may do what a request is for, and refuses it in the words and the form of each service.

Who decides is behind `Permissions`; the gateway and the services only ask, and only for callers who are not the
account itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from headrace.core.ports import Acting

# Keys of users and of sessions begin so, on AWS too; all other keys are the account's own.
_KEY_PREFIXES = ("AKIA", "ASIA")


class Permit(Protocol):
    """What one caller may do, asked request by request. Thread-safe."""

    @property
    def acting(self) -> Acting | None:
        """Who calls, for what a service goes on to do for the caller; None for the account itself."""
        ...

    def ask(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> None:
        """Note an operation with its parameters, or refuse it. Raises AwsError."""
        ...

    def ask_for(self, service: str, action: str, resource: str, of: str = "") -> None:
        """Note an action of a service (`kinesis:PutRecords`) on a resource, or refuse it. Raises AwsError.

        For the use of a key, `of` is the ARN of what the key encrypts.

        Cheaper than `ask`: a dictionary's lookup, for the operations that must be fast.
        """
        ...


class Permissions(Protocol):
    """Knows callers. Thread-safe."""

    @property
    def enforces(self) -> bool:
        """Whether it refuses, for which it may have to wait for policies to be loaded."""
        ...

    def permit_of(self, access_key: str, token: str) -> Permit | None:
        """Return the permit of the holder of a key; None when it is the account itself. Never blocks."""
        ...

    def permit_as(self, acting: Acting) -> Permit | None:
        """Return the permit of those for whom a service acts. Never blocks."""
        ...


def is_restricted(access_key: str) -> bool:
    """Whether a key may be of a user or of a session, and not of the account itself."""
    return len(access_key) == 20 and access_key.startswith(_KEY_PREFIXES)
