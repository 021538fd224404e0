"""kill -9 at any moment of a deployment: the operation is rolled back or taken up, and nothing is lost or left over.

A deployment's moments are the commits of its cloud's database: the data directory is copied after each of them, and a
cloud is started on a copy, as after a kill there. The others are real clouds, killed after a random time.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.store.database import Database
from tests.crash import deployments
from tests.crash.deployments import body, check, failing, first, second
from tests.support.cloud import InProcessCloud
from tests.support.server import ServerProcess, wait_until

SEED = 15
# Moments of each operation that the default suite looks at.
SAMPLED = 2
KILLS = 2
NIGHTLY_KILLS = 200
IAM = {"Capabilities": ["CAPABILITY_IAM"]}
Deploy = Callable[[Any], object]


class Moments:
    """Copies a data directory after each commit while it is on."""

    def __init__(self, data: Path, copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data, self.copies = data, copies
        self.found: list[Path] = []
        self.is_on = False
        run = Database._run

        def run_and_copy(database: Database, sql: str, args: Any = ()) -> Any:
            answer = run(database, sql, args)
            alone = not database._connection.in_transaction and not sql.startswith("SELECT")
            if self.is_on and (sql == "COMMIT" or alone):
                self._copy()
            return answer

        monkeypatch.setattr(Database, "_run", run_and_copy)

    def _copy(self) -> None:
        # The database's lock is held: nobody writes to it meanwhile.
        copy = self.copies / str(len(self.found))
        self.found.append(copy)
        copy_what_is_there(self.data, copy)


def copy_what_is_there(source: Path, target: Path) -> None:
    """Copy a folder in which files and folders come and go, such as those of a stream that is being deleted."""
    for folder, _, files in os.walk(source):
        copied = target / Path(folder).relative_to(source)
        copied.mkdir(parents=True, exist_ok=True)
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(Path(folder) / name, copied / name)


def ended(client: Any) -> None:
    def is_quiet() -> bool:
        stacks = client("cloudformation").describe_stacks()["Stacks"]
        return not any(
            stack["StackStatus"].endswith("IN_PROGRESS")
            and stack["StackStatus"] != "REVIEW_IN_PROGRESS"
            for stack in stacks
        )

    wait_until(is_quiet, within_s=60, what="the stacks' operations")


def deploy_create(client: Any) -> None:
    client("cloudformation").create_stack(StackName="s", TemplateBody=body(first()), **IAM)


def deploy_update(client: Any) -> None:
    client("cloudformation").update_stack(StackName="s", TemplateBody=body(second()), **IAM)


def deploy_failing(client: Any) -> None:
    client("cloudformation").update_stack(StackName="s", TemplateBody=body(failing()), **IAM)


def deploy_delete(client: Any) -> None:
    client("cloudformation").delete_stack(StackName="s")


def deploy_change_set(client: Any) -> None:
    cfn = client("cloudformation")
    cfn.create_change_set(StackName="s", ChangeSetName="c", TemplateBody=body(second()), **IAM)
    cfn.execute_change_set(StackName="s", ChangeSetName="c")


def deploy_nested(client: Any) -> None:
    client("s3").create_bucket(Bucket="templates")
    client("s3").put_object(Bucket="templates", Key="t", Body=body(first("inner")).encode())
    url = "https://templates.s3.amazonaws.com/t"
    inner = deployments.resource("AWS::CloudFormation::Stack", TemplateURL=url)
    after = deployments.resource("AWS::SQS::Queue", "Inner")
    client("cloudformation").create_stack(
        StackName="s", TemplateBody=body({"Inner": inner, "After": after}), **IAM
    )


# Each operation, and whether the stack is there before.
OPERATIONS: dict[str, tuple[Deploy, bool]] = {
    "create": (deploy_create, False),
    "update": (deploy_update, True),
    "failing": (deploy_failing, True),
    "delete": (deploy_delete, True),
    "change set": (deploy_change_set, True),
    "nested": (deploy_nested, False),
}


def record(folder: Path, operation: str, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Carry an operation out once, and return a copy of the data directory for each of its moments."""
    deploy, is_there = OPERATIONS[operation]
    (folder / "copies").mkdir()
    with monkeypatch.context() as patch:
        moments = Moments(folder / "data", folder / "copies", patch)
        with InProcessCloud(folder / "data", spark="installed") as cloud:
            if is_there:
                deploy_create(cloud.client)
                ended(cloud.client)
            moments.is_on = True
            deploy(cloud.client)
            ended(cloud.client)
            moments.is_on = False
            if operation == "nested":
                return moments.found  # the templates' bucket is no stack's
            check(cloud.client, operation)
    return moments.found


def go_on_from(moment: Path, what: str, *, besides: set[tuple[str, str]]) -> None:
    """Start a cloud on a copy, and compare what is there when its operations have ended."""
    with InProcessCloud(moment, spark="installed") as cloud:
        ended(cloud.client)
        cfn = cloud.client("cloudformation")
        statuses = {
            stack["StackName"]: stack["StackStatus"] for stack in cfn.describe_stacks()["Stacks"]
        }
        failures = [
            (event["LogicalResourceId"], event.get("ResourceStatusReason"))
            for name in statuses
            for event in cfn.describe_stack_events(StackName=name)["StackEvents"]
            if event["ResourceStatus"] in ("DELETE_FAILED", "UPDATE_FAILED")
        ]
        assert not any(status.endswith("FAILED") for status in statuses.values()), (
            what,
            statuses,
            failures,
        )
        there, known = deployments.things(cloud.client) - besides, deployments.owned(cloud.client)
        assert there - known == set(), (what, statuses, failures, "no stack has it", there - known)
        assert known - there == set(), (what, statuses, failures, "it is lost", known - there)


def go_through(folder: Path, operation: str, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    moments = record(folder, operation, monkeypatch)
    assert len(moments) > 20
    besides = {("AWS::S3::Bucket", "templates")} if operation == "nested" else set()
    chosen = list(enumerate(moments))
    if most < len(chosen):
        chosen = sorted(random.Random(SEED).sample(chosen, most))
    wrong: list[str] = []
    for number, moment in chosen:
        try:
            go_on_from(moment, f"{operation}, moment {number} of {len(moments)}", besides=besides)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("operation", ["create", pytest.param("failing", marks=pytest.mark.slow)])
def test_a_deployment_goes_on_from_a_sample_of_its_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
):
    go_through(tmp_path, operation, monkeypatch, SAMPLED)


@pytest.mark.slow
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_a_deployment_goes_on_from_all_of_its_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
):
    go_through(tmp_path, operation, monkeypatch, 1_000_000)


def kill_again_and_again(folder: Path, seed: int, kills: int) -> None:
    chosen = random.Random(seed)
    with ServerProcess(folder / "data") as server:
        deploy_create(server.client)
        ended(server.client)
        deploys = [deploy_update, deploy_failing, deploy_delete, deploy_create, deploy_change_set]
        for number in range(kills):
            have = server.client("cloudformation").describe_stacks()["Stacks"]
            is_usable = have and have[0]["StackStatus"] != "ROLLBACK_COMPLETE"
            deploy = chosen.choice(deploys) if is_usable else deploy_delete
            if not have:
                deploy = deploy_create
            thread = threading.Thread(target=_try, args=(deploy, server.client))
            thread.start()
            thread.join(chosen.random())
            server.kill9()
            thread.join(60)
            server.start()
            ended(server.client)
            check(server.client, f"seed {seed}, kill {number}, {deploy.__name__}")


def _try(deploy: Deploy, client: Any) -> None:
    try:
        deploy(client)
    except Exception:  # noqa: BLE001 - the cloud is killed, or refuses what the state is wrong for
        return


@pytest.mark.crash
def test_deployments_outlast_kill_9(tmp_path: Path):
    kill_again_and_again(tmp_path, SEED, KILLS)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("seed", [1, 2])
def test_deployments_outlast_kill_9_many_times(tmp_path: Path, seed: int):
    kill_again_and_again(tmp_path, seed, NIGHTLY_KILLS // 2)
