"""The statuses of one stack's resources: each change is stored and becomes a stack event.

Evaluates a resource's definition in a template: its properties, metadata, CreationPolicy and UpdatePolicy.

Creates one resource: notes each of its type's calls before the answer is used, stores the physical id, and waits for
the signals that its CreationPolicy requires.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from headrace.core.ports import CallerIdentity
from headrace.services.cloudformation.changes import stack_tags
from headrace.services.cloudformation.changes.imports import (
    already_exists,
    means_existing,
)
from headrace.services.cloudformation.deployment.alias_deployments import ALIAS, alias_policy
from headrace.services.cloudformation.errors import (
    Cancelled,
    ResourceFailed,
    log_defect,
    reason_of,
)
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import (
    DATABASE,
    DATABASES,
    SNAPSHOT,
    Context,
    Ports,
    ResourceResult,
    ResourceType,
)
from headrace.services.cloudformation.resources.schemas import convert_to_texts
from headrace.services.cloudformation.signals import (
    SIGNALLED,
    ExpectedSignals,
    Signal,
    Waiting,
    check_policy,
    creation_policy,
    describe_unsent,
    receiver_of,
    wait_for,
)
from headrace.services.cloudformation.state import CreationNotes, Resource, Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.intrinsics import Scope, evaluate_whole
from headrace.store.notes import store_with_commit

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
        """Store a resource's new status, and its event."""
        with self.lock:
            resource.status = status
            self.stack.resources[resource.logical_id] = resource
            self.stacks.set_resource_status(self.stack, resource, reason)

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


@dataclass(frozen=True, slots=True)
class EvaluatedResource:
    """A resource as its template defines it.

    Attributes:
        resource: has its properties and metadata, and no physical id.
        kind: its type.
        arguments: its properties in the form that its type takes.
        signals: what its CreationPolicy waits for; None: nothing.
        deployment: how its UpdatePolicy shifts an alias to a new version; None: at once.
    """

    resource: Resource
    kind: ResourceType
    arguments: dict[str, Any]
    signals: ExpectedSignals | None
    deployment: dict[str, Any] | None


def default_policy(definition: Mapping[str, Any]) -> str:
    """Return the DeletionPolicy of a resource without one in its template."""
    kind, properties = definition["Type"], definition.get("Properties", {})
    in_cluster = "DBClusterIdentifier" in properties
    return SNAPSHOT if kind == DATABASES or (kind == DATABASE and not in_cluster) else "Delete"


def outline(
    logical_id: str, definition: Mapping[str, Any], depends_on: set[str], now_ms: int
) -> Resource:
    """Return a resource as its template defines it, without the parts that need evaluation."""
    return Resource(
        logical_id,
        definition["Type"],
        "",
        depends_on=sorted(depends_on),
        deletion_policy=str(definition.get("DeletionPolicy", default_policy(definition))),
        replace_policy=str(definition.get("UpdateReplacePolicy", "Delete")),
        definition={
            key: value
            for key, value in definition.items()
            if key not in ("Properties", "DependsOn")
        },
        updated_ms=now_ms,
    )


def evaluate_resource(
    resource: Resource, definition: Mapping[str, Any], scope: Callable[[], Scope]
) -> EvaluatedResource:
    """Evaluate a definition, and set the properties and metadata of `resource`, which `outline` returned.

    `scope` returns a new one for each part. Raises TemplateError, ResourceFailed.
    """
    logical_id = resource.logical_id
    kind = type_of(resource.type)
    properties = evaluate_whole(definition.get("Properties", {}), scope())
    if not isinstance(properties, dict):
        raise ResourceFailed(
            f"Template format error: [/Resources/{logical_id}/Properties] must be an object."
        )
    properties = cast("dict[str, Any]", properties)
    resource.properties = properties
    kind.check(logical_id, properties)
    arguments = convert_to_texts(kind.name, properties)
    resource.metadata = evaluate_whole(definition.get("Metadata", {}), scope())

    def value_of(value: Any) -> Any:
        return evaluate_whole(value, scope())

    signals, deployment = creation_policy(definition, value_of), alias_policy(definition, value_of)
    return EvaluatedResource(resource, kind, arguments, signals, deployment)


_STATUS = "CREATE_IN_PROGRESS"
# The reason of the event that announces the physical id.
INITIATED = "Resource creation Initiated"


def create(states: ResourceStates, defined: EvaluatedResource) -> None:
    """Create a resource, and store the result. Raises the error that occurred."""
    resource = defined.resource
    if resource.type in SIGNALLED or resource.type == ALIAS:
        # Drop signals to an earlier resource of this name; once the status is set, new ones may come.
        states.ports.signals.forget(receiver_of(states.stack.stack_id, resource.logical_id))
    states.set_status(resource, _STATUS)
    keep = functools.partial(states.set_status, resource, _STATUS, INITIATED)
    if resource.type in SIGNALLED:
        _say_unsent(states, defined)
    try:
        result = make(states, defined, keep)
        _say_without_effect(states, defined)
        if defined.signals is not None:
            _wait_for_signals(states, resource, defined.signals)
    except Exception as error:
        states.fail(resource, "CREATE", error)
        raise
    states.store_result(resource, result, "CREATE_COMPLETE")


def _say_without_effect(states: ResourceStates, defined: EvaluatedResource) -> None:
    """Say in an event what the resource does on AWS and not here."""
    remark = defined.kind.remark
    if remark is not None and (remarks := remark(defined.resource.properties)):
        said = " ".join(dict.fromkeys(remarks.values()))
        states.event(defined.resource, _STATUS, said)


def _say_unsent(states: ResourceStates, defined: EvaluatedResource) -> None:
    """Say in an event that no instance sends the signals that the resource is going to wait for."""
    resource = defined.resource
    with states.lock:
        kinds = {each.type for each in states.stack.resources.values()}
    handle = str(resource.properties.get("Handle", ""))
    waiting = Waiting(resource.type, states.stack.name, resource.logical_id, handle)
    said = describe_unsent(waiting, defined.signals, kinds)
    if said:
        states.event(resource, _STATUS, said)


def _wait_for_signals(
    states: ResourceStates, resource: Resource, expected: ExpectedSignals
) -> None:
    """Wait for the signals that a resource's CreationPolicy requires. Raises ResourceFailed, Cancelled."""
    ports = states.ports

    def on_signal(signal: Signal) -> None:
        reason = f"Received {signal.status} signal with UniqueId {signal.unique_id}"
        states.event(resource, _STATUS, reason)

    received = wait_for(
        ports.signals,
        receiver_of(states.stack.stack_id, resource.logical_id),
        expected,
        monotonic_s=ports.clock.monotonic_s,
        pause=states.context(resource).pause,
        on_signal=on_signal,
    )
    check_policy(received, expected)


def make(
    states: ResourceStates, defined: EvaluatedResource, keep: Callable[[], None]
) -> ResourceResult:
    """Create a new resource, which gets its physical id as soon as it is known; `keep` stores the id and its event."""
    resource, kind = defined.resource, defined.kind
    if kind.find is not None:
        physical_id = kind.find(states.context(resource), defined.arguments)
        if physical_id:
            raise _already_exists(states, kind, physical_id)
    noting = _CallNotes(states, resource, keep)
    try:
        result = kind.create(noting.context(), defined.arguments)
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
        with store_with_commit(note):
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
