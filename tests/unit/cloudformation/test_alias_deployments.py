"""Deployments of Lambda aliases: calls move step by step, hooks and alarms decide, a failure gives all calls back."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from headrace.core.ids import Ids
from headrace.core.ports import FunctionNotFound, InvokeResult
from headrace.services.cloudformation.deployment.alias_deployments import (
    ALIAS,
    POLICY,
    AliasDeployment,
    alias_policy,
    steps_of,
)
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.resources.base import Context, ResourceResult
from headrace.services.cloudformation.signals import Signal, Signals, receiver_of
from tests.support.clock import FakeClock

CANARY = "CodeDeployDefault.LambdaCanary10Percent5Minutes"
NAMED = {"ApplicationName": "a", "DeploymentGroupName": "g"}
OLD = {"FunctionName": "f", "Name": "live", "FunctionVersion": "1"}
NEW = {**OLD, "FunctionVersion": "2"}


class Lab:
    """A deployment group, an alarm, and functions that answer as `answers` say; what the alias got is in `moves`."""

    def __init__(self, config: str = CANARY, answers: dict[str, str] | None = None) -> None:
        self.config = config
        self.answers = answers or {}
        self.clock = FakeClock()
        self.signals = Signals()
        self.alarm = "OK"
        self.alarm_from = 2
        self.looks = 0
        self.hooks: list[str] = []
        # When, to which version, and how much to another one.
        self.moves: list[tuple[int, str, dict[str, float]]] = []

    def call(self, service: str, operation: str, params: Any, **_: Any) -> dict[str, Any]:
        if operation == "DescribeAlarms":
            self.looks += 1
            state = self.alarm if self.looks >= self.alarm_from else "OK"
            return {"MetricAlarms": [{"AlarmName": "bell", "StateValue": state}]}
        assert (service, operation) == ("codedeploy", "GetDeploymentGroup")
        alarms = {"enabled": True, "alarms": [{"name": "bell"}]}
        group = {"deploymentConfigName": self.config, "alarmConfiguration": alarms}
        return {"deploymentGroupInfo": group}

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        name = function_arn.rpartition(":")[2]
        self.hooks.append(name)
        assert set(json.loads(payload)) == {"DeploymentId", "LifecycleEventHookExecutionId"}
        answer = self.answers[name]
        if answer == "missing":
            raise FunctionNotFound
        if answer in ("SUCCESS", "FAILURE"):
            self.signals.send(receiver_of("stack", "Alias"), Signal(name, answer))
        error = "Unhandled" if answer == "raises" else None
        return InvokeResult(b"{}", error, "1", "r")

    def change(self, _: Context, physical_id: str, old: Any, new: Any) -> ResourceResult:
        routed = new.get("RoutingConfig", {}).get("AdditionalVersionWeights", [])
        weights = {each["FunctionVersion"]: each["FunctionWeight"] for each in routed}
        self.moves.append((int(self.clock.monotonic_s()), new["FunctionVersion"], weights))
        return ResourceResult(physical_id)

    def deploy(self, new: dict[str, Any] = NEW, **policy: str) -> ResourceResult:
        context = Context(
            control=self,
            clock=self.clock,
            ids=Ids(7),
            account="000000000000",
            region="us-east-1",
            stack_name="s",
            stack_id="stack",
            logical_id="Alias",
            tags={},
            endpoint_url="",
            responses=None,  # type: ignore[arg-type]
            functions=self,
            stop=threading.Event(),
            note_made=lambda _: None,
            signals=self.signals,
        )
        self.began = int(self.clock.monotonic_s())
        return AliasDeployment({**NAMED, **policy}, self.change).update(context, "arn", OLD, new)

    @property
    def after(self) -> list[tuple[int, str, dict[str, float]]]:
        return [(at - self.began, version, weights) for at, version, weights in self.moves]


def test_a_canary_gets_a_tenth_of_the_calls_and_then_all():
    lab = Lab()
    assert lab.deploy().physical_id == "arn"
    assert lab.after == [(0, "1", {"2": 0.1}), (300, "2", {})]


def test_a_linear_deployment_goes_on_by_tenths():
    lab = Lab("CodeDeployDefault.LambdaLinear10PercentEvery1Minute")
    lab.deploy()
    assert lab.after == [
        *((60 * n, "1", {"2": pytest.approx((n + 1) / 10)}) for n in range(9)),
        (540, "2", {}),
    ]


@pytest.mark.parametrize("config", ["", "CodeDeployDefault.LambdaAllAtOnce"])
def test_all_calls_go_over_at_once(config: str):
    lab = Lab(config)
    lab.deploy()
    assert lab.after == [(0, "2", {})]


def test_hooks_run_before_and_after():
    lab = Lab(answers={"before": "SUCCESS", "after": "SUCCESS"})
    lab.deploy(BeforeAllowTrafficHook="before", AfterAllowTrafficHook="after")
    assert lab.hooks == ["before", "after"]
    assert len(lab.moves) == 2


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("FAILURE", "said that it failed"),
        ("raises", "failed before it answered"),
        ("missing", "Function not found"),
        ("silent", "did not answer within an hour"),
    ],
)
def test_a_hook_that_does_not_say_yes_ends_it(answer: str, sentence: str):
    lab = Lab(answers={"hook": answer})
    with pytest.raises(ResourceFailed, match=sentence):
        lab.deploy(BeforeAllowTrafficHook="hook")
    assert lab.moves == []
    with pytest.raises(ResourceFailed, match=sentence):
        lab.deploy(AfterAllowTrafficHook="hook")
    assert lab.moves[-1][1:] == ("1", {})


def test_an_alarm_gives_all_calls_back():
    lab = Lab()
    lab.alarm = "ALARM"
    with pytest.raises(ResourceFailed, match=r"\[bell\]"):
        lab.deploy()
    assert lab.after == [(0, "1", {"2": 0.1}), (60, "1", {})]


def test_what_leaves_the_version_is_no_deployment():
    lab = Lab(answers={"hook": "FAILURE"})
    lab.deploy({**OLD, "Description": "d"}, BeforeAllowTrafficHook="hook")
    assert (lab.hooks, len(lab.moves)) == ([], 1)


@pytest.mark.parametrize("policy", [{"ApplicationName": ""}, {"Hook": "x"}])
def test_a_policy_says_all_it_must_and_no_more(policy: dict[str, str]):
    with pytest.raises(ResourceFailed):
        Lab().deploy(NEW, **policy)


def test_the_policy_is_an_alias_s():
    update = {"UpdatePolicy": {POLICY: NAMED}}
    assert alias_policy({"Type": ALIAS, **update}) == NAMED
    assert alias_policy({"Type": "AWS::SQS::Queue", **update}) is None
    assert alias_policy({"Type": ALIAS}) is None
    with pytest.raises(TemplateError):
        alias_policy({"Type": ALIAS, "UpdatePolicy": {POLICY: "x"}})


def test_only_codedeploys_own_configurations_are_known():
    with pytest.raises(ResourceFailed, match="mine"):
        steps_of("mine")
