"""Stores stacks, change sets and events in the cloud's database."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
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


def _event_of(stack: Stack, resource: Resource | None, status: str, reason: str) -> dict[str, Any]:
    """Return an event of a stack or of one of its resources, without its id and its time."""
    return {
        "StackId": stack.stack_id,
        "StackName": stack.name,
        "LogicalResourceId": resource.logical_id if resource else stack.name,
        "PhysicalResourceId": resource.physical_id if resource else stack.stack_id,
        "ResourceType": resource.type if resource else STACK_TYPE,
        "ResourceStatus": status,
        "ResourceStatusReason": reason,
        **({"ClientRequestToken": stack.request_token} if stack.request_token else {}),
    }


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
        self._write(stack, resources)

    def save_resource(self, stack: Stack, resource: Resource) -> None:
        """Store one resource of a stored stack."""
        self._write(stack, [resource], has_stack=False)

    def save_all(self, stack: Stack) -> None:
        """Store a stack with its state before an update, and exactly its current resources."""
        self._write(stack, list(stack.resources.values()), is_whole=True)

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
        """Store a stack's new status, with all of its resources when `whole`, and its event."""
        with self.lock:
            before = stack.status, stack.reason
            stack.status, stack.reason = status, reason
            if stack.status == "UPDATE_IN_PROGRESS":
                stack.updated_ms = self._clock.now_ms()
            event = _event_of(stack, None, status, reason)
            event["EventId"] = self._ids.uuid()
            try:
                resources = list(stack.resources.values()) if whole else ()
                self._write(stack, resources, event, is_whole=whole)
            except BaseException:
                # An operation that could not be stored is not carried out.
                stack.status, stack.reason = before
                raise

    def set_resource_status(self, stack: Stack, resource: Resource, reason: str) -> None:
        """Store a resource of a stored stack, which has a new status, and its event."""
        event = _event_of(stack, resource, resource.status, reason)
        event["ResourceProperties"] = dict(resource.properties)
        self._write(stack, [resource], event, has_stack=False)

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
        event = _event_of(stack, resource, status, reason)
        if cleaning_up:
            event["EventId"] = f"{resource.logical_id}-{self._ids.uuid()}"
        else:
            event["ResourceProperties"] = dict(resource.properties)
        self._write(stack, (), event, has_stack=False)

    def _write(
        self,
        stack: Stack,
        resources: Iterable[Resource],
        event: dict[str, Any] | None = None,
        *,
        has_stack: bool = True,
        is_whole: bool = False,
    ) -> None:
        """Store a stack's record, some of its resources and an event: all of them, or nothing.

        Without `has_stack` the record stays. When it `is_whole`, it has no other resources, and `previous` is stored.
        """
        stack_id = stack.stack_id
        # What is stored is read in the transaction, so that another thread's later state is not overwritten.
        with self._database.transaction():
            if has_stack:
                self._by_id[stack_id] = stack
                self._stacks.put(stack_id, stack_document(stack))
            written = {f"{stack_id} {one.logical_id}": resource_document(one) for one in resources}
            for key, value in written.items():
                self._resources.put(key, value)
            if is_whole:
                for key, _ in self._resources.items(f"{stack_id} "):
                    if key not in written:
                        self._resources.delete(key)
                if stack.previous is None:
                    self._previous.delete(stack_id)
                else:
                    self._previous.put(stack_id, stack.previous)
            if event is not None:
                # No two events of a stack have the same time: the CDK CLI sorts by it. In the transaction, times
                # increase with the numbers.
                now_ms = max(self._clock.now_ms(), self._last_ms.get(stack_id, 0) + 1)
                self._last_ms[stack_id] = now_ms
                event["Timestamp"] = now_ms
                if "ResourceProperties" in event:
                    name, status = event["LogicalResourceId"], event["ResourceStatus"]
                    event["EventId"] = f"{name}-{status}-{iso_of(now_ms)}"
                self._database.execute(
                    "INSERT INTO cfn_events (stack, event) VALUES (?, ?)",
                    (stack_id, json.dumps(event)),
                )
        if event is not None:
            self._on_event(stack, event)
            names = ("LogicalResourceId", "ResourceType", "ResourceStatus", "ResourceStatusReason")
            log.info("%s %s %s %s %s", stack.name, *(event[name] for name in names))

    def events(self, stack_id: str, before: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Return (number, event), the newest first, of those with a lower number than `before`."""
        rows = self._database.query(
            "SELECT id, event FROM cfn_events WHERE stack = ? AND id < ? ORDER BY id DESC LIMIT ?",
            (stack_id, before, limit),
        )
        return [(number, json.loads(event)) for number, event in rows]
