"""Rollback triggers: alarms that are missing or go off roll an operation back, while it runs and for a time after it.

Documented: API_RollbackConfiguration, using-cfn-rollback-triggers.html. Which sentences tell of it is assumed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.services.cloudformation import backend
from headrace.services.cloudformation.deployment.alias_deployments import RollbackTriggers
from headrace.services.cloudformation.state import Stack
from tests.api.cloudformation.helpers import Lab, thing
from tests.api.cloudformation.test_stacks import create, refused, settled, status
from tests.support.clock import FakeClock
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

ALARM = "AWS::CloudWatch::Alarm"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("triggers") / "data") as cloud:
        yield cloud


@pytest.fixture(scope="module")
def cfn(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudformation")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab = Lab()
    lab.install(monkeypatch)
    monkeypatch.setattr(backend, "ANSWER_WITHIN_S", 0.0)
    return lab


def arn(name: str) -> str:
    return f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}"


def alarm(cloud: InProcessCloud, name: str, state: str = "OK") -> str:
    watch = cloud.client("cloudwatch")
    watch.put_metric_alarm(
        AlarmName=name, ComparisonOperator="GreaterThanThreshold", EvaluationPeriods=1,
        MetricName="m", Namespace=f"of/{name}", Period=60, Statistic="Sum", Threshold=1.0,
        # Without data it keeps the state that it is told.
        TreatMissingData="ignore",
    )  # fmt: skip
    set_state(cloud, name, state)
    return arn(name)


def set_state(cloud: InProcessCloud, name: str, state: str) -> None:
    cloud.client("cloudwatch").set_alarm_state(AlarmName=name, StateValue=state, StateReason="told")


def configured(*arns: str, minutes: int = 0) -> dict[str, Any]:
    triggers = [{"Arn": arn, "Type": ALARM} for arn in arns]
    return {
        "RollbackConfiguration": {"RollbackTriggers": triggers, "MonitoringTimeInMinutes": minutes}
    }


def body(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def reasons(cfn: Any, name: str) -> str:
    events = cfn.describe_stack_events(StackName=name)["StackEvents"]
    return "\n".join(event.get("ResourceStatusReason", "") for event in events)


def test_an_alarm_that_is_missing_fails_the_operation(cfn: Any, lab: Lab):
    given = configured(arn("nobody"))
    assert create(cfn, body(A=thing()), "missing", **given) == "ROLLBACK_COMPLETE"
    assert f"do not exist: [{arn('nobody')}]" in reasons(cfn, "missing")
    assert lab.calls == []


def test_an_alarm_that_goes_off_while_resources_are_made_rolls_back(
    cloud: InProcessCloud, cfn: Any, lab: Lab
):
    given = configured(alarm(cloud, "quiet"), alarm(cloud, "loud"))
    making = body(A=thing(), B=thing({"create": "wait"}, depends_on="A"))
    cfn.create_stack(StackName="making", TemplateBody=json.dumps(making), **given)
    assert lab.waiting.wait(10)
    assert status(cfn, "making") == "CREATE_IN_PROGRESS"
    set_state(cloud, "loud", "ALARM")
    assert settled(cfn, "making") == "ROLLBACK_COMPLETE"
    assert f"are in ALARM state: [{arn('loud')}]. Rollback requested" in reasons(cfn, "making")
    assert lab.made == set()


def test_the_triggers_stand_for_later_updates_until_others_are_given(
    cloud: InProcessCloud, cfn: Any, lab: Lab
):
    given = configured(alarm(cloud, "kept"))
    assert create(cfn, body(A=thing()), "later", **given) == "CREATE_COMPLETE"
    set_state(cloud, "kept", "ALARM")
    changed = json.dumps(body(A=thing(), B=thing()))
    cfn.update_stack(StackName="later", TemplateBody=changed)
    assert settled(cfn, "later") == "UPDATE_ROLLBACK_COMPLETE"
    assert len(lab.made) == 1
    none = {"RollbackConfiguration": {"RollbackTriggers": []}}
    cfn.update_stack(StackName="later", TemplateBody=changed, **none)
    assert settled(cfn, "later") == "UPDATE_COMPLETE"
    assert len(lab.made) == 2


def test_what_an_update_replaces_stays_until_its_monitoring_time_is_over(
    cloud: InProcessCloud, cfn: Any, lab: Lab
):
    assert create(cfn, body(A=thing(Key="1")), "monitored") == "CREATE_COMPLETE"
    before = set(lab.made)
    given = configured(alarm(cloud, "after"), minutes=180)
    changed = json.dumps(body(A=thing(Key="2")))
    cfn.update_stack(StackName="monitored", TemplateBody=changed, **given)
    wait_until(lambda: len(lab.made) == 2, what="the replacement")
    assert status(cfn, "monitored") == "UPDATE_IN_PROGRESS"
    set_state(cloud, "after", "ALARM")
    assert settled(cfn, "monitored") == "UPDATE_ROLLBACK_COMPLETE"
    assert lab.made == before
    # Without an alarm the time is for whoever looks at the stack, and cancels the update.
    cfn.update_stack(StackName="monitored", TemplateBody=changed, **configured(minutes=180))
    cfn.cancel_update_stack(StackName="monitored")
    assert settled(cfn, "monitored") == "UPDATE_ROLLBACK_COMPLETE"
    assert lab.made == before


@pytest.mark.parametrize("state", ["OK", "INSUFFICIENT_DATA"])
def test_the_monitoring_time_is_the_clock_s(state: str):
    clock, looks = FakeClock(), []

    def call(*_: Any, **__: Any) -> dict[str, Any]:
        looks.append(clock.monotonic_s())
        return {"MetricAlarms": [{"StateValue": state}], "CompositeAlarms": []}

    stack = Stack("i", "s", ACCOUNT, REGION, "UPDATE_IN_PROGRESS", 0)
    stack.rollback_configuration = configured(arn("a"), minutes=2)["RollbackConfiguration"]
    ports: Any = SimpleNamespace(clock=clock, control=SimpleNamespace(call=call))
    began_s = clock.monotonic_s()
    assert RollbackTriggers(ports, stack).monitor(threading.Event()) is None
    assert clock.monotonic_s() - began_s == pytest.approx(120)
    assert len(looks) > 100


@pytest.mark.parametrize("wrong", ["nonsense:alarm:x", "arn:aws:sns:us-east-1:1:topic"])
def test_what_is_no_alarm_is_refused(cfn: Any, wrong: str):
    found = refused(
        cfn.create_stack,
        StackName="wrong",
        TemplateBody=json.dumps(body(A={"Type": "AWS::SQS::Queue"})),
        **configured(wrong),
    )
    assert found == ("ValidationError", "RelativeId of a Rollback Trigger's ARN is incorrect")
