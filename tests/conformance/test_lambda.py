"""What AWS was recorded to answer, Lambda answers: every member of every answer. See `tests.conformance.scenarios`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.scenarios import Scenario, World, cases, check_told, load, play
from tests.support.clock import HandClock, SwiftClock
from tests.support.cloud import InProcessCloud
from tests.support.lambda_lab import LambdaLab

SCENARIOS = list(load(Path(__file__).parent / "lambda"))


class Objects:
    """As much of a client of S3 as puts packages where Lambda finds them."""

    def __init__(self, lab: LambdaLab) -> None:
        self._lab = lab

    def put_object(self, Bucket: str, Key: str, Body: bytes) -> dict[str, Any]:
        self._lab.box.put_object(Bucket, Key, Body)
        return {"ResponseMetadata": {"HTTPStatusCode": 200}}


def services(scenario: Scenario) -> set[str]:
    return {step.get("service", "lambda") for step in scenario["steps"]}


def waits(scenario: Scenario) -> bool:
    """Whether processes must get ready meanwhile, for which a clock moved by hand would be too fast."""
    return any("until" in step for step in scenario["steps"])


ALONE = [one for one in SCENARIOS if services(one) <= {"lambda", "s3"} and not waits(one)]
WITH_OTHERS = [one for one in SCENARIOS if one not in ALONE]


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[InProcessCloud, SwiftClock]]:
    """One cloud for all scenarios that need more than Lambda; each names what it makes in its own way."""
    clock = SwiftClock()
    with InProcessCloud(tmp_path_factory.mktemp("cloud") / "data", clock=clock) as cloud:
        cloud.cloud.moto.warm_up()
        yield cloud, clock


@pytest.mark.parametrize("scenario", cases(WITH_OTHERS))
def test_answers_with_other_services_are_awss(
    cloud: tuple[InProcessCloud, SwiftClock], scenario: Scenario
):
    world = World("lambda", cloud[0].client, cloud[1].advance, cloud[0].handle)
    assert play(scenario, world) == []


@pytest.mark.parametrize("scenario", cases(ALONE))
def test_answers_are_awss(tmp_path: Path, scenario: Scenario):
    clock = HandClock()
    with LambdaLab(tmp_path / "data", clock=clock) as lab:
        clients = {"lambda": lab.client(), "s3": Objects(lab)}
        world = World("lambda", clients.__getitem__, clock.advance, lab.handle)
        assert play(scenario, world) == []


def test_there_are_scenarios_enough_and_each_says_whence_it_is():
    check_told(SCENARIOS, 150)
