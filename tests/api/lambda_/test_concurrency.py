"""Reserved and provisioned concurrency, as limits and as processes that are warm before they are needed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.lambda_.errors import Throttled
from headrace.services.lambda_.invocations.pools import ACCOUNT_REACHED, Concurrency
from tests.support.lambda_lab import LambdaLab
from tests.support.processes import WHO, is_running
from tests.support.server import wait_until

TYPE = "import os\ndef handler(e, c):\n    return os.environ['AWS_LAMBDA_INITIALIZATION_TYPE']\n"
WAITS = (
    "import pathlib, time\ndef handler(event, context):\n"
    "    pathlib.Path(event, 'started').touch()\n"
    "    while not pathlib.Path(event, 'go').exists(): time.sleep(0.005)\n"
)


def publish(lab: LambdaLab, name: str, source: str) -> None:
    lab.create(name, source)
    lab.client().publish_version(FunctionName=name)


def refused(call: Any, **members: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call(**members)
    return caught.value.response


def ready(lab: LambdaLab, name: str, qualifier: str) -> dict[str, Any]:
    client = lab.client()

    def state() -> dict[str, Any] | None:
        config = client.get_provisioned_concurrency_config(FunctionName=name, Qualifier=qualifier)
        return config if config["Status"] != "IN_PROGRESS" else None

    return wait_until(state, what="provisioned concurrency")


# --- reserved ---------------------------------------------------------------------------------


def test_one_more_than_reserved_is_throttled_with_its_reason(lab: LambdaLab) -> None:
    lab.create("one", WAITS)
    lab.client().put_function_concurrency(FunctionName="one", ReservedConcurrentExecutions=1)
    place = lab.place / "place"
    place.mkdir()
    payload = json.dumps(str(place)).encode()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(lab.lambda_.invoker.invoke, "one", payload)
        wait_until((place / "started").exists, what="the first invocation")
        response = refused(lab.client().invoke, FunctionName="one", Payload=payload)
        (place / "go").touch()
        assert running.result(10).function_error is None
    assert response["Error"]["Code"] == "TooManyRequestsException"
    assert response["Reason"] == "ReservedFunctionConcurrentInvocationLimitExceeded"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 429
    assert lab.lambda_.invoker.invoke("one", payload).function_error is None


def test_who_reserves_more_gets_more_processes(lab: LambdaLab) -> None:
    source = (
        "import os, pathlib, time\ndef handler(event, context):\n"
        "    pathlib.Path(event, context.aws_request_id).touch()\n"
        "    while len(os.listdir(event)) < 12: time.sleep(0.005)\n"
    )
    lab.create("many", source, Timeout=60)
    lab.client().put_function_concurrency(FunctionName="many", ReservedConcurrentExecutions=12)
    place = lab.place / "place"
    place.mkdir()
    payload = json.dumps(str(place)).encode()
    with ThreadPoolExecutor(12) as threads:
        running = [threads.submit(lab.lambda_.invoker.invoke, "many", payload) for _ in range(12)]
        assert [each.result(60).function_error for each in running] == [None] * 12


def test_reservations_leave_a_hundred_to_the_account(lab: LambdaLab) -> None:
    lab.create("greedy", WHO)
    put = lab.client().put_function_concurrency
    response = refused(put, FunctionName="greedy", ReservedConcurrentExecutions=901)
    assert response["Error"]["Code"] == "InvalidParameterValueException"
    assert "below its minimum value of [100]" in response["Error"]["Message"]
    put(FunctionName="greedy", ReservedConcurrentExecutions=900)
    limit = lab.client().get_account_settings()["AccountLimit"]
    assert limit["UnreservedConcurrentExecutions"] == 100


def test_functions_without_a_reservation_share_the_accounts(lab: LambdaLab) -> None:
    lab.create("a", WHO)
    lab.create("b", WHO)
    limits = Concurrency(lab.lambda_.functions, account_limit=2)
    a, b = lab.lambda_.functions.all("000000000000", "us-east-1")
    slots = [limits.take(function, None, function.latest) for function in (a, b)]
    with pytest.raises(Throttled) as caught:
        limits.take(a, None, a.latest)
    assert caught.value.reason == ACCOUNT_REACHED
    for slot in slots:
        limits.give_back(slot)
    assert limits.take(a, None, a.latest).running == 1


# --- provisioned ------------------------------------------------------------------------------


def test_provisioned_processes_are_started_before_they_are_invoked(lab: LambdaLab) -> None:
    publish(lab, "warm", TYPE)
    answer = lab.client().put_provisioned_concurrency_config(
        FunctionName="warm", Qualifier="1", ProvisionedConcurrentExecutions=2
    )
    assert answer["Status"] == "IN_PROGRESS"
    assert answer["RequestedProvisionedConcurrentExecutions"] == 2
    state = ready(lab, "warm", "1")
    assert state["Status"] == "READY"
    assert state["AllocatedProvisionedConcurrentExecutions"] == 2
    assert lab.lambda_.invoker.invoke("warm:1", b"{}").payload == b'"provisioned-concurrency"'
    assert not any("Init Duration" in line for line in lab.logs.messages())
    assert "ProvisionedConcurrencyInvocations" in {m.name for m in lab.metrics.metrics}
    assert lab.lambda_.invoker.invoke("warm", b"{}").payload == b'"on-demand"'


def test_provisioned_processes_do_not_expire(
    lab: LambdaLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(lab, "stays", WHO)
    lab.client().put_provisioned_concurrency_config(
        FunctionName="stays", Qualifier="1", ProvisionedConcurrentExecutions=1
    )
    ready(lab, "stays", "1")
    name = lab.lambda_.invoker.invoke("stays:1", b"{}").payload.decode()
    monkeypatch.setattr("headrace.services.lambda_.invocations.pools.SANDBOX_IDLE_SECONDS", 0)
    lab.lambda_.pools.step()
    assert lab.lambda_.invoker.invoke("stays:1", b"{}").payload.decode() == name
    lab.client().delete_provisioned_concurrency_config(FunctionName="stays", Qualifier="1")
    assert not is_running(name)


def test_a_function_that_cannot_start_fails_to_be_provisioned(lab: LambdaLab) -> None:
    publish(lab, "broken", "1 / 0\n")
    lab.client().put_provisioned_concurrency_config(
        FunctionName="broken", Qualifier="1", ProvisionedConcurrentExecutions=1
    )
    state = ready(lab, "broken", "1")
    assert state["Status"] == "FAILED"
    assert state["StatusReason"] == "FUNCTION_ERROR_INIT_FAILURE"


def test_provisioned_concurrency_of_an_alias_lasts_over_a_restart(lab: LambdaLab) -> None:
    publish(lab, "alias", TYPE)
    lab.client().create_alias(FunctionName="alias", Name="live", FunctionVersion="1")
    lab.client().put_provisioned_concurrency_config(
        FunctionName="alias", Qualifier="live", ProvisionedConcurrentExecutions=1
    )
    lab.restart()
    assert ready(lab, "alias", "live")["Status"] == "READY"
    listed = lab.client().list_provisioned_concurrency_configs(FunctionName="alias")
    (config,) = listed["ProvisionedConcurrencyConfigs"]
    assert config["FunctionArn"].endswith(":function:alias:live")
    assert lab.lambda_.invoker.invoke("alias:live", b"{}").payload == b'"provisioned-concurrency"'
    lab.client().delete_alias(FunctionName="alias", Name="live")
    listed = lab.client().list_provisioned_concurrency_configs(FunctionName="alias")
    assert listed["ProvisionedConcurrencyConfigs"] == []


def test_provisioned_concurrency_moves_with_its_alias(
    lab: LambdaLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(lab, "moves", WHO)
    client = lab.client()
    client.create_alias(FunctionName="moves", Name="live", FunctionVersion="1")
    client.put_provisioned_concurrency_config(
        FunctionName="moves", Qualifier="live", ProvisionedConcurrentExecutions=1
    )
    ready(lab, "moves", "live")
    old = lab.lambda_.invoker.invoke("moves:live", b"{}").payload.decode()
    client.update_function_configuration(FunctionName="moves", Timeout=11)
    lab.settled("moves")
    client.publish_version(FunctionName="moves")
    client.update_alias(FunctionName="moves", Name="live", FunctionVersion="2")
    assert ready(lab, "moves", "live")["Status"] == "READY"
    new = lab.lambda_.invoker.invoke("moves:live", b"{}").payload.decode()
    assert new != old
    monkeypatch.setattr("headrace.services.lambda_.invocations.pools.SANDBOX_IDLE_SECONDS", 0)
    lab.lambda_.pools.step()
    assert not is_running(old)
    assert is_running(new)


@pytest.mark.parametrize(
    ("members", "code", "message"),
    [
        ({"Qualifier": "$LATEST"}, "InvalidParameterValueException", "unpublished"),
        ({"Qualifier": "7"}, "ResourceNotFoundException", "Function not found"),
        ({"Qualifier": "other"}, "ResourceNotFoundException", "Cannot find alias arn"),
        ({"ProvisionedConcurrentExecutions": 0}, "ValidationException", "greater than or equal"),
        (
            {"ProvisionedConcurrentExecutions": 901},
            "InvalidParameterValueException",
            "below its minimum value of [100]",
        ),
        (
            {"ProvisionedConcurrentExecutions": 1001},
            "InvalidParameterValueException",
            "unreserved concurrency [1000]",
        ),
    ],
)
def test_bad_provisioned_concurrency_is_refused(
    lab: LambdaLab, members: dict[str, Any], code: str, message: str
) -> None:
    publish(lab, "f", WHO)
    wanted = {"FunctionName": "f", "Qualifier": "1", "ProvisionedConcurrentExecutions": 1}
    response = refused(lab.client().put_provisioned_concurrency_config, **{**wanted, **members})
    assert response["Error"]["Code"] == code
    assert message in response["Error"]["Message"]


def test_provisioned_and_reserved_concurrency_bind_each_other(lab: LambdaLab) -> None:
    publish(lab, "f", WHO)
    client = lab.client()
    client.put_function_concurrency(FunctionName="f", ReservedConcurrentExecutions=2)
    response = refused(
        client.put_provisioned_concurrency_config,
        FunctionName="f", Qualifier="1", ProvisionedConcurrentExecutions=3,
    )  # fmt: skip
    assert "reservedConcurrentExecution" in response["Error"]["Message"]
    client.put_provisioned_concurrency_config(
        FunctionName="f", Qualifier="1", ProvisionedConcurrentExecutions=2
    )
    response = refused(
        client.put_function_concurrency, FunctionName="f", ReservedConcurrentExecutions=1
    )
    assert "total provisioned concurrency [2]" in response["Error"]["Message"]


def test_what_is_not_provisioned_runs_beside_it_until_the_reservation_is_full(
    lab: LambdaLab,
) -> None:
    publish(lab, "f", WAITS)
    client = lab.client()
    client.put_function_concurrency(FunctionName="f", ReservedConcurrentExecutions=2)
    client.put_provisioned_concurrency_config(
        FunctionName="f", Qualifier="1", ProvisionedConcurrentExecutions=1
    )
    place = lab.place / "place"
    place.mkdir()
    payload = json.dumps(str(place)).encode()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(lab.lambda_.invoker.invoke, "f", payload)
        wait_until((place / "started").exists, what="the first invocation")
        response = refused(client.invoke, FunctionName="f", Payload=payload)
        (place / "go").touch()
        assert client.invoke(FunctionName="f", Qualifier="1", Payload=payload)["StatusCode"] == 200
        assert running.result(10).function_error is None
    assert response["Reason"] == "ReservedFunctionConcurrentInvocationLimitExceeded"


def test_no_configuration_is_said_to_be_none(lab: LambdaLab) -> None:
    publish(lab, "f", WHO)
    response = refused(
        lab.client().get_provisioned_concurrency_config, FunctionName="f", Qualifier="1"
    )
    assert response["Error"]["Code"] == "ProvisionedConcurrencyConfigNotFoundException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 404
