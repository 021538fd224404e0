"""What AWS documents, Firehose answers: every member of every answer. See `tests.conformance.scenarios`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.kinesis.conftest import StillClock
from tests.conformance.scenarios import Scenario, World, cases, check_told, load, play
from tests.support.cloud import InProcessCloud

SCENARIOS = list(load(Path(__file__).parent / "firehose"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    clock = StillClock()
    with InProcessCloud(tmp_path_factory.mktemp("firehose") / "data", clock=clock) as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        client = cloud.client("firehose")
        yield World("firehose", lambda _: client, clock.advance, cloud.handle)


@pytest.mark.parametrize("scenario", cases(SCENARIOS))
def test_answers_are_awss(world: World, scenario: Scenario):
    client = world.client("firehose")
    for name in client.list_delivery_streams(Limit=100)["DeliveryStreamNames"]:
        client.delete_delivery_stream(DeliveryStreamName=name)
    assert play(scenario, world) == []


def test_there_are_scenarios_enough_and_each_says_whence_it_is():
    check_told(SCENARIOS, 30)
