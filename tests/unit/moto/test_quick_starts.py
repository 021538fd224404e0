"""A plain StartExecution is answered without moto's handlers, and stores what they do; others are left to moto."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.moto import engine
from tests.support.clock import FakeClock
from tests.support.moto_lab import ACCOUNT, MotoLab
from tests.unit.moto.item_requests import COUNT, MOTOS_WAY
from tests.unit.moto.test_quick import ask


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoLab]:
    with MotoLab(tmp_path_factory.mktemp("starts") / "data", clock=FakeClock()) as lab:
        yield lab


@pytest.fixture
def motos_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that went moto's way."""
    went: list[str] = []
    run: Any = engine.run_entry

    def run_entry(entry: Any, *more: Any) -> Any:
        went.append(entry.headers.get("x-amz-target", ""))
        return run(entry, *more)

    monkeypatch.setattr(engine, "run_entry", run_entry)
    return went


MACHINE = {"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 600, "End": True}}}
STARTED = re.compile(r"[0-9]{10}\.[0-9]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.mark.parametrize(
    ("params", "is_quick"),
    [
        ({}, True),
        ({"name": "a-1_b", "input": '{"a": "ü"}'}, True),
        ({"name": None}, True),
        ({"name": "a b"}, False),
        ({"name": "a\n"}, False),
        ({"name": ""}, False),
        ({"name": "taken"}, False),
        ({"input": "no"}, False),
        ({"input": ""}, False),
        ({"input": {}}, False),
        ({"traceHeader": "Root=1-67a-0"}, False),
        ({"stateMachineArn": "arn:aws:states:us-east-1:000000000000:stateMachine:none"}, False),
        ({"stateMachineArn": "none"}, False),
    ],
)
def test_an_execution_is_started_as_by_moto(
    lab: MotoLab, motos_way: list[str], params: dict[str, Any], is_quick: bool
):
    states, answers, quick = lab.client("stepfunctions"), list[Any](), list[bool]()
    for agent in ("sdk", MOTOS_WAY):
        role = f"arn:aws:iam::{ACCOUNT}:role/r"
        arn = states.create_state_machine(
            name=f"m{next(COUNT)}", definition=json.dumps(MACHINE), roleArn=role
        )["stateMachineArn"]
        states.start_execution(stateMachineArn=arn, name="taken", input='{"other": 1}')
        motos_way.clear()
        whole = {"stateMachineArn": arn, **params}
        answer = ask(lab, "states", "StartExecution", whole, agent)
        quick.append(answer[0] == 200 and not motos_way)
        executions = states.list_executions(stateMachineArn=arn)["executions"]
        described = [
            states.describe_execution(executionArn=one["executionArn"]) for one in executions
        ]
        shown = [(one["name"], one["status"], one["input"]) for one in described]
        known = json.dumps([answer, sorted(shown)]).replace(arn.rpartition(":")[2], "m")
        answers.append(STARTED.sub("", known))
    assert answers[0] == answers[1]
    assert quick == [is_quick, False]


def test_a_quick_start_is_stored_whole(lab: MotoLab, motos_way: list[str]):
    states, role = lab.client("stepfunctions"), f"arn:aws:iam::{ACCOUNT}:role/r"
    arn = states.create_state_machine(
        name=f"m{next(COUNT)}", definition=json.dumps(MACHINE), roleArn=role
    )["stateMachineArn"]
    motos_way.clear()
    started = ask(lab, "states", "StartExecution", {"stateMachineArn": arn})
    assert (started[0], motos_way) == (200, [])
    lab.restart()
    described = lab.client("stepfunctions").describe_execution(
        executionArn=started[2]["executionArn"]
    )
    assert described["startDate"].timestamp() == pytest.approx(started[2]["startDate"], abs=0.001)
