"""The states of one stack's resources: stored, and each told by an event."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.services.cloudformation.errors import (
    Cancelled,
    ResourceFailed,
    log_defect,
    reason_of,
)
from headrace.services.cloudformation.ports import Ports
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import Context, Made, ResourceType
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.store import Stacks


def type_of(name: str) -> ResourceType:
    """Return a resource type. Raises ResourceFailed."""
    kind = resource_type(name)
    if kind is None:
        raise ResourceFailed(f"Resource type {name} is not supported by headrace")
    return kind


def is_cancelled(error: BaseException) -> bool:
    """Whether a resource was given up, and did not fail."""
    return isinstance(error, Cancelled)


@dataclass(slots=True)
class ResourceStates:
    """The resources of one stack, for one operation. Thread-safe: whoever reads or changes several holds `lock`.

    Attributes:
        stop: set by any thread: nothing more is begun, and resources that wait for an answer are given up. A new event
            lets the work go on.
    """

    stacks: Stacks
    ports: Ports
    stack: Stack
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def context(
        self, logical_id: str, note_made: Callable[[str], None] = lambda _: None
    ) -> Context:
        """Return what a resource type may use to make a resource; see `Context` for `note_made`."""
        return Context(
            control=self.ports.control,
            clock=self.ports.clock,
            ids=self.ports.ids,
            account=self.stack.account,
            region=self.stack.region,
            stack_name=self.stack.name,
            stack_id=self.stack.stack_id,
            logical_id=logical_id,
            tags=self.stack.tags,
            endpoint_url=self.ports.endpoint_url(),
            responses=self.ports.responses,
            functions=self.ports.functions,
            stop=self.stop,
            note_made=note_made,
            acting=self.stack.acting,
            signals=self.ports.signals,
        )

    def set_status(
        self, resource: Resource, status: str, reason: str = "", *, with_stack: bool = False
    ) -> None:
        """Store a resource's new status, with its stack's own record when `with_stack`, and then its event."""
        with self.lock:
            resource.status = status
            self.stack.resources[resource.logical_id] = resource
            if with_stack:
                self.stacks.save(self.stack, resource)
            else:
                self.stacks.save_resource(self.stack, resource)
        self.event(resource, status, reason)

    def made(self, resource: Resource, made: Made, status: str, reason: str = "") -> None:
        """Store what a resource type gave for a resource, and its status."""
        resource.physical_id = made.physical_id
        resource.attributes = made.attributes
        resource.updated_ms = self.ports.clock.now_ms()
        # With the resource that it replaces, in one go: a kill between the two would lose one of them.
        self.set_status(resource, status, reason, with_stack=True)

    def fail(self, resource: Resource, verb: str, error: BaseException) -> None:
        """Store that `verb` failed for a resource, and the event of it."""
        log_defect(f"resource {resource.logical_id}", error)
        if is_cancelled(error):
            resource.reason = f"Resource {'update' if verb == 'UPDATE' else 'creation'} cancelled"
        else:
            resource.reason = reason_of(error)
        self.set_status(resource, f"{verb}_FAILED", resource.reason)

    def event(
        self, resource: Resource, status: str, reason: str = "", *, cleaning_up: bool = False
    ) -> None:
        """Store an event of a resource; `cleaning_up`: of one that an update replaced or removed."""
        self.stacks.add_event(
            self.stack,
            logical_id=resource.logical_id,
            physical_id=resource.physical_id,
            kind=resource.type,
            status=status,
            reason=reason,
            properties=None if cleaning_up else resource.properties,
        )

    def save(self) -> None:
        """Store the stack's own record."""
        with self.lock:
            self.stacks.save(self.stack)
