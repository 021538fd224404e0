"""The statuses of one stack's resources: each change is stored and becomes a stack event."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.services.cloudformation.changes import stack_tags
from headrace.services.cloudformation.errors import (
    Cancelled,
    ResourceFailed,
    log_defect,
    reason_of,
)
from headrace.services.cloudformation.ports import Ports
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import Context, ResourceResult, ResourceType
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.store import Stacks

# The noun in a cancelled resource's reason, by verb; the one for a deletion is assumed to be like the others.
_GIVEN_UP = {"CREATE": "creation", "UPDATE": "update", "DELETE": "deletion", "IMPORT": "import"}


def type_of(name: str) -> ResourceType:
    """Return the resource type of this name. Raises ResourceFailed."""
    kind = resource_type(name)
    if kind is None:
        raise ResourceFailed(f"Resource type {name} is not supported by headrace")
    return kind


def is_cancelled(error: BaseException) -> bool:
    """Whether a resource was cancelled, rather than failed."""
    return isinstance(error, Cancelled)


@dataclass(slots=True)
class ResourceStates:
    """The resources of one stack, for one operation. Thread-safe: hold `lock` to read or change several of them.

    Attributes:
        stop: any thread may set it: then nothing more is begun, and resources that wait for an answer are cancelled. A
            new event lets the work continue.
    """

    stacks: Stacks
    ports: Ports
    stack: Stack
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def context(
        self, resource: Resource, note_made: Callable[[str], None] = lambda _: None
    ) -> Context:
        """Return the context in which a resource type creates a resource; see `Context` for `note_made`."""
        return Context(
            control=self.ports.control,
            clock=self.ports.clock,
            ids=self.ports.ids,
            account=self.stack.account,
            region=self.stack.region,
            stack_name=self.stack.name,
            stack_id=self.stack.stack_id,
            logical_id=resource.logical_id,
            tags=self.stack.tags,
            system_tags=stack_tags.system_tags(self.stack, resource),
            endpoint_url=self.ports.endpoint_url(),
            responses=self.ports.responses,
            functions=self.ports.functions,
            stop=self.stop,
            note_made=note_made,
            acting=self.stack.acting,
            signals=self.ports.signals,
        )

    def set_status(self, resource: Resource, status: str, reason: str = "") -> None:
        """Store a resource's new status, and then its event."""
        with self.lock:
            resource.status = status
            self.stack.resources[resource.logical_id] = resource
            self.stacks.save_resource(self.stack, resource)
        self.stacks.add_resource_event(self.stack, resource, status, reason)

    def store_result(
        self, resource: Resource, result: ResourceResult, status: str, reason: str = ""
    ) -> None:
        """Store what a resource type returned for a resource, and its status."""
        resource.physical_id = result.physical_id
        resource.attributes = result.attributes
        resource.updated_ms = self.ports.clock.now_ms()
        self.set_status(resource, status, reason)

    def store_update(
        self,
        resource: Resource,
        result: ResourceResult,
        *,
        retired: Resource | None = None,
        half_made: Resource | None = None,
    ) -> None:
        """Store the result of an update: `retired` is to be deleted from now on, and `half_made` is not.

        All of it is stored in one transaction, so that no other thread stores the stack in between. A kill in between
        would leave behind the new resource, or the one that it replaces.
        """
        with self.lock, self.stacks.together():
            resource.physical_id = result.physical_id
            resource.attributes = result.attributes
            resource.updated_ms = self.ports.clock.now_ms()
            resource.status = "UPDATE_COMPLETE"
            kept = [obsolete for obsolete in self.stack.obsolete if obsolete is not half_made]
            self.stack.obsolete = kept if retired is None else [*kept, retired]
            self.stack.resources[resource.logical_id] = resource
            self.stacks.save(self.stack, resource)
        self.event(resource, resource.status)

    def fail(self, resource: Resource, verb: str, error: BaseException) -> None:
        """Store that `verb` failed for a resource, and the event."""
        log_defect(f"resource {resource.logical_id}", error)
        if is_cancelled(error):
            resource.reason = f"Resource {_GIVEN_UP[verb]} cancelled"
        else:
            resource.reason = reason_of(error)
        self.set_status(resource, f"{verb}_FAILED", resource.reason)

    def describe_failures(self, failed: Mapping[str, BaseException]) -> str:
        """Return which resources an operation failed to create, and which to update.

        Both sentences, in this order: observed (serverless/serverless#1745). Cancelled resources are named when no
        other has failed.
        """
        at_fault = [name for name, error in failed.items() if not is_cancelled(error)]
        by_verb: dict[str, list[str]] = {"create": [], "update": []}
        for name in at_fault or failed:
            resource = self.stack.resources.get(name)
            updated = resource is not None and resource.status.startswith("UPDATE_")
            by_verb["update" if updated else "create"].append(name)
        return " ".join(
            f"The following resource(s) failed to {verb}: [{', '.join(names)}]."
            for verb, names in by_verb.items()
            if names
        )

    def event(
        self, resource: Resource, status: str, reason: str = "", *, cleaning_up: bool = False
    ) -> None:
        """Store an event of a resource; `cleaning_up`: the resource was replaced or removed by an update."""
        self.stacks.add_resource_event(
            self.stack, resource, status, reason, cleaning_up=cleaning_up
        )

    def save(self) -> None:
        """Store the stack's own record."""
        with self.lock:
            self.stacks.save(self.stack)
