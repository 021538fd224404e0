"""A task's `Credentials`: its call is made as their role, which the machine's role must be let assume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import wait_until

ROLES = f"arn:aws:iam::{ACCOUNT}:role"
SENTENCE = "The role {} is not authorized to assume the task state's role, {}."
SEND = {"Resource": "arn:aws:states:::sqs:sendMessage"}
PATH = {
    "Parameters": {"QueueUrl.$": "$.url", "MessageBody": "m"},
    "Credentials": {"RoleArn.$": "$.role"},
}
JSONATA = {
    "QueryLanguage": "JSONata",
    "Arguments": {"QueueUrl": "{% $states.input.url %}", "MessageBody": "m"},
    "Credentials": {"RoleArn": "{% $states.input.role %}"},
}  # fmt: skip


def statement(action: str, resource: str) -> dict[str, str]:
    return {"Effect": "Allow", "Action": action, "Resource": resource}


def make_role(iam: Any, name: str, trusted: dict[str, str], *allowed: dict[str, str]) -> str:
    trust = {"Effect": "Allow", "Principal": trusted, "Action": "sts:AssumeRole"}
    document = {"Version": "2012-10-17", "Statement": [trust]}
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(document))
    if allowed:
        policy = {"Version": "2012-10-17", "Statement": [*allowed]}
        iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
    return f"{ROLES}/{name}"


class Lab:
    """A queue, machines whose role may assume others' and nothing else, and roles to assume."""

    def __init__(self, cloud: InProcessCloud) -> None:
        iam, self.states = cloud.client("iam"), cloud.client("stepfunctions")
        self.url = cloud.client("sqs").create_queue(QueueName="q")["QueueUrl"]
        allowed = statement("sts:AssumeRole", "*")
        self.own = make_role(iam, "machine", {"Service": "states.amazonaws.com"}, allowed)
        send = statement("sqs:SendMessage", "*")
        self.sender = make_role(iam, "sender", {"AWS": self.own}, send)
        self.idle = make_role(iam, "idle", {"AWS": self.own})
        self.others = make_role(iam, "others", {"AWS": f"{ROLES}/idle"}, send)

    def run(self, state: dict[str, Any], role: str) -> dict[str, Any]:
        definition = {"StartAt": "A", "States": {"A": {"Type": "Task", "End": True, **state}}}
        machine = self.states.create_state_machine(
            name=f"m{hash(json.dumps([state, role])) & 0xFFFFFFFF}",
            definition=json.dumps(definition),
            roleArn=self.own,
        )["stateMachineArn"]
        asked = json.dumps({"url": self.url, "role": role})
        execution = self.states.start_execution(stateMachineArn=machine, input=asked)
        arn = execution["executionArn"]
        described = lambda: self.states.describe_execution(executionArn=arn)  # noqa: E731
        wait_until(lambda: described()["status"] != "RUNNING", within_s=60, what="its end")
        return described()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("credentials") / "data"
    with InProcessCloud(folder, iam="enforce") as cloud:
        yield Lab(cloud)


@pytest.mark.parametrize("more", [PATH, JSONATA])
def test_the_call_is_made_as_the_role_of_the_input(lab: Lab, more: dict[str, Any]):
    assert lab.run({**SEND, **more}, lab.sender)["status"] == "SUCCEEDED"
    refused = lab.run({**SEND, **more}, lab.idle)
    assert refused["status"] == "FAILED"
    assert "/idle" in refused["cause"]


@pytest.mark.parametrize(
    "resource", [SEND["Resource"], f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:f"]
)
def test_a_role_that_does_not_trust_the_machines_is_not_assumed(lab: Lab, resource: str):
    for role in (lab.others, f"{ROLES}/missing", "no role"):
        refused = lab.run({**PATH, "Resource": resource}, role)
        assert (refused["status"], refused["error"]) == ("FAILED", "States.TaskFailed")
        assert refused["cause"] == SENTENCE.format(lab.own, role)


def test_a_static_role_is_taken_without_a_question_when_permissions_are_not_enforced(
    tmp_path: Path,
):
    with InProcessCloud(tmp_path / "data") as cloud:
        lab = Lab(cloud)
        static = {**SEND, **PATH, "Credentials": {"RoleArn": lab.others}}
        assert lab.run(static, "")["status"] == "SUCCEEDED"
