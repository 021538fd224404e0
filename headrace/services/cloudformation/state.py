"""Stacks, their resources and change sets as values, and where they are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from headrace.store.database import Database

IN_PROGRESS = "_IN_PROGRESS"


@dataclass(slots=True)
class Resource:
    """A resource of a stack as it is: what it was last made with, and what it answers to GetAtt."""

    logical_id: str
    type: str
    status: str
    physical_id: str = ""
    reason: str = ""
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    depends_on: list[str] = field(default_factory=list[str])
    deletion_policy: str = "Delete"
    replace_policy: str = "Delete"
    definition: dict[str, Any] = field(default_factory=dict[str, Any])
    updated_ms: int = 0

    def document(self) -> dict[str, Any]:
        """Return what is stored; its values are the resource's own."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(slots=True)
class Stack:
    """A stack. `previous` is what an update began from, until its clean-up is done."""

    stack_id: str
    name: str
    account: str
    region: str
    status: str
    created_ms: int
    reason: str = ""
    updated_ms: int | None = None
    deleted_ms: int | None = None
    body: str = ""
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    capabilities: list[str] = field(default_factory=list[str])
    notification_arns: list[str] = field(default_factory=list[str])
    rollback_configuration: dict[str, Any] = field(default_factory=dict[str, Any])
    role_arn: str = ""
    termination_protection: bool = False
    disable_rollback: bool = False
    on_failure: str = "ROLLBACK"
    change_set_id: str = ""
    policy: str = ""
    outputs: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    imports: list[str] = field(default_factory=list[str])
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    # Replaced or removed resources that the clean-up of an update has yet to delete.
    obsolete: list[Resource] = field(default_factory=list[Resource])
    previous: dict[str, Any] | None = None

    @property
    def in_progress(self) -> bool:
        """Whether an operation on it is under way."""
        return self.status.endswith(IN_PROGRESS) and self.status != "REVIEW_IN_PROGRESS"

    @property
    def exists(self) -> bool:
        """Whether it has not been deleted."""
        return self.status != "DELETE_COMPLETE"

    def document(self) -> dict[str, Any]:
        """Return what is stored in the stack's own document: all but its resources and `previous`."""
        apart = ("resources", "previous")
        value = {each.name: getattr(self, each.name) for each in fields(self)}
        value["obsolete"] = [resource.document() for resource in self.obsolete]
        return {name: item for name, item in value.items() if name not in apart}

    @staticmethod
    def from_document(value: dict[str, Any]) -> Stack:
        """Return the stack that `document` stored, without resources."""
        given = dict(value)
        given["resources"] = {
            name: Resource(**resource) for name, resource in value.get("resources", {}).items()
        }
        given["obsolete"] = [Resource(**resource) for resource in value["obsolete"]]
        return Stack(**given)


@dataclass(slots=True)
class ChangeSet:
    """A change set: what would be done to a stack."""

    change_set_id: str
    name: str
    stack_id: str
    stack_name: str
    type: str
    created_ms: int
    body: str
    status: str = "CREATE_COMPLETE"
    reason: str = ""
    execution_status: str = "AVAILABLE"
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    capabilities: list[str] = field(default_factory=list[str])
    notification_arns: list[str] = field(default_factory=list[str])
    rollback_configuration: dict[str, Any] = field(default_factory=dict[str, Any])
    role_arn: str = ""
    on_failure: str = ""
    deployment_config: dict[str, Any] = field(default_factory=dict[str, Any])
    changes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


class Stacks:
    """All stacks, change sets and events. Thread-safe as the database is; what `save...` wrote lasts on return.

    A stack's resources are stored one by one: writing all of them at every step of every one of them would take time
    with the square of their number.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stacks = database.documents("cfn_stacks")
        self._resources = database.documents("cfn_resources")
        self._previous = database.documents("cfn_previous")
        self._change_sets = database.documents("cfn_change_sets")
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
        """Read everything."""
        documents = dict(self._stacks.items())
        self._by_id = {key: Stack.from_document(value) for key, value in documents.items()}
        for key, value in documents.items():
            if "resources" in value:  # stored whole, as it was once
                self.save_all(self._by_id[key])
        for key, value in self._resources.items():
            stack_id, _, name = key.rpartition(" ")
            if stack_id in self._by_id:
                self._by_id[stack_id].resources[name] = Resource(**value)
        for key, value in self._previous.items():
            if key in self._by_id:
                self._by_id[key].previous = value
        self._sets = {key: ChangeSet(**value) for key, value in self._change_sets.items()}

    def save(self, stack: Stack, *resources: Resource) -> None:
        """Store a stack, and some of its resources with it; those of other stacks and `previous` stay as they are."""
        self._by_id[stack.stack_id] = stack
        with self._database.transaction():
            self._stacks.put(stack.stack_id, stack.document())
            for resource in resources:
                self.save_resource(stack, resource)

    def save_resource(self, stack: Stack, resource: Resource) -> None:
        """Store one resource of a stack that is stored."""
        self._resources.put(f"{stack.stack_id} {resource.logical_id}", resource.document())

    def save_all(self, stack: Stack) -> None:
        """Store a stack with what an update began from and exactly the resources that it has now."""
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

    def find(self, account: str, region: str, name_or_id: str) -> Stack | None:
        """Return a stack by id, deleted ones too, or the living one by name."""
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

    def save_change_set(self, change_set: ChangeSet) -> None:
        """Store a change set."""
        self._sets[change_set.change_set_id] = change_set
        self._change_sets.put(change_set.change_set_id, asdict(change_set))

    def delete_change_set(self, change_set: ChangeSet) -> None:
        """Forget a change set."""
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

    def add_event(self, stack_id: str, event: dict[str, Any]) -> None:
        """Store an event."""
        self._database.execute(
            "INSERT INTO cfn_events (stack, event) VALUES (?, ?)", (stack_id, json.dumps(event))
        )

    def events(self, stack_id: str, before: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Return (number, event), the newest first, of those with a lower number than `before`."""
        rows = self._database.query(
            "SELECT id, event FROM cfn_events WHERE stack = ? AND id < ? ORDER BY id DESC LIMIT ?",
            (stack_id, before, limit),
        )
        return [(number, json.loads(event)) for number, event in rows]
