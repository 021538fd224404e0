"""RedriveExecution: an execution goes on at the state where it was not successful."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
FIRST = {"Type": "Pass", "Assign": {"kept": "{% $states.input.n + 1 %}"}, "Next": "Send"}
SEND = {
    "Type": "Task",
    "Resource": "arn:aws:states:::sqs:sendMessage",
    "Arguments": {"QueueUrl": "{% $states.input.url %}", "MessageBody": "{% $string($kept) %}"},
    "Output": "{% {'kept': $kept, 'count': $states.context.Execution.RedriveCount} %}",
    "End": True,
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("redrives") / "data") as cloud:
        yield cloud


def start(cloud: InProcessCloud, name: str, states: dict[str, Any], start_at: str = "First") -> str:
    """Run a new machine to its end; its task sends to a queue of its name. Return the execution's ARN."""
    client = cloud.client("stepfunctions")
    definition = {"QueryLanguage": "JSONata", "StartAt": start_at, "States": states}
    machine = client.create_state_machine(
        name=name, definition=json.dumps(definition), roleArn=ROLE
    )["stateMachineArn"]
    url = f"{cloud.client('sqs').meta.endpoint_url}/{ACCOUNT}/{name}"
    execution = client.start_execution(
        stateMachineArn=machine, input=json.dumps({"n": 1, "url": url})
    )["executionArn"]
    end(cloud, execution)
    return str(execution)


def end(cloud: InProcessCloud, execution: str) -> dict[str, Any]:
    describe = cloud.client("stepfunctions").describe_execution

    def is_over() -> bool:
        shown = describe(executionArn=execution)
        # Its thread ends just after its status is stored.
        ending = "still ends" in shown.get("redriveStatusReason", "")
        return shown["status"] != "RUNNING" and not ending

    wait_until(is_over, within_s=30, what="its end")
    return describe(executionArn=execution)


def refusal(cloud: InProcessCloud, execution: str) -> str:
    with pytest.raises(ClientError) as caught:
        cloud.client("stepfunctions").redrive_execution(executionArn=execution)
    assert caught.value.response["Error"]["Code"] == "ExecutionNotRedrivable"
    return str(caught.value.response["Error"]["Message"])


def test_an_execution_goes_on_at_the_task_that_failed(cloud: InProcessCloud):
    client = cloud.client("stepfunctions")
    execution = start(cloud, "goes-on", {"First": FIRST, "Send": SEND})
    failed = end(cloud, execution)
    assert (failed["status"], failed["redriveStatus"]) == ("FAILED", "REDRIVABLE")
    assert failed["redriveCount"] == 0
    assert "redriveStatusReason" not in failed
    before = client.get_execution_history(executionArn=execution)["events"]
    other = json.dumps({"StartAt": "F", "States": {"F": {"Type": "Fail"}}})
    client.update_state_machine(stateMachineArn=failed["stateMachineArn"], definition=other)
    queue = cloud.client("sqs").create_queue(QueueName="goes-on")["QueueUrl"]

    first = client.redrive_execution(executionArn=execution, clientToken="t")
    again = client.redrive_execution(executionArn=execution, clientToken="t")

    assert first["redriveDate"] == again["redriveDate"]
    ended = end(cloud, execution)
    assert ended["status"] == "SUCCEEDED", ended
    assert json.loads(ended["output"]) == {"kept": 2, "count": 1}
    assert (ended["redriveCount"], ended["redriveDate"]) == (1, first["redriveDate"])
    assert ended["redriveStatusReason"] == "Execution is SUCCEEDED and cannot be redriven"
    assert "error" not in ended
    listed = client.list_executions(stateMachineArn=failed["stateMachineArn"])["executions"][0]
    assert (listed["redriveCount"], listed["redriveDate"]) == (1, first["redriveDate"])
    events = client.get_execution_history(executionArn=execution)["events"]
    assert events[: len(before)] == before
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events[len(before) :]] == [
        *("ExecutionRedriven", "TaskStateEntered", "TaskScheduled", "TaskStarted"),
        *("TaskSucceeded", "TaskStateExited", "ExecutionSucceeded"),
    ]
    assert events[len(before)]["executionRedrivenEventDetails"] == {"redriveCount": 1}
    bodies = cloud.client("sqs").receive_message(QueueUrl=queue)["Messages"]
    assert [body["Body"] for body in bodies] == ["2"]
    assert "SUCCEEDED" in refusal(cloud, execution)


def test_one_that_fails_again_may_be_redriven_again(cloud: InProcessCloud):
    client = cloud.client("stepfunctions")
    execution = start(cloud, "again", {"First": FIRST, "Send": SEND})
    for count in (1, 2):
        client.redrive_execution(executionArn=execution)
        ended = end(cloud, execution)
        assert (ended["status"], ended["redriveCount"]) == ("FAILED", count)
        assert ended["redriveStatus"] == "REDRIVABLE"
    cloud.client("sqs").create_queue(QueueName="again")
    client.redrive_execution(executionArn=execution)
    assert json.loads(end(cloud, execution)["output"]) == {"kept": 2, "count": 3}


@pytest.mark.parametrize("kind", ["Map", "Parallel"])
def test_what_ended_inside_of_a_map_or_parallel_state_is_refused(cloud: InProcessCloud, kind: str):
    inner = {"StartAt": "Bad", "States": {"Bad": {"Type": "Fail", "Error": "E"}}}
    state = {"Items": [1], "ItemProcessor": inner} if kind == "Map" else {"Branches": [inner]}
    states = {"Inner": {"Type": kind, "End": True, **state}}
    execution = start(cloud, f"inside-{kind}", states, "Inner")
    reason = f"headrace does not redrive executions that ended in a {kind} state"
    assert end(cloud, execution)["redriveStatusReason"] == reason
    assert refusal(cloud, execution) == f"Execution Not Redrivable: '{reason}'"


def test_a_stopped_one_goes_on_and_a_restart_keeps_its_place(tmp_path: Path):
    waits = {
        "Type": "Wait",
        "Seconds": "{% $exists($states.context.Execution.RedriveTime) ? 0 : 600 %}",
    }
    states = {"First": FIRST, "Send": {**waits, "Next": "Out"}}
    states["Out"] = {"Type": "Pass", "Output": "{% $kept %}", "End": True}
    definition = {"QueryLanguage": "JSONata", "StartAt": "First", "States": states}
    with InProcessCloud(tmp_path / "data") as cloud:
        client = cloud.client("stepfunctions")
        machine = client.create_state_machine(
            name="stopped", definition=json.dumps(definition), roleArn=ROLE
        )["stateMachineArn"]
        execution = client.start_execution(stateMachineArn=machine, input='{"n": 4}')[
            "executionArn"
        ]
        history = client.get_execution_history
        wait_until(
            lambda: (
                history(executionArn=execution)["events"][-1:][0]["type"] == "WaitStateEntered"
                if history(executionArn=execution)["events"]
                else False
            ),
            within_s=30,
            what="the wait",
        )
        assert "RUNNING" in refusal(cloud, execution)
        client.stop_execution(executionArn=execution)
        end(cloud, execution)
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("stepfunctions").redrive_execution(executionArn=execution)
        ended = end(cloud, execution)
        assert (ended["status"], ended.get("output")) == ("SUCCEEDED", "5")
