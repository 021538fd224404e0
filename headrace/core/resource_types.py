"""The protocol by which Cloud Control uses CloudFormation's resource types without importing CloudFormation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class ResourceRefused(Exception):
    """A resource could not be made, changed or deleted.

    Attributes:
        code: AWS's HandlerErrorCode, such as `AlreadyExists`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ResourceCancelled(Exception):
    """The operation on a resource was cancelled."""


@dataclass(frozen=True, slots=True)
class KnownResource:
    """A resource as headrace knows it.

    Attributes:
        identifier: its physical id.
        attributes: the values that Fn::GetAtt returns, by name.
        changed_ms: when it was last changed, in milliseconds since the epoch.
    """

    identifier: str
    properties: Mapping[str, Any]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    changed_ms: int = 0


@dataclass(frozen=True, slots=True)
class ResourcePlace:
    """The account and region of an operation on a resource, and the event that cancels it.

    Attributes:
        stop: an event; when it is set, the operation is cancelled.
        note_made: is called with the physical id as soon as the resource has one.
    """

    account: str
    region: str
    stop: threading.Event
    note_made: Callable[[str], None]


class ResourceTypes(Protocol):
    """CloudFormation's resource types. Thread-safe; every method of a resource raises ResourceRefused."""

    def knows(self, kind: str) -> bool:
        """Whether resources of a type can be made outside of a stack."""
        ...

    def is_known(self, kind: str) -> bool:
        """Whether headrace has a resource type of this name."""
        ...

    def create(
        self, place: ResourcePlace, kind: str, properties: Mapping[str, Any]
    ) -> KnownResource:
        """Make a resource; also raises ResourceCancelled."""
        ...

    def read(
        self, place: ResourcePlace, kind: str, identifier: str, known: KnownResource | None
    ) -> KnownResource | None:
        """Return a resource as its service has it now; None: it does not exist, or nobody can tell."""
        ...

    def readable(self, kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Return properties without those that AWS never shows, such as passwords."""
        ...

    def list_identifiers(self, place: ResourcePlace, kind: str) -> list[str]:
        """Return the identifiers of all resources of a type that its service lists, whoever made them."""
        ...

    def update(
        self, place: ResourcePlace, kind: str, before: KnownResource, properties: Mapping[str, Any]
    ) -> KnownResource:
        """Change a resource in place; also raises ResourceCancelled."""
        ...

    def delete(self, place: ResourcePlace, kind: str, resource: KnownResource) -> None:
        """Delete a resource; also raises ResourceCancelled."""
        ...

    def in_stacks(self, account: str, region: str, kind: str) -> list[KnownResource]:
        """Return all resources of a type in stacks."""
        ...
