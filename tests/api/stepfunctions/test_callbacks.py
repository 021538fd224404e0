"""Callbacks: what a machine sends by an SDK integration resumes the machine that waits for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
SDK = "arn:aws:states:::aws-sdk"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("callbacks") / "data") as cloud:
        yield cloud


def make(cloud: InProcessCloud, name: str, state: dict[str, Any]) -> str:
    definition = {"StartAt": "A", "States": {"A": {"Type": "Task", "End": True, **state}}}
    answer = cloud.client("stepfunctions").create_state_machine(
        name=name, definition=json.dumps(definition), roleArn=ROLE
    )
    return str(answer["stateMachineArn"])


def run(cloud: InProcessCloud, machine: str) -> dict[str, Any]:
    """Run a machine to its end."""
    states = cloud.client("stepfunctions")
    execution = states.start_execution(stateMachineArn=machine, input="{}")["executionArn"]

    def described() -> dict[str, Any]:
        return states.describe_execution(executionArn=execution)

    wait_until(lambda: described()["status"] != "RUNNING", within_s=30, what="its end")
    return described()


@pytest.mark.parametrize("output", [{"ok": True}, [1, {"a": "ä"}], '{"ok": true}', '"text"'])
def test_an_object_for_a_text_is_sent_as_its_json(cloud: InProcessCloud, output: Any):
    name = f"n{abs(hash(str(output)))}"
    child = make(
        cloud,
        f"{name}-child",
        {
            "Resource": f"{SDK}:sfn:sendTaskSuccess",
            "Parameters": {"TaskToken.$": "$.token", "Output": output},
        },
    )
    parent = make(
        cloud,
        name,
        {
            "Resource": "arn:aws:states:::states:startExecution.waitForTaskToken",
            "Parameters": {"StateMachineArn": child, "Input": {"token.$": "$$.Task.Token"}},
            "TimeoutSeconds": 20,
        },
    )
    ended = run(cloud, parent)
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    expected = json.loads(output) if isinstance(output, str) else output
    assert json.loads(ended["output"]) == expected


def test_objects_in_lists_are_sent_as_their_json(cloud: InProcessCloud):
    queue = cloud.client("sqs").create_queue(QueueName="bodies")["QueueUrl"]
    entries = [{"Id": "a", "MessageBody": {"n": 1}}, {"Id": "b", "MessageBody": ["x"]}]
    sending = make(
        cloud,
        "batch",
        {
            "Resource": f"{SDK}:sqs:sendMessageBatch",
            "Parameters": {"QueueUrl": queue, "Entries": entries},
        },
    )
    assert run(cloud, sending)["status"] == "SUCCEEDED"
    messages = cloud.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    assert sorted(each["Body"] for each in messages["Messages"]) == ['["x"]', '{"n":1}']


def test_services_answer_by_the_names_of_the_sdk_for_java(cloud: InProcessCloud):
    entry = {"Source": "s", "DetailType": "t", "Detail": {"n": 1}}
    parameters = {"Entries": [entry]}
    sending = make(
        cloud, "bus", {"Resource": f"{SDK}:eventbridge:putEvents", "Parameters": parameters}
    )
    ended = run(cloud, sending)
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    assert json.loads(ended["output"])["FailedEntryCount"] == 0
    listing = make(
        cloud, "groups", {"Resource": f"{SDK}:cloudwatchlogs:describeLogGroups", "Parameters": {}}
    )
    assert json.loads(run(cloud, listing)["output"])["LogGroups"] == []


def test_other_integrations_refuse_an_object_for_a_text(cloud: InProcessCloud):
    cloud.client("dynamodb").create_table(
        TableName="t",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    item = {"id": {"S": "a"}, "v": {"S": {"n": 1}}}
    putting = make(
        cloud,
        "put",
        {
            "Resource": "arn:aws:states:::dynamodb:putItem",
            "Parameters": {"TableName": "t", "Item": item},
        },
    )
    assert run(cloud, putting)["status"] == "FAILED"


def test_a_worker_may_report_to_a_task_without_a_heartbeat(cloud: InProcessCloud):
    queue = cloud.client("sqs").create_queue(QueueName="tokens")["QueueUrl"]
    sending = make(
        cloud,
        "reported",
        {
            "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
            "Parameters": {"QueueUrl": queue, "MessageBody": {"token.$": "$$.Task.Token", "n": 1}},
        },
    )
    states = cloud.client("stepfunctions")
    execution = states.start_execution(stateMachineArn=sending)["executionArn"]
    received = cloud.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=20)
    body = received["Messages"][0]["Body"]
    token = json.loads(body)["token"]
    assert " " not in body
    states.send_task_heartbeat(taskToken=token)
    states.send_task_success(taskToken=token, output="2")
    wait_until(
        lambda: states.describe_execution(executionArn=execution)["status"] == "SUCCEEDED",
        within_s=30,
        what="its end",
    )


@pytest.mark.parametrize("caught", ["States.HeartbeatTimeout", "States.Timeout"])
@pytest.mark.parametrize("is_activity", [True, False])
def test_a_missed_heartbeat_has_two_names(cloud: InProcessCloud, caught: str, is_activity: bool):
    states, name = cloud.client("stepfunctions"), f"missed-{is_activity}-{caught.lower()}"
    task: dict[str, Any] = {"Resource": states.create_activity(name="slow")["activityArn"]}
    if not is_activity:
        queue = cloud.client("sqs").create_queue(QueueName="unread")["QueueUrl"]
        task = {
            "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
            "Parameters": {"QueueUrl": queue, "MessageBody": {"token.$": "$$.Task.Token"}},
        }
    wrong = {"ErrorEquals": ["States.Permissions"], "Next": "Wrong"}
    task |= {"Type": "Task", "HeartbeatSeconds": 1, "TimeoutSeconds": 60, "End": True}
    task["Catch"] = [wrong, {"ErrorEquals": [caught], "Next": "Caught"}]
    after = {"Caught": {"Type": "Pass", "End": True}, "Wrong": {"Type": "Fail"}}
    machine = states.create_state_machine(
        name=name,
        definition=json.dumps({"StartAt": "A", "States": {"A": task, **after}}),
        roleArn=ROLE,
    )["stateMachineArn"]
    if is_activity:
        states.start_execution(stateMachineArn=machine, input="{}")
        states.get_activity_task(activityArn=task["Resource"])
    done = run(cloud, machine) if not is_activity else _last(cloud, machine)
    assert (done["status"], json.loads(done["output"])["Error"]) == ("SUCCEEDED", "States.Timeout")


def _last(cloud: InProcessCloud, machine: str) -> dict[str, Any]:
    states = cloud.client("stepfunctions")
    execution = states.list_executions(stateMachineArn=machine)["executions"][0]["executionArn"]

    def described() -> dict[str, Any]:
        return states.describe_execution(executionArn=execution)

    wait_until(lambda: described()["status"] != "RUNNING", within_s=30, what="its end")
    return described()
