"""How stacks are stored."""

from __future__ import annotations

from pathlib import Path

from headrace.core.ids import Ids
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.store import Stacks, resource_document, stack_document
from headrace.store.database import Database
from tests.support.clock import FakeClock


def stacks_in(database: Database) -> Stacks:
    return Stacks(database, FakeClock(), Ids(7))


def test_resources_are_stored_one_by_one_and_come_back(tmp_path: Path):
    database = Database(tmp_path / "state.db")
    stacks = stacks_in(database)
    stack = Stack("arn", "s", "a", "r", "CREATE_IN_PROGRESS", 1)
    stacks.save(stack)
    for name in ("A", "B", "C"):
        stack.resources[name] = Resource(name, "T", "CREATE_COMPLETE", f"id-{name}")
        stacks.save_resource(stack, stack.resources[name])
    stack.previous = {"body": "x", "resources": {}}
    del stack.resources["B"]
    stacks.save_all(stack)
    again = stacks_in(database)
    again.load()
    found = again.find("a", "r", "s")
    assert found == stack


def test_stacks_that_were_stored_whole_are_read(tmp_path: Path):
    database = Database(tmp_path / "state.db")
    stack = Stack("arn", "s", "a", "r", "CREATE_COMPLETE", 1)
    stack.resources["A"] = Resource("A", "T", "CREATE_COMPLETE", "id")
    whole = {**stack_document(stack), "resources": {"A": resource_document(stack.resources["A"])}}
    database.documents("cfn_stacks").put("arn", {**whole, "previous": None})
    for _ in range(2):
        stacks = stacks_in(database)
        stacks.load()
        assert stacks.find("a", "r", "s") == stack
        stacks.save(stack)
