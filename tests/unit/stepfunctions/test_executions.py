"""Step Functions' executions: how they end, what is stored of them, and that none is left over.

States, errors and history: documented (API_DescribeExecution, API_GetExecutionHistory, "Handling errors in Step
Functions workflows").
"""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.moto.storage.storage import MotoStorage
from headrace.services.stepfunctions import executions
from headrace.store.disk_space import DiskReserve
from tests.support.moto_lab import MotoLab
from tests.support.server import wait_until

ROLE = "arn:aws:iam::000000000000:role/r"
SEND = {
    "Type": "Task",
    "Resource": "arn:aws:states:::aws-sdk:sqs:sendMessage",
    "Parameters": {"QueueUrl.$": "$.url", "MessageBody": "hello"},
    "End": True,
}
LONG = {"Type": "Wait", "Seconds": 3600, "End": True}


def machine(lab: MotoLab, state: dict[str, Any], **more: Any) -> str:
    definition = json.dumps({"StartAt": "A", "States": {"A": state}, **more})
    made = lab.client("stepfunctions").create_state_machine(
        name="m", definition=definition, roleArn=ROLE
    )
    return made["stateMachineArn"]


def start(lab: MotoLab, arn: str, **given: Any) -> str:
    answer = lab.client("stepfunctions").start_execution(
        stateMachineArn=arn, name="e", input=json.dumps(given)
    )
    return answer["executionArn"]


def described(lab: MotoLab, arn: str) -> dict[str, Any]:
    return lab.client("stepfunctions").describe_execution(executionArn=arn)


def ended(lab: MotoLab, arn: str) -> dict[str, Any]:
    wait_until(lambda: described(lab, arn)["status"] != "RUNNING", within_s=30, what="its end")
    return described(lab, arn)


def events(lab: MotoLab, arn: str, **how: Any) -> list[str]:
    answer = lab.client("stepfunctions").get_execution_history(executionArn=arn, **how)
    return [event["type"] for event in answer["events"]]


def test_a_task_calls_this_cloud_and_its_answer_is_the_output(lab: MotoLab):
    url = lab.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    arn = start(lab, machine(lab, SEND), url=url)
    done = ended(lab, arn)
    (message,) = lab.client("sqs").receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == "hello"
    assert done["status"] == "SUCCEEDED"
    assert json.loads(done["output"])["MessageId"] == message["MessageId"]
    types = events(lab, arn)
    assert types[0] == "ExecutionStarted"
    assert types[-1] == "ExecutionSucceeded"
    assert events(lab, arn, reverseOrder=True, maxResults=1) == ["ExecutionSucceeded"]


def test_an_execution_and_its_history_outlast_a_kill(lab: MotoLab):
    arn = start(lab, machine(lab, {"Type": "Pass", "Result": 1, "End": True}))
    before, history = ended(lab, arn), events(lab, arn)
    lab.restart()
    after = described(lab, arn)
    assert (after["status"], after["output"]) == ("SUCCEEDED", before["output"])
    assert after["stopDate"] == before["stopDate"]
    assert events(lab, arn) == history


def test_what_ran_at_a_kill_is_failed_with_the_reason(lab: MotoLab):
    arn = start(lab, machine(lab, LONG))
    wait_until(lambda: "WaitStateEntered" in events(lab, arn), within_s=30, what="the wait")
    assert described(lab, arn)["status"] == "RUNNING"
    lab.restart()
    done = described(lab, arn)
    assert (done["status"], done["error"]) == ("FAILED", "States.Runtime")
    assert done["cause"] == executions.STOPPED_CAUSE


def test_a_cloud_that_stops_leaves_no_thread(lab: MotoLab):
    arn = start(lab, machine(lab, LONG))
    wait_until(lambda: "WaitStateEntered" in events(lab, arn), within_s=30, what="the wait")
    assert any(thread.name.startswith("states-") for thread in threading.enumerate())
    lab.executions.stop()
    lab.executions.join()
    assert not any(thread.name.startswith("states-") for thread in threading.enumerate())


def test_a_stopped_execution_is_aborted_at_once(lab: MotoLab):
    arn = start(lab, machine(lab, LONG))
    lab.client("stepfunctions").stop_execution(executionArn=arn, error="E", cause="C")
    done = described(lab, arn)
    assert (done["status"], done["error"], done["cause"]) == ("ABORTED", "E", "C")


def test_a_time_out_is_shown_with_its_date_and_event(lab: MotoLab):
    arn = start(lab, machine(lab, LONG, TimeoutSeconds=1))
    done = ended(lab, arn)
    assert done["status"] == "TIMED_OUT"
    assert done["stopDate"] >= done["startDate"]
    assert events(lab, arn)[-1] == "ExecutionTimedOut"


def test_what_cannot_be_run_fails_by_its_name(lab: MotoLab):
    state = {**SEND, "Resource": "arn:aws:states:us-east-1:000000000000:activity:a"}
    done = ended(lab, start(lab, machine(lab, state), url="u"))
    assert (done["status"], done["error"]) == ("FAILED", "States.Runtime")
    assert "does not exist" in done["cause"]


def test_an_activitys_worker_gets_a_task_and_answers_it(lab: MotoLab):
    client = lab.client("stepfunctions")
    activity = client.create_activity(name="a")["activityArn"]
    assert client.create_activity(name="a")["activityArn"] == activity
    arn = machine(lab, {"Type": "Task", "Resource": activity, "TimeoutSeconds": 60, "End": True})
    given: dict[str, Any] = {}

    def is_given() -> bool:
        # The lab's clock lets nobody wait: workers poll.
        given.update(client.get_activity_task(activityArn=activity, workerName="w"))
        return "taskToken" in given

    run = start(lab, arn, n=1)
    wait_until(is_given, within_s=30, what="the task")
    assert json.loads(given["input"]) == {"n": 1}
    client.send_task_success(taskToken=given.pop("taskToken"), output='{"did": 1}')
    assert json.loads(ended(lab, run)["output"]) == {"did": 1}
    assert {"ActivityScheduled", "ActivityStarted", "ActivitySucceeded"} <= set(events(lab, run))
    run = client.start_execution(stateMachineArn=arn)["executionArn"]
    wait_until(is_given, within_s=30, what="the other task")
    client.send_task_failure(taskToken=given["taskToken"], error="E", cause="C")
    done = ended(lab, run)
    assert (done["status"], done["error"], done["cause"]) == ("FAILED", "E", "C")
    with pytest.raises(ClientError, match="ActivityDoesNotExist"):
        client.get_activity_task(activityArn=activity + "x")


def test_the_task_of_an_execution_that_ended_is_given_to_nobody(lab: MotoLab):
    client = lab.client("stepfunctions")
    activity = client.create_activity(name="a")["activityArn"]
    run = start(lab, machine(lab, {"Type": "Task", "Resource": activity, "End": True}))
    wait_until(lambda: "ActivityScheduled" in events(lab, run), within_s=30, what="the task")
    client.stop_execution(executionArn=run)
    assert "taskToken" not in client.get_activity_task(activityArn=activity)


@pytest.mark.parametrize("resource", ["activity", "token"])
def test_a_stop_ends_the_wait_for_a_worker_or_a_token(lab: MotoLab, resource: str):
    client = lab.client("stepfunctions")
    activity = client.create_activity(name="a")["activityArn"]
    url = lab.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    waits = {"Type": "Task", "Resource": activity, "End": True}
    if resource == "token":
        waits["Resource"] = "arn:aws:states:::sqs:sendMessage.waitForTaskToken"
        waits["Parameters"] = {"QueueUrl": url, "MessageBody.$": "$$.Task.Token"}
    run = start(lab, machine(lab, waits))
    kind = "ActivityScheduled" if resource == "activity" else "TaskSubmitted"
    wait_until(lambda: kind in events(lab, run), within_s=30, what="the wait")
    client.stop_execution(executionArn=run)
    wait_until(
        lambda: not any(thread.name.startswith("states-") for thread in threading.enumerate()),
        within_s=10,
        what="the end of its thread",
    )


def test_executions_are_bounded(lab: MotoLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(executions, "MOST_RUNNING", 0)
    arn = machine(lab, LONG)
    with pytest.raises(ClientError) as refused:
        start(lab, arn)
    assert refused.value.response["Error"]["Code"] == "ExecutionLimitExceeded"
    assert lab.client("stepfunctions").list_executions(stateMachineArn=arn)["executions"] == []


def test_a_token_that_nobody_gave_out_is_refused(lab: MotoLab):
    with pytest.raises(ClientError) as refused:
        lab.client("stepfunctions").send_task_success(taskToken="t", output="{}")
    assert refused.value.response["Error"]["Code"] == "InvalidToken"


def test_events_leave_out_an_input_and_an_output_that_are_too_large(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    details: list[dict[str, Any]] = []
    monkeypatch.setattr(
        executions, "queue_service_event", lambda *told, **_: details.append(told[3])
    )
    arn = machine(lab, {"Type": "Pass", "End": True})
    # Quotation marks double: in the input's JSON, and in the event's.
    for name, text in (("large", "x" * 130_000), ("larger", '"' * 100_000)):
        execution = lab.client("stepfunctions").start_execution(
            stateMachineArn=arn, name=name, input=json.dumps(text)
        )
        assert ended(lab, execution["executionArn"])["status"] == "SUCCEEDED"
    wait_until(lambda: len(details) == 4, what="the events")
    assert [
        (
            one["input"] is not None,
            one["inputDetails"],
            one["output"] is not None,
            one["outputDetails"],
        )
        for one in details
    ] == [
        (True, {"included": True}, False, None),
        (False, {"included": False}, True, {"included": True}),
        (False, {"included": False}, False, None),
        (False, {"included": False}, False, {"included": False}),
    ]


def test_an_execution_runs_only_once_its_start_is_stored(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    arn = machine(lab, LONG)
    execution = arn.replace(":stateMachine:", ":execution:") + ":e"
    ran: list[bool] = []
    save = MotoStorage.save

    def look_and_save(storage: MotoStorage, *args: Any, **named: Any) -> Any:
        ran.append(lab.executions.run_of(execution) is not None)
        return save(storage, *args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(MotoStorage, "save", look_and_save)
        patched.setattr(DiskReserve, "free_bytes", property(lambda _: 0))
        with pytest.raises(ClientError, match="No space left"):
            start(lab, arn)
    assert ran == [False]
    assert lab.executions.run_of(execution) is None
    start(lab, arn)
    assert lab.executions.run_of(execution) is not None
