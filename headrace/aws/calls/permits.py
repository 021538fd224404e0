"""Checks whether a caller may make a request, and refuses it with each service's error.

`headrace.permissions.decisions` implements `Permissions` and decides. The gateway and the services only ask, and only
for callers other than the account itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from headrace.core.ports import CallerIdentity

# The prefixes of the keys of users and sessions, as on AWS; all other keys belong to the account itself.
_KEY_PREFIXES = ("AKIA", "ASIA")


class Permit(Protocol):
    """Checks the permissions of one caller, request by request. Thread-safe."""

    @property
    def acting(self) -> CallerIdentity | None:
        """The caller's identity, for calls that a service makes on its behalf; None for the account itself."""
        ...

    def ask(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> None:
        """Note the use of an operation with its parameters, or refuse it. Raises AwsError."""
        ...

    def ask_for(self, service: str, action: str, resource: str, of: str = "") -> None:
        """Note the use of an action (`kinesis:PutRecords`) on a resource, or refuse it. Raises AwsError.

        For the use of a KMS key, `of` is the ARN of the resource that the key encrypts.

        Cheaper than `ask` (a dictionary lookup), for the operations that must be fast.
        """
        ...

    def denial(self, action: str, resource: str, context: Mapping[str, tuple[str, ...]]) -> str:
        """Note the use of an action on a resource; return AWS's sentence when it is to be refused, else "".

        `context`: further condition keys, in lower case. For endpoints, which refuse in a form of their own.
        """
        ...


class Callers(Protocol):
    """Names the holders of access keys, whether or not permissions are checked. Thread-safe."""

    def name_of(self, access_key: str, token: str) -> tuple[str, str] | None:
        """Return the ARN and the unique id of a user or of a session; None for the account itself.

        Waits until IAM is loaded.
        """
        ...


class Permissions(Protocol):
    """Returns the permits of callers. Thread-safe."""

    @property
    def enforces(self) -> bool:
        """Whether denied requests are refused; checking them may have to wait until policies are loaded."""
        ...

    def permit_of(self, access_key: str, token: str, account: str) -> Permit | None:
        """Return the permit of the holder of a key; None when it may do everything. Never blocks.

        A key that belongs to an account itself may do everything in its own account: in this cloud's, or, when denied
        requests are not refused, in each.
        """
        ...

    def permit_as(self, acting: CallerIdentity) -> Permit | None:
        """Return the permit of the identity under which a service acts. Never blocks."""
        ...


def is_restricted(access_key: str) -> bool:
    """Whether a key may belong to a user or a session, rather than to the account itself."""
    return len(access_key) == 20 and access_key.startswith(_KEY_PREFIXES)
