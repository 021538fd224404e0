"""Makes one resource: by its type's calls, each noted before its answer is used, and its physical id stored at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.core.commit_notes import stored_with_commit
from headrace.core.ports import Acting, ControlPlane
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.existing import already_exists, means_existing
from headrace.services.cloudformation.resource_states import ResourceStates
from headrace.services.cloudformation.resources.base import Context, Made, ResourceType
from headrace.services.cloudformation.resources.property_types import with_texts
from headrace.services.cloudformation.state import Begun, Resource, Stack
from headrace.services.cloudformation.store import Stacks


def make(
    states: ResourceStates,
    resource: Resource,
    kind: ResourceType,
    status: str,
    keep: Callable[[], None] | None = None,
) -> Made:
    """Create a resource that does not exist yet; `resource` has its physical id as soon as it has one.

    `keep` stores the id; without it the resource is stored as the stack's own. An event of `status` tells the id.
    """
    if kind.find is not None:
        properties = with_texts(kind.name, resource.properties)
        found = kind.find(states.context(resource), properties)
        if found:
            raise _already_exists(states, kind, found)

    noting = _Noting(states.stacks, states.stack, resource.logical_id, states.ports.control)

    def note(physical_id: str) -> None:
        resource.physical_id = physical_id
        with states.lock:
            if keep is None:
                states.stacks.save_resource(states.stack, resource)
            else:
                keep()
        noting.end()
        states.event(resource, status, "Resource creation Initiated")

    try:
        context = states.context(resource, note)
        made = kind.create(noting.context(context), with_texts(kind.name, resource.properties))
    except Exception as error:
        noting.end()
        name = kind.name_of(resource.properties)
        if not resource.physical_id and name and means_existing(error):
            raise _already_exists(states, kind, name) from error
        raise
    if not resource.physical_id:
        note(made.physical_id)
    return made


def _already_exists(states: ResourceStates, kind: ResourceType, identifier: str) -> ResourceFailed:
    return already_exists(states.stacks, states.ports.ids, states.stack, kind.name, identifier)


@dataclass(slots=True)
class _Noting:
    """Notes what is done to make one resource, until its physical id is stored. One thread uses it at a time."""

    stacks: Stacks
    stack: Stack
    logical_id: str
    control: ControlPlane
    begun: Begun = field(default_factory=Begun)
    is_over: bool = False
    is_stored: bool = False

    def context(self, context: Context) -> Context:
        """Return a context whose calls and names are noted."""
        return replace(context, control=self, made_up=self._name, note_begun=self._begin)

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str | None = None,
        region: str | None = None,
        acting: Acting | None = None,
    ) -> dict[str, Any]:
        """See `ControlPlane.call`."""

        def note(answer: dict[str, Any] | None) -> None:
            # Times and bytes are in no physical id.
            plain = json.loads(json.dumps(answer, default=str))
            call = {"service": service, "operation": operation, "answer": plain}
            self.begun.calls.append(call)
            self._store()

        where: Any = {"account": account, "region": region, "acting": acting}
        if self.is_over:
            return self.control.call(service, operation, params, **where)
        with stored_with_commit(note):
            return self.control.call(service, operation, params, **where)

    def end(self) -> None:
        """Forget the notes: the physical id is stored now, or nothing was made."""
        self.is_over = True
        if self.is_stored:
            self.stacks.forget_begun(self.stack, self.logical_id)

    def _name(self, make: Callable[[], str]) -> str:
        name = make()
        self.begun.names.append(name)
        return name

    def _begin(self, physical_id: str) -> None:
        self.begun.names.append(physical_id)
        self._store()

    def _store(self) -> None:
        self.stacks.save_begun(self.stack, self.logical_id, self.begun)
        self.is_stored = True
