"""Every member that a call takes is read back, or it is said why not. See `tests.support.read_back`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.services.lambda_.actions import ACTIONS
from headrace.services.lambda_.api import FIDELITY
from tests.api.lambda_.read_back_cases import (
    CASES,
    FUNCTION,
    LEFT_OUT,
    LIST,
    MAPPING,
    NOT_KEPT,
    OTHER_SOURCES,
)
from tests.support.clock import HandClock
from tests.support.lambda_lab import LambdaLab
from tests.support.read_back import Case, check, never_given, not_read_back, overlooked
from tests.support.streams import STREAM_ARN


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    clock = HandClock()
    with LambdaLab(tmp_path / "data", clock=clock) as lab:
        yield lab


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.operation)
def test_what_a_call_takes_is_read_back(lab: LambdaLab, case: Case):
    client = lab.client()
    lines = check("lambda", case, client, FIDELITY, settle=lambda: lab.clock.advance(1))  # type: ignore[attr-defined]
    assert lines == []


def test_every_call_that_keeps_something_is_read_back():
    assert not_read_back("lambda", ACTIONS, CASES) == list(NOT_KEPT)
    assert overlooked("lambda", CASES) == []
    never = never_given("lambda", CASES)
    assert [name for name in never if name.partition(".")[2] not in _NEVER] == []


_NEVER = {
    *LEFT_OUT,
    "PublishTo",
    *OTHER_SOURCES,
    "ScalingConfig",
    "ProvisionedPollerConfig",
    "ImageUri",
    "S3Bucket",
    "S3Key",
}


def test_what_an_update_of_a_mapping_takes_is_read_back(lab: LambdaLab):
    client = lab.client()
    client.create_function(**FUNCTION[1])
    made = client.create_event_source_mapping(
        FunctionName="f", EventSourceArn=STREAM_ARN, StartingPosition="LATEST"
    )
    case = Case(
        "UpdateEventSourceMapping",
        [LIST],
        given={**MAPPING, "UUID": made["UUID"], "Enabled": False},
        without={**_updatable(), "DestinationConfig.OnSuccess": "refused"},
        named={"FunctionName": "FunctionArn"},
        unseen={"Enabled": "the State says it"},
    )
    assert check("lambda", case, client, FIDELITY) == []


def _updatable() -> dict[str, str]:
    not_updatable = ("Topics", "Queues", "SelfManagedEventSource")
    kept = {name: why for name, why in OTHER_SOURCES.items() if name not in not_updatable}
    return {**kept, **dict.fromkeys(("ScalingConfig", "ProvisionedPollerConfig"), "of queues")}
