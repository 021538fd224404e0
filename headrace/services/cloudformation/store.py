"""Stores stacks, change sets and events in the cloud's database."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from typing import Any

from headrace.core.arn import make_arn
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.values import iso_of
from headrace.services.cloudformation.state import (
    STACK_TYPE,
    ChangeSet,
    DriftDetection,
    Resource,
    Stack,
    remove_values,
)
from headrace.store.database import Database

log = logging.getLogger(__name__)


def resource_document(resource: Resource) -> dict[str, Any]:
    """Return the stored form of a resource; it shares the resource's values."""
    return {column.name: getattr(resource, column.name) for column in fields(resource)}


def stack_document(stack: Stack) -> dict[str, Any]:
    """Return the stored form of a stack, without its resources and `previous`."""
    apart = ("resources", "previous")
    value = {column.name: getattr(stack, column.name) for column in fields(stack)}
    value["obsolete"] = [resource_document(resource) for resource in stack.obsolete]
    return {name: item for name, item in value.items() if name not in apart}


def _stack(document: dict[str, Any]) -> Stack:
    """Return the stack in a stored document; resources are stored separately, except in old documents."""
    members = dict(document)
    members["resources"] = {
        name: Resource(**resource) for name, resource in document.get("resources", {}).items()
    }
    members["obsolete"] = [Resource(**resource) for resource in document["obsolete"]]
    return Stack(**members)


def _change_set(document: dict[str, Any]) -> ChangeSet:
    """Return the change set in a stored document; an old one has one view of its changes, each wrapped."""
    if "plain_changes" not in document:
        changes = [change["ResourceChange"] for change in document["changes"]]
        plain = [remove_values(change) for change in changes]
        document = {**document, "changes": changes, "plain_changes": plain}
    return ChangeSet(**document)


class Stacks:
    """All stacks, change sets and events. Thread-safe as the database is; what `save...` wrote is durable on return.

    `lock` is held by whoever reads a stack's status and then acts on it. Each resource is stored separately: storing
    all of them at every step of each would take quadratic time.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        ids: Ids,
        *,
        on_event: Callable[[Stack, Mapping[str, Any]], None] = lambda _, __: None,
    ) -> None:
        """`on_event` is called with each event after it is stored."""
        self.lock = threading.RLock()
        self._on_event = on_event
        self._clock = clock
        self._ids = ids
        self._last_ms: dict[str, int] = {}
        self._database = database
        self._stacks = database.documents("cfn_stacks")
        self._resources = database.documents("cfn_resources")
        self._previous = database.documents("cfn_previous")
        self._change_sets = database.documents("cfn_change_sets")
        self._detections = database.documents("cfn_drift_detections")
        # (stack id, logical id) -> the calls made to create a resource that has no physical id yet: `making` writes
        # them, and after a kill `begun` reads them.
        self.creation_notes = database.documents("cfn_begun")
        database.migrate(
            "cfn_events",
            [
                """CREATE TABLE cfn_events (id INTEGER PRIMARY KEY AUTOINCREMENT, stack TEXT,
                   event TEXT)""",
                "CREATE INDEX cfn_events_by_stack ON cfn_events (stack, id)",
            ],
        )
        self._by_id: dict[str, Stack] = {}
        self._sets: dict[str, ChangeSet] = {}

    def load(self) -> None:
        """Read everything from the database."""
        documents = dict(self._stacks.items())
        self._by_id = {key: _stack(value) for key, value in documents.items()}
        for key, value in documents.items():
            if "resources" in value:  # An old document also contains the resources.
                self.save_all(self._by_id[key])
        for key, value in self._resources.items():
            stack_id, _, name = key.rpartition(" ")
            if stack_id in self._by_id:
                self._by_id[stack_id].resources[name] = Resource(**value)
        for key, value in self._previous.items():
            if key in self._by_id:
                self._by_id[key].previous = value
        self._sets = {key: _change_set(value) for key, value in self._change_sets.items()}

    def save(self, stack: Stack, *resources: Resource) -> None:
        """Store a stack, and some of its resources; `previous` and the other resources keep their stored values."""
        self._by_id[stack.stack_id] = stack
        with self._database.transaction():
            self._stacks.put(stack.stack_id, stack_document(stack))
            for resource in resources:
                self.save_resource(stack, resource)

    def save_resource(self, stack: Stack, resource: Resource) -> None:
        """Store one resource of a stored stack."""
        self._resources.put(f"{stack.stack_id} {resource.logical_id}", resource_document(resource))

    def save_all(self, stack: Stack) -> None:
        """Store a stack with its state before an update, and exactly its current resources."""
        with self._database.transaction():
            self.save(stack, *stack.resources.values())
            kept = {f"{stack.stack_id} {name}" for name in stack.resources}
            for key, _ in self._resources.items(f"{stack.stack_id} "):
                if key not in kept:
                    self._resources.delete(key)
            if stack.previous is None:
                self._previous.delete(stack.stack_id)
            else:
                self._previous.put(stack.stack_id, stack.previous)

    def together(self) -> AbstractContextManager[None]:
        """Return a transaction: everything stored in it is durable, or nothing."""
        return self._database.transaction()

    def find(self, account: str, region: str, name_or_id: str) -> Stack | None:
        """Return a stack by id, even a deleted one, or an existing one by name."""
        if name_or_id.startswith("arn:"):
            return self._by_id.get(name_or_id)
        for stack in list(self._by_id.values()):
            if (stack.account, stack.region, stack.name) == (
                account,
                region,
                name_or_id,
            ) and stack.exists:
                return stack
        return None

    def all(self, account: str = "", region: str = "") -> Iterator[Stack]:
        """Yield stacks, the newest first."""
        for stack in sorted(self._by_id.values(), key=lambda s: s.created_ms, reverse=True):
            if not account or (stack.account, stack.region) == (account, region):
                yield stack

    def resources_of_type(
        self, account: str, region: str, kind: str
    ) -> Iterator[tuple[Stack, Resource]]:
        """Yield the resources of a type in all stacks of an account and region, deleted stacks included."""
        for stack in self.all(account, region):
            for resource in list(stack.resources.values()):
                if resource.type == kind:
                    yield stack, resource

    def save_change_set(self, change_set: ChangeSet) -> None:
        """Store a change set."""
        self._sets[change_set.change_set_id] = change_set
        document = {column.name: getattr(change_set, column.name) for column in fields(change_set)}
        self._change_sets.put(change_set.change_set_id, document)

    def delete_change_set(self, change_set: ChangeSet) -> None:
        """Delete a change set."""
        self._sets.pop(change_set.change_set_id, None)
        self._change_sets.delete(change_set.change_set_id)

    def change_sets(self, stack_id: str) -> list[ChangeSet]:
        """Return a stack's change sets."""
        return [
            change_set
            for change_set in list(self._sets.values())
            if change_set.stack_id == stack_id
        ]

    def change_set(self, change_set_id: str) -> ChangeSet | None:
        """Return a change set by its ARN."""
        return self._sets.get(change_set_id)

    def save_detection(self, detection: DriftDetection) -> None:
        """Store a drift detection."""
        self._detections.put(detection.detection_id, asdict(detection))

    def detection(self, detection_id: str) -> DriftDetection | None:
        """Return a drift detection by its id."""
        detection = self._detections.get(detection_id)
        return None if detection is None else DriftDetection(**detection)

    def new(self, name: str, account: str, region: str, status: str, now_ms: int) -> Stack:
        """Return a new stack, which is not stored yet."""
        path = f"stack/{name}/{self._ids.uuid()}"
        stack_id = make_arn("cloudformation", region, account, path)
        return Stack(stack_id, name, account, region, status, now_ms)

    def set_status(
        self, stack: Stack, status: str, reason: str = "", *, whole: bool = False
    ) -> None:
        """Store a stack's new status, with all of its resources when `whole`, and then its event."""
        with self.lock:
            before = stack.status, stack.reason
            stack.status, stack.reason = status, reason
            if stack.status == "UPDATE_IN_PROGRESS":
                stack.updated_ms = self._clock.now_ms()
            try:
                if whole:
                    self.save_all(stack)
                else:
                    self.save(stack)
            except BaseException:
                # An operation that could not be stored is not carried out.
                stack.status, stack.reason = before
                raise
        self._add_event(
            stack,
            logical_id=stack.name,
            physical_id=stack.stack_id,
            kind=STACK_TYPE,
            status=status,
            reason=reason,
        )

    def add_resource_event(
        self,
        stack: Stack,
        resource: Resource,
        status: str,
        reason: str = "",
        *,
        cleaning_up: bool = False,
    ) -> None:
        """Store an event of a stack's resource; `cleaning_up`: the resource was replaced or removed by an update."""
        self._add_event(
            stack,
            logical_id=resource.logical_id,
            physical_id=resource.physical_id,
            kind=resource.type,
            status=status,
            reason=reason,
            properties=None if cleaning_up else resource.properties,
        )

    def _add_event(
        self,
        stack: Stack,
        *,
        logical_id: str,
        physical_id: str,
        kind: str,
        status: str,
        reason: str = "",
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        """Store an event of a stack; `properties` of None: the event of a stack, or of a resource being cleaned up.

        No two events of a stack have the same time: the CDK CLI sorts by it.
        """
        # In the transaction, times increase with the numbers.
        with self._database.transaction():
            now_ms = self._next_ms(stack.stack_id)
            event_id = self._ids.uuid()
            if properties is not None:
                event_id = f"{logical_id}-{status}-{iso_of(now_ms)}"
            elif logical_id != stack.name:
                event_id = f"{logical_id}-{event_id}"
            event = {
                "EventId": event_id,
                "StackId": stack.stack_id,
                "StackName": stack.name,
                "LogicalResourceId": logical_id,
                "PhysicalResourceId": physical_id,
                "ResourceType": kind,
                "Timestamp": now_ms,
                "ResourceStatus": status,
                "ResourceStatusReason": reason,
                **({} if properties is None else {"ResourceProperties": dict(properties)}),
                **({"ClientRequestToken": stack.request_token} if stack.request_token else {}),
            }
            self._database.execute(
                "INSERT INTO cfn_events (stack, event) VALUES (?, ?)",
                (stack.stack_id, json.dumps(event)),
            )
        self._on_event(stack, event)
        log.info("%s %s %s %s %s", stack.name, logical_id, kind, status, reason)

    def _next_ms(self, stack_id: str) -> int:
        now_ms = max(self._clock.now_ms(), self._last_ms.get(stack_id, 0) + 1)
        self._last_ms[stack_id] = now_ms
        return now_ms

    def events(self, stack_id: str, before: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Return (number, event), the newest first, of those with a lower number than `before`."""
        rows = self._database.query(
            "SELECT id, event FROM cfn_events WHERE stack = ? AND id < ? ORDER BY id DESC LIMIT ?",
            (stack_id, before, limit),
        )
        return [(number, json.loads(event)) for number, event in rows]
