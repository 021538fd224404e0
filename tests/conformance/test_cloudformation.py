"""What AWS was recorded to answer, CloudFormation answers, whole. See `tests.conformance.scenarios`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.scenarios import Scenario, World, cases, check_told, load, play
from tests.support.cloud import InProcessCloud

SCENARIOS = list(load(Path(__file__).parent / "cloudformation"))


class Shared:
    """One cloud for all scenarios, each of which deletes what it made; a new one after a scenario that went wrong."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._cloud: InProcessCloud | None = None

    def play(self, scenario: Scenario) -> list[str]:
        """Play a scenario; return what was answered differently."""
        if self._cloud is None:
            self._cloud = InProcessCloud(self._factory.mktemp("cloudformation"))
        world = World("cloudformation", self._cloud.client, lambda _: None, self._cloud.handle)
        wrong = ["it was not played to its end"]
        try:
            wrong = play(scenario, world)
        finally:
            if wrong:
                self.stop()
        return wrong

    def stop(self) -> None:
        """Stop the cloud, if there is one."""
        if self._cloud is not None:
            self._cloud.stop()
        self._cloud = None


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    shared = Shared(tmp_path_factory)
    yield shared
    shared.stop()


@pytest.mark.parametrize("scenario", cases(SCENARIOS))
def test_answers_are_awss(shared: Shared, scenario: Scenario):
    assert shared.play(scenario) == []


def test_there_are_scenarios_enough_and_each_says_whence_it_is():
    check_told(SCENARIOS, 150)
