"""Finds resources whose creation a kill interrupted, so that the rollback can delete them.

Each call that creates something is noted in the transaction in which its service stores the result, with the answer if
it is known by then. After a kill the resource type's `create` runs again on these notes, without calling any service,
until it has the physical id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headrace.core.ports import CallerIdentity
from headrace.services.cloudformation.deployment.resource_states import ResourceStates, type_of
from headrace.services.cloudformation.errors import log_defect
from headrace.services.cloudformation.resources.base import Context, Properties, ResourceType
from headrace.services.cloudformation.state import CreationNotes, Resource, Stack


def find_interrupted(states: ResourceStates) -> None:
    """Set and store the physical ids of resources that a killed operation had begun to create."""
    stack = states.stack
    creation_notes = states.stacks.creation_notes
    for key, value in creation_notes.items(f"{stack.stack_id} "):
        logical_id, begun = key.rpartition(" ")[2], CreationNotes(**value)
        resource = _being_made(stack, logical_id)
        if resource is not None:
            try:
                resource.physical_id = _find_physical_id(states, resource, begun)
            except Exception as error:  # noqa: BLE001 - whatever the error, the operation continues
                log_defect(f"resource {logical_id}", error)
            stored = [resource] if stack.resources.get(logical_id) is resource else []
            states.stacks.save(stack, *stored)
        creation_notes.delete(key)


def _find_physical_id(states: ResourceStates, resource: Resource, begun: CreationNotes) -> str:
    kind = type_of(resource.type)
    return _physical_id(kind, states.context(resource), resource.properties, begun)


def _being_made(stack: Stack, logical_id: str) -> Resource | None:
    # A replacement is in the list of resources to delete until it is complete.
    candidates = [r for r in stack.obsolete if r.logical_id == logical_id]
    if logical_id in stack.resources:
        candidates.append(stack.resources[logical_id])
    return next((resource for resource in candidates if not resource.physical_id), None)


class _CallNotNoted(BaseException):
    """The call was not made, or its answer is not known."""


class _PhysicalIdFound(BaseException):
    """Carries the physical id out of `create`."""


class _NotedCalls:
    """Answers calls from the notes."""

    def __init__(self, begun: CreationNotes) -> None:
        self._calls = list(begun.calls)

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str | None = None,
        region: str | None = None,
        acting: CallerIdentity | None = None,
    ) -> dict[str, Any]:
        """See `ControlPlane.call`; raises _CallNotNoted."""
        for at, call in enumerate(self._calls):
            if (call["service"], call["operation"]) == (service, operation):
                if call["answer"] is None:
                    break
                del self._calls[at]
                return dict(call["answer"])
        raise _CallNotNoted


def _physical_id(
    kind: ResourceType, context: Context, properties: Properties, begun: CreationNotes
) -> str:
    def raise_found(physical_id: str) -> None:
        raise _PhysicalIdFound(physical_id)

    if begun.calls:
        noted = replace(
            _repeat_names(context, begun), control=_NotedCalls(begun), note_made=raise_found
        )
        try:
            return kind.create(noted, dict(properties)).physical_id
        except _PhysicalIdFound as known:
            return str(known.args[0])
        except _CallNotNoted:
            there = kind.made and kind.made(_repeat_names(context, begun), properties)
            if there:
                return there
    # If no answer contains the id, it is the name; or nothing reads it, as for a policy inside a role.
    return kind.name_of(properties) or next(iter(begun.names), "") or context.generate_name(64)


def _repeat_names(context: Context, begun: CreationNotes) -> Context:
    names = iter(begun.names)

    def again(make: Callable[[], str]) -> str:
        return next(names, None) or make()

    return replace(context, made_up=again)
