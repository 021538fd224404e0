"""Creates one resource: notes each of its type's calls before the answer is used, stores the physical id."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headrace.core.commit_notes import stored_with_commit
from headrace.core.ports import CallerIdentity
from headrace.services.cloudformation.changes.imports import (
    already_exists,
    means_existing,
)
from headrace.services.cloudformation.deployment.resource_states import ResourceStates
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import Context, ResourceResult, ResourceType
from headrace.services.cloudformation.resources.property_types import convert_to_texts
from headrace.services.cloudformation.state import CreationNotes, Resource

# The reason of the event that announces the physical id.
INITIATED = "Resource creation Initiated"


def make(
    states: ResourceStates, resource: Resource, kind: ResourceType, keep: Callable[[], None]
) -> ResourceResult:
    """Create a new resource; `resource` gets its physical id as soon as it is known.

    `keep` stores the id and its event.
    """
    if kind.find is not None:
        properties = convert_to_texts(kind.name, resource.properties)
        physical_id = kind.find(states.context(resource), properties)
        if physical_id:
            raise _already_exists(states, kind, physical_id)
    noting = _CallNotes(states, resource, keep)
    try:
        result = kind.create(noting.context(), convert_to_texts(kind.name, resource.properties))
    except Exception as error:
        noting.end()
        name = kind.name_of(resource.properties)
        if not resource.physical_id and name and means_existing(error):
            raise _already_exists(states, kind, name) from error
        raise
    if not resource.physical_id:
        noting.set_physical_id(result.physical_id)
    return result


def _already_exists(states: ResourceStates, kind: ResourceType, identifier: str) -> ResourceFailed:
    return already_exists(states.stacks, states.ports.ids, states.stack, kind.name, identifier)


@dataclass(slots=True)
class _CallNotes:
    """Notes the calls that create one resource, until its physical id is stored. Used by one thread at a time."""

    states: ResourceStates
    resource: Resource
    keep: Callable[[], None]
    begun: CreationNotes = field(default_factory=CreationNotes)
    is_over: bool = False
    is_stored: bool = False

    def context(self) -> Context:
        """Return a context whose calls and generated names are noted."""
        context = self.states.context(self.resource, self.set_physical_id)
        return replace(context, control=self, made_up=self._name, note_begun=self._begin)

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
        """See `ControlPlane.call`."""

        def note(answer: dict[str, Any] | None) -> None:
            # Times and bytes never occur in a physical id.
            plain = json.loads(json.dumps(answer, default=str))
            call = {"service": service, "operation": operation, "answer": plain}
            self.begun.calls.append(call)
            self._store()

        where: Any = {"account": account, "region": region, "acting": acting}
        control = self.states.ports.control
        if self.is_over:
            return control.call(service, operation, params, **where)
        with stored_with_commit(note):
            return control.call(service, operation, params, **where)

    def set_physical_id(self, physical_id: str) -> None:
        """Set the physical id, and stop noting."""
        self.resource.physical_id = physical_id
        self.keep()
        self.end()

    def end(self) -> None:
        """Delete the notes: the physical id is stored now, or nothing was created."""
        self.is_over = True
        if self.is_stored:
            self.states.stacks.creation_notes.delete(self._key)

    def _name(self, make: Callable[[], str]) -> str:
        name = make()
        self.begun.names.append(name)
        return name

    def _begin(self, physical_id: str) -> None:
        self.begun.names.append(physical_id)
        self._store()

    def _store(self) -> None:
        # This takes no lock except the database's.
        self.states.stacks.creation_notes.put(self._key, asdict(self.begun))
        self.is_stored = True

    @property
    def _key(self) -> str:
        return f"{self.states.stack.stack_id} {self.resource.logical_id}"
