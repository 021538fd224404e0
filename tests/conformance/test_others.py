"""What AWS was recorded to answer, services of moto's answer as far as pipelines meet them. See `scenarios`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.scenarios import Scenario, cases, check_told, load
from tests.conformance.shared_cloud import SharedCloud

SCENARIOS = list(load(Path(__file__).parent / "others"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedCloud]:
    shared = SharedCloud("sqs", tmp_path_factory)
    yield shared
    shared.stop()


@pytest.mark.parametrize("scenario", cases(SCENARIOS))
def test_answers_are_awss(shared: SharedCloud, scenario: Scenario):
    assert shared.play(scenario) == []


def test_there_are_scenarios_enough_and_each_says_whence_it_is():
    check_told(SCENARIOS, 500)
