"""What AWS was seen to answer, Kinesis answers: every member of every answer. See `tests.conformance.scenarios`.

A scenario with `auth` is played with --auth only, one with `both` with it and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.api.kinesis.conftest import StillClock
from tests.conformance.scenarios import Scenario, World, cases, check_told, load, play
from tests.support.cloud import InProcessCloud

SCENARIOS = list(load(Path(__file__).parent / "kinesis"))


def _world(data_dir: Path, *, auth: bool) -> Iterator[tuple[World, InProcessCloud]]:
    clock = StillClock()
    with InProcessCloud(data_dir, clock=clock, auth=auth) as cloud:
        client = cloud.client("kinesis")

        def send(request: HttpRequest) -> HttpResponse:
            return cloud.handle(request)

        yield World("kinesis", lambda _: client, clock.advance, send), cloud


@pytest.fixture(scope="module")
def open_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, InProcessCloud]]:
    yield from _world(tmp_path_factory.mktemp("open") / "data", auth=False)


@pytest.fixture(scope="module")
def guarded_world(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[World, InProcessCloud]]:
    yield from _world(tmp_path_factory.mktemp("guarded") / "data", auth=True)


@pytest.mark.parametrize("scenario", cases([s for s in SCENARIOS if not s.get("auth")]))
def test_answers_are_awss(open_world: tuple[World, InProcessCloud], scenario: Scenario):
    world, _ = open_world
    client = world.client("kinesis")
    for name in client.list_streams()["StreamNames"]:
        client.delete_stream(StreamName=name)
    assert play(scenario, world) == []


@pytest.mark.parametrize(
    "scenario", cases([s for s in SCENARIOS if s.get("auth") or s.get("both")])
)
def test_answers_with_auth_are_awss(
    guarded_world: tuple[World, InProcessCloud], scenario: Scenario
):
    assert play(scenario, guarded_world[0]) == []


def test_there_are_scenarios_enough_and_each_says_whence_it_is():
    check_told(SCENARIOS, 90)
