"""What AWS was recorded to answer, S3 answers: every member of every answer. See `tests.conformance.scenarios`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.s3.lab import S3Lab
from tests.conformance.scenarios import Scenario, World, cases, check_told, load, play
from tests.support.clock import FakeClock

SCENARIOS = list(load(Path(__file__).parent / "s3"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Lab, Any]]:
    """One S3 and its client; each test gives it a data directory of its own."""
    lab = S3Lab(tmp_path_factory.mktemp("first"), FakeClock())
    yield lab, lab.client()
    lab.stop()


@pytest.mark.parametrize("scenario", cases(SCENARIOS))
def test_answers_are_awss(shared: tuple[S3Lab, Any], tmp_path: Path, scenario: Scenario):
    lab, client = shared
    lab.clock = FakeClock()
    lab.move(tmp_path)
    world = World("s3", lambda _: client, lab.clock.advance, lab.handle)
    assert play(scenario, world) == []


def test_there_are_scenarios_enough_and_each_says_whence_it_is():
    check_told(SCENARIOS, 300)
