"""Stack operations end, whatever happens in them, and others can overtake them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.services.cloudformation import backend
from headrace.services.cloudformation.state import Resource, Stack
from tests.api.cloudformation.helpers import Lab, thing
from tests.api.cloudformation.test_stacks import (
    create,
    refused,
    settled,
    status,
    template,
    update,
)
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    lab = Lab()
    lab.install(monkeypatch)
    # Requests answer at once, so that a test sees their operations in progress.
    monkeypatch.setattr(backend, "ANSWER_WITHIN_S", 0.0)
    yield lab
    lab.go.set()


def begin(cfn: Any, body: Any, lab: Lab, *, how: str = "create_stack") -> None:
    """Begin an operation, and return when one of its things waits."""
    lab.waiting.clear()
    getattr(cfn, how)(StackName="s", TemplateBody=json.dumps(body))
    assert lab.waiting.wait(10)


def events(cfn: Any, name: str = "s") -> list[tuple[str, str, str]]:
    found = cfn.describe_stack_events(StackName=name)["StackEvents"]
    return [
        (e["LogicalResourceId"], e["ResourceStatus"], e.get("ResourceStatusReason", ""))
        for e in reversed(found)
    ]


def resources(cfn: Any, name: str = "s") -> dict[str, str]:
    found = cfn.describe_stack_resources(StackName=name)["StackResources"]
    return {r["LogicalResourceId"]: r["ResourceStatus"] for r in found}


def reason(cfn: Any, name: str = "s") -> str:
    return str(cfn.describe_stacks(StackName=name)["Stacks"][0].get("StackStatusReason", ""))


def assert_true(value: bool) -> None:
    assert value


def deleted(cfn: Any) -> str:
    stack_id = cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName="s")
    return settled(cfn, stack_id)


# --- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("MemoryError", "Internal failure of headrace: there was not enough memory"),
        ("RecursionError", "Internal failure of headrace: values are nested too deeply"),
        ("x", "Internal failure of headrace: ValueError: x"),
    ],
)
def test_any_error_in_a_creation_leads_back(cfn: Any, lab: Lab, error: str, sentence: str):
    body = template(A=thing(), B=thing({"create": error}, depends_on="A"))
    assert create(cfn, body) == "ROLLBACK_COMPLETE"
    assert ("B", "CREATE_FAILED", sentence) in events(cfn)
    assert lab.made == set()
    assert deleted(cfn) == "DELETE_COMPLETE"


def test_what_was_made_by_half_is_deleted_again(cfn: Any, lab: Lab):
    assert create(cfn, template(A=thing({"create": "x"}, Half=True))) == "ROLLBACK_COMPLETE"
    assert lab.made == set()


@pytest.mark.parametrize("error", ["MemoryError", "RecursionError", "x"])
def test_any_error_on_the_way_back_ends_in_failed_and_can_be_deleted(
    cfn: Any, lab: Lab, error: str
):
    body = template(
        A=thing({"delete": error}), Other=thing(), B=thing({"create": "x"}, depends_on="A")
    )
    body["Resources"]["B"]["DependsOn"] = ["A", "Other"]
    assert create(cfn, body) == "ROLLBACK_FAILED"
    assert reason(cfn) == "The following resource(s) failed to delete: [A]. "
    # What does not depend on it is deleted all the same.
    assert resources(cfn) == {
        "A": "DELETE_FAILED",
        "Other": "DELETE_COMPLETE",
        "B": "DELETE_COMPLETE",
    }
    assert deleted(cfn) == "DELETE_FAILED"
    # As on AWS: what cannot be deleted is left behind when the user says so.
    cfn.delete_stack(StackName="s", RetainResources=["A"])
    assert status_of_deleted(cfn) == "DELETE_COMPLETE"


def status_of_deleted(cfn: Any) -> str:
    found = cfn.list_stacks()["StackSummaries"][0]
    return settled(cfn, found["StackId"])


def test_an_operation_that_cannot_even_begin_ends(
    cloud: InProcessCloud, cfn: Any, lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    from headrace.services.cloudformation.deployment.resource_removal import Removal
    from headrace.services.cloudformation.deployment.stack_resources import Provisioner

    def broken(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(Provisioner, "apply", broken)
    monkeypatch.setattr(Removal, "delete_all", broken)
    assert create(cfn, template(A=thing())) == "ROLLBACK_FAILED"
    assert reason(cfn) == "Internal failure of headrace: there was not enough memory"
    monkeypatch.undo()
    lab.install(monkeypatch)
    assert deleted(cfn) == "DELETE_COMPLETE"


def test_a_failure_that_cannot_be_stored_is_shown_and_taken_up_again(
    cloud: InProcessCloud, cfn: Any, lab: Lab, data_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    stacks = cloud.cloud.cloudformation.stacks

    def full(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    lab.does["A"] = lambda: monkeypatch.setattr(stacks._stacks, "put", full)
    assert create(cfn, template(A=thing({"create": "x"}))) == "CREATE_FAILED"
    assert "disk is full" in reason(cfn)
    cloud.stop()
    with InProcessCloud(data_dir) as again:
        assert settled(again.client("cloudformation"), "s") == "ROLLBACK_COMPLETE"


def test_when_one_resource_fails_what_waits_is_given_up(cfn: Any, lab: Lab):
    lab.does["B"] = lambda: assert_true(lab.waiting.wait(10))
    body = template(A=thing({"create": "wait"}), B=thing({"create": "x"}))
    assert create(cfn, body) == "ROLLBACK_COMPLETE"
    assert ("A", "CREATE_FAILED", "Resource creation cancelled") in events(cfn)
    assert ("s", "ROLLBACK_IN_PROGRESS") in [(name, state) for name, state, _ in events(cfn)]
    assert any("failed to create: [B]." in why for _, _, why in events(cfn))


# --- a killed cloud ---------------------------------------------------------------------------


def after_a_kill(cloud: InProcessCloud, folder: Path) -> InProcessCloud:
    """Return a cloud that finds what a kill -9 at this moment would leave."""
    source = cloud.cloud.config.data_dir
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("lock"))
    return InProcessCloud(folder)


def test_a_kill_during_the_way_back_ends_in_failed_and_can_be_deleted(
    cloud: InProcessCloud, cfn: Any, lab: Lab, tmp_path: Path
):
    begin(cfn, template(A=thing({"delete": "wait"}), B=thing({"create": "x"}, depends_on="A")), lab)
    assert status(cfn, "s") == "ROLLBACK_IN_PROGRESS"
    lab.does["A"] = lambda: assert_true(False)
    with after_a_kill(cloud, tmp_path / "killed") as again:
        other = again.client("cloudformation")
        assert settled(other, "s") == "ROLLBACK_FAILED"
        lab.does.clear()
        lab.go.set()
        assert deleted(other) == "DELETE_COMPLETE"


def test_a_kill_during_an_update_leads_back(
    cloud: InProcessCloud, cfn: Any, lab: Lab, tmp_path: Path
):
    create(cfn, template(A=thing(Value="old"), B=thing(Key="old")))
    before = set(lab.made)
    new = template(
        A=thing(Value="new"),
        B=thing(Key="new", depends_on="A"),
        C=thing({"create": "wait"}, depends_on="B"),
    )
    begin(cfn, new, lab, how="update_stack")
    with after_a_kill(cloud, tmp_path / "killed") as again:
        other = again.client("cloudformation")
        assert settled(other, "s") == "UPDATE_ROLLBACK_COMPLETE"
        assert lab.made == before
        assert set(resources(other)) == {"A", "B"}


# --- the rollback of an update ----------------------------------------------------------------


def broken_update(cfn: Any, lab: Lab) -> None:
    """Bring a stack to UPDATE_ROLLBACK_FAILED: A cannot be brought back."""
    create(cfn, template(A=thing({"update": "x"}, Value="old"), B=thing(Value="old")))
    new = template(
        A=thing(Value="new"), B=thing(Value="new"), C=thing({"create": "x"}, depends_on="A")
    )
    new["Resources"]["C"]["DependsOn"] = ["A", "B"]
    assert update(cfn, new) == "UPDATE_ROLLBACK_FAILED"


def test_a_failed_way_back_names_what_failed(cfn: Any, lab: Lab):
    broken_update(cfn, lab)
    assert resources(cfn)["A"] == "UPDATE_FAILED"
    assert "[A]" in reason(cfn)
    assert ("A", "UPDATE_FAILED", "Internal failure of headrace: ValueError: x") in events(cfn)


def test_a_failed_way_back_can_be_continued(cfn: Any, lab: Lab, monkeypatch: pytest.MonkeyPatch):
    broken_update(cfn, lab)
    cfn.continue_update_rollback(StackName="s")
    assert settled(cfn, "s") == "UPDATE_ROLLBACK_FAILED"
    monkeypatch.setattr(lab, "_act", lambda *_: None)
    cfn.continue_update_rollback(StackName="s")
    assert settled(cfn, "s") == "UPDATE_ROLLBACK_COMPLETE"
    assert set(resources(cfn)) == {"A", "B"}
    assert len(lab.made) == 2


def test_resources_that_cannot_be_brought_back_are_skipped(
    cloud: InProcessCloud, cfn: Any, lab: Lab, tmp_path: Path
):
    broken_update(cfn, lab)
    assert refused(cfn.continue_update_rollback, StackName="s", ResourcesToSkip=["B"]) == (
        "ValidationError",
        "The resources to skip must be in UPDATE_FAILED state: [B] are not",
    )
    with after_a_kill(cloud, tmp_path / "killed") as again:
        other = again.client("cloudformation")
        other.continue_update_rollback(StackName="s", ResourcesToSkip=["A"])
        assert settled(other, "s") == "UPDATE_ROLLBACK_COMPLETE"


def test_a_failed_way_back_can_be_deleted(cfn: Any, lab: Lab):
    broken_update(cfn, lab)
    assert deleted(cfn) == "DELETE_COMPLETE"
    assert lab.made == set()


@pytest.mark.parametrize("state", ["CREATE_COMPLETE", "none"])
def test_only_a_failed_way_back_is_continued(cfn: Any, lab: Lab, state: str):
    if state == "none":
        assert refused(cfn.continue_update_rollback, StackName="s")[1] == "Stack [s] does not exist"
        return
    create(cfn, template(A=thing()))
    assert refused(cfn.continue_update_rollback, StackName="s") == (
        "ValidationError",
        "ContinueUpdateRollback cannot be called from current stack status",
    )


def test_a_replacement_that_was_made_by_half_is_deleted_again(cfn: Any, lab: Lab):
    create(cfn, template(A=thing(Key="old")))
    before = set(lab.made)
    new = template(A=thing({"create": "x"}, Key="new", Half=True))
    assert update(cfn, new) == "UPDATE_ROLLBACK_COMPLETE"
    assert lab.made == before


def test_a_replacement_and_what_it_replaces_are_stored_in_one_go(
    cloud: InProcessCloud, cfn: Any, lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    # A request that stores the stack in between, such as to cancel the update, would store neither: a kill then would
    # leave the new one behind.
    create(cfn, template(A=thing(Key="old")))
    stacks = cloud.cloud.cloudformation.stacks
    save, stored, before = stacks.save, threading.Event(), list[bool]()

    def save_while_a_request_stores(stack: Stack, *resources: Resource) -> None:
        if resources and not before:
            request = threading.Thread(target=lambda: (save(stack), stored.set()))
            request.start()
            before.append(stored.wait(0.2))
        save(stack, *resources)

    monkeypatch.setattr(stacks, "save", save_while_a_request_stores)
    assert update(cfn, template(A=thing(Key="new"))) == "UPDATE_COMPLETE"
    assert stored.wait(5)
    assert before == [False]


# --- overtaking -------------------------------------------------------------------------------


def test_a_stack_that_is_being_made_can_be_deleted(cfn: Any, lab: Lab):
    begin(cfn, template(A=thing(), B=thing({"create": "wait"}, depends_on="A")), lab)
    stack_id = cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName="s")
    assert settled(cfn, stack_id) == "DELETE_COMPLETE"
    assert ("B", "CREATE_FAILED", "Resource creation cancelled") in events(cfn, stack_id)
    assert lab.made == set()
    assert create(cfn, template(A=thing())) == "CREATE_COMPLETE"


def test_a_stack_on_its_way_back_can_be_deleted(cfn: Any, lab: Lab):
    begin(cfn, template(A=thing({"delete": "wait"}), B=thing({"create": "x"}, depends_on="A")), lab)
    assert status(cfn, "s") == "ROLLBACK_IN_PROGRESS"
    stack_id = cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName="s")
    given_up = ("A", "DELETE_FAILED", "Resource deletion cancelled")
    wait_until(lambda: given_up in events(cfn, stack_id), what="the end of the way back")
    lab.go.set()
    assert settled(cfn, stack_id) == "DELETE_COMPLETE"
    assert lab.made == set()


def test_a_deletion_that_is_killed_goes_on(
    cloud: InProcessCloud, cfn: Any, lab: Lab, tmp_path: Path
):
    begin(
        cfn, template(A=thing({"delete": "wait"}), B=thing({"create": "wait"}, depends_on="A")), lab
    )
    lab.waiting.clear()
    stack_id = cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName="s")
    assert lab.waiting.wait(10)
    assert status(cfn, "s") == "DELETE_IN_PROGRESS"
    with after_a_kill(cloud, tmp_path / "killed") as again:
        lab.go.set()
        assert settled(again.client("cloudformation"), stack_id) == "DELETE_COMPLETE"


def test_an_update_can_be_cancelled(cfn: Any, lab: Lab):
    create(cfn, template(A=thing(Value="old")))
    new = template(A=thing(Value="new"), B=thing({"create": "wait"}, depends_on="A"))
    begin(cfn, new, lab, how="update_stack")
    stack_id = cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    assert refused(cfn.delete_stack, StackName="s") == (
        "ValidationError",
        f"Stack [{stack_id}] cannot be deleted while in status UPDATE_IN_PROGRESS",
    )
    cfn.cancel_update_stack(StackName="s")
    assert settled(cfn, "s") == "UPDATE_ROLLBACK_COMPLETE"
    assert ("B", "CREATE_FAILED", "Resource creation cancelled") in events(cfn)
    assert ("s", "UPDATE_ROLLBACK_IN_PROGRESS", "User Initiated") in events(cfn)
    assert set(resources(cfn)) == {"A"}
    assert len(lab.made) == 1


def test_only_an_update_can_be_cancelled(cfn: Any, lab: Lab):
    create(cfn, template(A=thing()))
    assert refused(cfn.cancel_update_stack, StackName="s") == (
        "ValidationError",
        "CancelUpdateStack cannot be called from current stack status",
    )
    assert refused(cfn.cancel_update_stack, StackName="t") == (
        "ValidationError",
        "Stack [t] does not exist",
    )


def test_an_update_that_was_left_unfinished_is_deleted_whole(cfn: Any, lab: Lab):
    create(cfn, template(A=thing(Key="old")))
    new = template(A=thing(Key="new"), B=thing({"create": "x"}, depends_on="A"))
    cfn.update_stack(StackName="s", TemplateBody=json.dumps(new), DisableRollback=True)
    assert settled(cfn, "s") == "UPDATE_FAILED"
    assert len(lab.made) == 2  # the new A, and the old one that was to be cleaned up
    assert deleted(cfn) == "DELETE_COMPLETE"
    assert lab.made == set()


def test_what_was_made_by_half_and_left_is_made_again(cfn: Any, lab: Lab):
    half = template(A=thing({"create": "no"}, Half=True))
    cfn.create_stack(StackName="s", TemplateBody=json.dumps(half), OnFailure="DO_NOTHING")
    assert settled(cfn, "s") == "CREATE_FAILED"
    left = set(lab.made)
    assert len(left) == 1
    cfn.update_stack(StackName="s", TemplateBody=json.dumps(template(A=thing(Half=True))))
    assert settled(cfn, "s") == "UPDATE_COMPLETE"
    assert len(lab.made) == 1
    assert not lab.made & left
    resource = cfn.describe_stack_resource(StackName="s", LogicalResourceId="A")
    assert resource["StackResourceDetail"]["ResourceStatus"] == "CREATE_COMPLETE"
