"""Resource types whose behaviour a test decides."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources import TYPES
from headrace.services.cloudformation.resources.base import Context, ResourceResult, ResourceType

TYPE = "Test::Lab::Thing"


class Lab:
    """A type `Test::Lab::Thing`. `made` are the physical ids of the things that exist.

    A template's `Does` says what happens: `{"create": "MemoryError"}` raises it, `{"delete": "wait"}` waits until
    `go` is set or the operation is given up. `half` makes the thing before it raises.
    """

    def __init__(self) -> None:
        self.made: set[str] = set()
        self.calls: list[tuple[str, str]] = []
        self.go = threading.Event()
        self.waiting = threading.Event()
        self.does: dict[str, Callable[[], None]] = {}

    def _act(self, context: Context, verb: str, properties: dict[str, Any]) -> None:
        self.calls.append((verb, context.logical_id))
        act = properties.get("Does", {}).get(verb, "")
        if context.logical_id in self.does:
            self.does[context.logical_id]()
        if act == "wait":
            self.waiting.set()
            while not self.go.is_set():
                context.pause(0.01)
        elif act:
            kinds = {"MemoryError": MemoryError, "RecursionError": RecursionError}
            # What a type refuses is no defect, and logs no traceback.
            raise {**kinds, "told": ResourceFailed}.get(act, ValueError)(act)

    def create(self, context: Context, properties: dict[str, Any]) -> ResourceResult:
        name = f"{context.stack_name}-{context.logical_id}-{len(self.calls)}"
        if properties.get("Half"):
            self.made.add(name)
            context.note_made(name)
        self._act(context, "create", properties)
        self.made.add(name)
        return ResourceResult(name, {"Name": name})

    def update(
        self, context: Context, physical_id: str, old: dict[str, Any], new: dict[str, Any]
    ) -> ResourceResult:
        self._act(context, "update", new)
        return ResourceResult(physical_id, {"Name": physical_id})

    def delete(self, context: Context, physical_id: str, properties: dict[str, Any]) -> None:
        self._act(context, "delete", properties)
        self.made.discard(physical_id)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have templates know the type."""
        kind = ResourceType(
            TYPE,
            dict.fromkeys(("Does", "Half", "Value", "Key"), "enforced"),
            self.create,
            self.delete,
            update=self.update,
            replace_on=frozenset({"Key"}),
        )
        monkeypatch.setitem(TYPES, TYPE, kind)


def thing(
    does: dict[str, str] | None = None, depends_on: str = "", **properties: Any
) -> dict[str, Any]:
    """Return a resource of the lab's type."""
    value: dict[str, Any] = {"Type": TYPE, "Properties": {**properties, "Does": does or {}}}
    return {**value, "DependsOn": depends_on} if depends_on else value
