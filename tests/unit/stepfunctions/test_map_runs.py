"""Map Runs: what ListMapRuns, DescribeMapRun and UpdateMapRun show and change of a distributed Map."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab
from tests.support.server import wait_until
from tests.unit.stepfunctions.test_executions import ended, machine, start


def mapped(inner: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "Type": "Map",
        "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": "P",
            "States": {"P": {**inner, "End": True}},
        },
        "ItemsPath": "$.rows",
        "End": True,
        **fields,
    }


def runs_of(lab: MotoLab, execution: str) -> list[dict[str, Any]]:
    return lab.client("stepfunctions").list_map_runs(executionArn=execution)["mapRuns"]


def described(lab: MotoLab, arn: str) -> dict[str, Any]:
    return lab.client("stepfunctions").describe_map_run(mapRunArn=arn)


def token(lab: MotoLab, activity: str) -> str:
    states = lab.client("stepfunctions")
    return wait_until(
        lambda: states.get_activity_task(activityArn=activity).get("taskToken"), what="a task"
    )


def test_a_map_run_counts_items_and_outlasts_a_kill(lab: MotoLab):
    state = mapped(
        {"Type": "Pass"}, Label="Rows", MaxConcurrency=2, ItemBatcher={"MaxItemsPerBatch": 2}
    )
    arn = machine(lab, state)
    execution = start(lab, arn, rows=[1, 2, 3])
    ended(lab, execution)
    (run,) = runs_of(lab, execution)
    assert run["stateMachineArn"] == f"{arn}/Rows"
    assert run["mapRunArn"].startswith(f"{arn.replace(':stateMachine:', ':mapRun:')}/Rows:")
    lab.restart()
    assert runs_of(lab, execution) == [run]
    shown = described(lab, run["mapRunArn"])
    assert (shown["status"], shown["maxConcurrency"]) == ("SUCCEEDED", 2)
    assert (shown["itemCounts"]["succeeded"], shown["executionCounts"]["succeeded"]) == (3, 2)
    with pytest.raises(ClientError, match="not in progress"):
        lab.client("stepfunctions").update_map_run(mapRunArn=run["mapRunArn"], maxConcurrency=1)
    with pytest.raises(ClientError, match="headrace keeps no child executions"):
        lab.client("stepfunctions").list_executions(mapRunArn=run["mapRunArn"])


def test_a_map_run_in_progress_takes_another_concurrency_and_tolerance(lab: MotoLab):
    states = lab.client("stepfunctions")
    activity = states.create_activity(name="rows")["activityArn"]
    state = mapped({"Type": "Task", "Resource": activity}, MaxConcurrency=1)
    execution = start(lab, machine(lab, state), rows=[1, 2, 3, 4])
    wait_until(lambda: bool(runs_of(lab, execution)), what="the Map Run")
    run = runs_of(lab, execution)[0]["mapRunArn"]

    def counts() -> dict[str, int]:
        return described(lab, run)["executionCounts"]

    wait_until(lambda: (counts()["running"], counts()["pending"]) == (1, 3), what="one child")
    states.update_map_run(mapRunArn=run, maxConcurrency=3, toleratedFailureCount=4)
    wait_until(lambda: (counts()["running"], counts()["pending"]) == (3, 1), what="three children")
    states.update_map_run(mapRunArn=run, maxConcurrency=1)
    tokens = [token(lab, activity) for _ in range(3)]
    states.send_task_failure(taskToken=tokens[0])
    wait_until(lambda: counts()["failed"] == 1, what="a failure")
    assert (counts()["running"], counts()["pending"]) == (2, 1)
    for one in tokens[1:]:
        states.send_task_success(taskToken=one, output="{}")
    states.send_task_failure(taskToken=token(lab, activity))
    assert ended(lab, execution)["status"] == "SUCCEEDED"
    shown = described(lab, run)
    assert (shown["toleratedFailureCount"], shown["itemCounts"]["failed"]) == (4, 2)


def test_a_stopped_execution_aborts_its_map_run(lab: MotoLab):
    states = lab.client("stepfunctions")
    execution = start(lab, machine(lab, mapped({"Type": "Wait", "Seconds": 900})), rows=[1])
    wait_until(lambda: bool(runs_of(lab, execution)), what="the Map Run")
    run = runs_of(lab, execution)[0]["mapRunArn"]
    wait_until(lambda: described(lab, run)["itemCounts"]["running"] == 1, what="a child")
    states.stop_execution(executionArn=execution)
    wait_until(lambda: described(lab, run)["status"] == "ABORTED", what="its end")
    assert described(lab, run)["itemCounts"]["aborted"] == 1


def test_what_is_no_map_run_is_refused(lab: MotoLab):
    states = lab.client("stepfunctions")
    arn = machine(lab, {"Type": "Pass", "End": True})
    gone = f"{arn.replace(':stateMachine:', ':mapRun:')}/L:1"
    for name, code in ((gone, "ResourceNotFound"), (arn, "InvalidArn")):
        for call in (states.describe_map_run, states.update_map_run):
            with pytest.raises(ClientError) as refused:
                call(mapRunArn=name)
            assert refused.value.response["Error"]["Code"] == code
