"""Wait conditions, their handles' addresses, creation policies and SignalResource.

Documented: the user guide's using-cfn-waitcondition.html and aws-attribute-creationpolicy.html. The sentences of
failures were observed by many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.aws.calls.http import HttpRequest
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.signals import (
    ExpectedSignals,
    Signal,
    Signals,
    creation_policy,
    receiver_of,
    signal_in,
    wait_for,
)
from headrace.services.cloudformation.state import Stack
from tests.api.cloudformation.test_stacks import physical, refused, settled, status
from tests.support.clock import FakeClock
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("signals")) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def cfn(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudformation")


def waiting(**properties: Any) -> dict[str, Any]:
    condition = {"Handle": {"Ref": "Handle"}, "Timeout": "60", **properties}
    return {
        "Resources": {
            "Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
            "Wait": {"Type": "AWS::CloudFormation::WaitCondition", "Properties": condition},
        },
        "Outputs": {"Data": {"Value": {"Fn::GetAtt": ["Wait", "Data"]}}},
    }


def by_policy(policy: dict[str, Any]) -> dict[str, Any]:
    wait = {
        "Type": "AWS::CloudFormation::WaitCondition",
        "CreationPolicy": {"ResourceSignal": policy},
    }
    return {"Resources": {"Wait": wait}}


def begin(cfn: Any, name: str, body: dict[str, Any]) -> None:
    """Begin to create a stack; return when its condition waits."""
    cfn.create_stack(StackName=name, TemplateBody=json.dumps(body))

    def waits() -> bool:
        found = cfn.list_stack_resources(StackName=name)["StackResourceSummaries"]
        return any(each["LogicalResourceId"] == "Wait" for each in found)

    wait_until(waits, what="the condition")


def put(cloud: InProcessCloud, url: str, **signal: Any) -> int:
    path = urlsplit(url).path
    body = json.dumps({"Reason": "r", **signal}).encode()
    return cloud.handle(HttpRequest("PUT", path, "", {}, body)).status


def reasons(cfn: Any, name: str) -> list[str]:
    events = cfn.describe_stack_events(StackName=name)["StackEvents"]
    return [e.get("ResourceStatusReason", "") for e in events if e["LogicalResourceId"] == "Wait"]


def test_a_condition_waits_for_its_signals_and_has_their_data(cloud: InProcessCloud, cfn: Any):
    begin(cfn, "two", waiting(Count=2))
    url = physical(cfn, "Handle", "two")
    assert put(cloud, url, Status="SUCCESS", UniqueId="a", Data="1") == 200
    assert put(cloud, url, Status="SUCCESS", UniqueId="a", Data="1") == 200
    assert put(cloud, url, Status="MAYBE", UniqueId="b") == 404
    assert put(cloud, f"{url}x", Status="SUCCESS", UniqueId="b") == 404
    assert status(cfn, "two") == "CREATE_IN_PROGRESS"
    assert put(cloud, url, Status="SUCCESS", UniqueId="b", Data="2") == 200
    assert settled(cfn, "two") == "CREATE_COMPLETE"
    (output,) = cfn.describe_stacks(StackName="two")["Stacks"][0]["Outputs"]
    assert json.loads(output["OutputValue"]) == {"a": "1", "b": "2"}
    # What was waited for cannot be changed.
    cfn.update_stack(StackName="two", TemplateBody=json.dumps(waiting(Count=3)))
    assert settled(cfn, "two") == "UPDATE_ROLLBACK_COMPLETE"
    assert any("is not supported" in reason for reason in reasons(cfn, "two"))
    cfn.delete_stack(StackName="two")
    assert put(cloud, url, Status="SUCCESS", UniqueId="c") == 404


def test_a_failure_or_the_end_of_the_time_fails_the_condition(cloud: InProcessCloud, cfn: Any):
    begin(cfn, "failed", waiting())
    url = physical(cfn, "Handle", "failed")
    put(cloud, url, Status="FAILURE", UniqueId="i", Reason="no disk")
    assert settled(cfn, "failed") == "ROLLBACK_COMPLETE"
    assert "WaitCondition received failed message: 'no disk' for uniqueId: i" in reasons(
        cfn, "failed"
    )
    begin(cfn, "late", waiting(Timeout=0))
    assert settled(cfn, "late") == "ROLLBACK_COMPLETE"
    assert "WaitCondition timed out. Received 0 conditions when expecting 1" in reasons(cfn, "late")
    begin(cfn, "wrong", waiting(Timeout=43_201))
    assert settled(cfn, "wrong") == "ROLLBACK_COMPLETE"


def test_a_creation_policy_waits_for_signals(cfn: Any):
    begin(cfn, "policy", by_policy({"Count": 2, "Timeout": "PT10M"}))
    sent = {"StackName": "policy", "LogicalResourceId": "Wait", "Status": "SUCCESS"}
    cfn.signal_resource(UniqueId="a", **sent)
    assert refused(cfn.signal_resource, UniqueId="a", **sent) == (
        "ValidationError",
        "Signal with ID a for resource Wait already exists. Signals may only be updated with a FAILURE status.",
    )
    assert refused(cfn.signal_resource, **{**sent, "LogicalResourceId": "X"}, UniqueId="b")[0]
    cfn.signal_resource(UniqueId="b", **sent)
    assert settled(cfn, "policy") == "CREATE_COMPLETE"
    assert "Received SUCCESS signal with UniqueId a" in reasons(cfn, "policy")
    assert not any("no machines" in reason for reason in reasons(cfn, "policy"))
    code, message = refused(cfn.signal_resource, UniqueId="c", **sent)
    assert (code, message.endswith("is in CREATE_COMPLETE state and can not be signaled.")) == (
        "ValidationError",
        True,
    )

    begin(cfn, "unmet", by_policy({}))
    cfn.signal_resource(StackName="unmet", LogicalResourceId="Wait", UniqueId="a", Status="FAILURE")
    assert settled(cfn, "unmet") == "ROLLBACK_COMPLETE"
    assert any("Received 1 FAILURE signal(s) out of 1." in r for r in reasons(cfn, "unmet"))


def _machine(**more: Any) -> dict[str, Any]:
    properties = {"ImageId": "ami-12c6146b", "InstanceType": "t3.micro"}
    return {"Type": "AWS::EC2::Instance", "Properties": properties, **more}


def _has_reason(cfn: Any, name: str, part: str) -> None:
    wait_until(lambda: any(part in reason for reason in reasons(cfn, name)), what=part)


def test_that_no_instance_sends_a_signal_is_said_at_once_and_anybody_may_send_it(cfn: Any):
    policy = {"ResourceSignal": {"Count": 1, "Timeout": "PT10M"}}
    begin(cfn, "machine", {"Resources": {"Wait": _machine(CreationPolicy=policy)}})
    _has_reason(
        cfn, "machine", "no instance sends the 1 signal(s) that this resource waits for (600 s"
    )
    _has_reason(cfn, "machine", "--stack-name machine --logical-resource-id Wait ")
    # What else an instance does not do here is said in the stack's events, too.
    _has_reason(cfn, "machine", "headrace has no machines: instances are stored")
    sent = {"StackName": "machine", "LogicalResourceId": "Wait", "Status": "SUCCESS"}
    cfn.signal_resource(UniqueId="i-1", **sent)
    assert settled(cfn, "machine") == "CREATE_COMPLETE"


def test_a_condition_beside_an_instance_says_how_to_signal_it(cloud: InProcessCloud, cfn: Any):
    body = waiting()
    body["Resources"]["Machine"] = _machine()
    body["Resources"]["Wait"]["DependsOn"] = "Machine"
    begin(cfn, "beside", body)
    url = physical(cfn, "Handle", "beside")
    _has_reason(cfn, "beside", "no instance signals this condition. If nothing else does, send")
    _has_reason(cfn, "beside", f"'{url}'")
    assert put(cloud, url, Status="SUCCESS", UniqueId="a") == 200
    assert settled(cfn, "beside") == "CREATE_COMPLETE"


def test_a_stack_that_waits_can_be_deleted(cfn: Any):
    begin(cfn, "given-up", waiting())
    stack_id = cfn.describe_stacks(StackName="given-up")["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName="given-up")
    assert settled(cfn, stack_id) == "DELETE_COMPLETE"


def test_the_time_is_the_clock_s():
    clock = FakeClock()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(600)

    found = wait_for(
        Signals(),
        "r",
        ExpectedSignals(1, 1200),
        monotonic_s=clock.monotonic_s,
        pause=pause,
        on_signal=lambda _: None,
    )
    assert (found, len(pauses)) == ([], 2)


@pytest.mark.parametrize("timeout", ["5M", "PT", "PT5", "PT1D", "PT13H", "PT99999999999S"])
def test_durations_that_are_none_are_refused(timeout: str):
    definition = {
        "Type": "AWS::CloudFormation::WaitCondition",
        "CreationPolicy": {"ResourceSignal": {"Timeout": timeout}},
    }
    with pytest.raises(TemplateError):
        creation_policy(definition, lambda value: value)


def test_signals_that_are_none_are_not_taken():
    assert signal_in(b'{"Status": "SUCCESS", "UniqueId": "a"}') == Signal("a", "SUCCESS")
    for body in (
        b"",
        b"[]",
        b'{"Status": "SUCCESS"}',
        b'{"Status": "X", "UniqueId": "a"}',
        b"1" * 5000,
    ):
        assert signal_in(body) is None


def test_a_signal_that_comes_with_the_first_event_counts(
    cloud: InProcessCloud, cfn: Any, monkeypatch: pytest.MonkeyPatch
):
    service = cloud.cloud.cloudformation

    def told(stack: Stack, event: Mapping[str, Any]) -> None:
        if (event["LogicalResourceId"], event["ResourceStatus"]) == ("Wait", "CREATE_IN_PROGRESS"):
            receiver = receiver_of(stack.stack_id, "Wait")
            service.operations.ports.signals.send(receiver, Signal("early", "SUCCESS"))

    monkeypatch.setattr(service.stacks, "_on_event", told)
    body = by_policy({"Count": 1, "Timeout": "PT5S"})
    cfn.create_stack(StackName="early", TemplateBody=json.dumps(body))
    assert settled(cfn, "early") == "CREATE_COMPLETE"
