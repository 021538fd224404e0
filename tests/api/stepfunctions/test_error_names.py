"""The error of a failed execution is AWS's: a name of the language, of a service or of a function, never Python's."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.stepfunctions.intrinsic_calls import NoCall
from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
PYTHONS = {name for name in dir(builtins) if isinstance(getattr(builtins, name), type)}
AT = f"us-east-1:{ACCOUNT}"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("names") / "data") as cloud:
        yield cloud


def made(cloud: InProcessCloud, name: str, state: dict[str, Any]) -> str:
    definition = {"StartAt": "A", "States": {"A": {"End": True, **state}}}
    machine = cloud.client("stepfunctions").create_state_machine(
        name=name, definition=json.dumps(definition), roleArn=ROLE
    )
    return machine["stateMachineArn"]


def ended(cloud: InProcessCloud, machine: str) -> dict[str, Any]:
    client = cloud.client("stepfunctions")
    execution = client.start_execution(
        stateMachineArn=machine, input=json.dumps({"text": "t", "list": [1]})
    )["executionArn"]

    def shown() -> dict[str, Any]:
        return client.describe_execution(executionArn=execution)

    wait_until(lambda: shown()["status"] != "RUNNING", within_s=30, what="its end")
    failed = [
        details["error"]
        for event in client.get_execution_history(executionArn=execution)["events"]
        for details in event.values()
        if isinstance(details, dict) and "error" in details
    ]
    return {**shown(), "errors": failed}


def task(resource: str, **parameters: Any) -> dict[str, Any]:
    return {"Type": "Task", "Resource": f"arn:aws:states:::{resource}", "Parameters": parameters}


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "intrinsic": (
        {"Type": "Pass", "Parameters": {"x.$": "States.StringToJson('{')"}},
        "States.IntrinsicFailure",
    ),
    "path": ({"Type": "Pass", "Parameters": {"x.$": "$.none"}}, "States.Runtime"),
    "wait": ({"Type": "Wait", "SecondsPath": "$.text"}, "States.Runtime"),
    "timeout": (
        {**task("sqs:sendMessage", QueueUrl="u", MessageBody="m"), "TimeoutSecondsPath": "$.text"},
        "States.Runtime",
    ),
    "function by its ARN": (
        {"Type": "Task", "Resource": f"arn:aws:lambda:{AT}:function:none"},
        "Lambda.ResourceNotFoundException",
    ),
    "function": (task("lambda:invoke", FunctionName="none"), "Lambda.ResourceNotFoundException"),
    "sdk": (
        task("aws-sdk:s3:getObject", Bucket="none-such", Key="k"),
        "S3.NoSuchBucketException",
    ),
    "activity": (
        {"Type": "Task", "Resource": f"arn:aws:states:{AT}:activity:none"},
        "States.Runtime",
    ),
    "events": (task("events:putEvents", Entries="x"), "States.Runtime"),
    "connection": (
        task(
            "http:invoke",
            ApiEndpoint="http://127.0.0.1:1/",
            Method="GET",
            Authentication={"ConnectionArn": f"arn:aws:events:{AT}:connection/x/y"},
        ),
        "States.Http.StatusCode.400",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_has_aws_s_name(cloud: InProcessCloud, name: str):
    state, error = CASES[name]
    done = ended(cloud, made(cloud, name.replace(" ", "-"), state))
    assert (done["status"], done["error"]) == ("FAILED", error), done
    assert PYTHONS.isdisjoint(done["errors"])


def test_a_stored_machine_that_cannot_be_read_fails_by_the_language_s_name(cloud: InProcessCloud):
    """As one that was stored before its check was there."""
    from moto.stepfunctions.models import stepfunctions_backends

    machine = made(cloud, "stored", {"Type": "Pass", "Parameters": {"x.$": "States.Array(1)"}})
    backend = stepfunctions_backends[ACCOUNT]["us-east-1"]
    (stored,) = (one for one in backend.state_machines if one.arn == machine)
    stored.definition = stored.definition.replace("States.Array(1)", "States.Array(1, a)")
    done = ended(cloud, machine)
    assert (done["status"], done["error"]) == ("FAILED", "States.Runtime")
    assert NoCall.__name__ not in done["cause"]
    assert "is not a valid intrinsic function call" in done["cause"]
