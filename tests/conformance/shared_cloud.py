"""One cloud in process, in which the scenarios of a service are played one after the other."""

from __future__ import annotations

import pytest

from tests.conformance.scenarios import Scenario, World, play
from tests.support.clock import ShiftedClock
from tests.support.cloud import InProcessCloud


class SharedCloud:
    """One cloud for all scenarios, each of which deletes what it made; a new one after a scenario that went wrong."""

    def __init__(self, service: str, factory: pytest.TempPathFactory) -> None:
        self._service = service
        self._factory = factory
        self._clock = ShiftedClock()
        self._cloud: InProcessCloud | None = None

    def play(self, scenario: Scenario) -> list[str]:
        """Play a scenario; return what was answered differently."""
        if self._cloud is None:
            folder = self._factory.mktemp(self._service)
            self._cloud = InProcessCloud(folder, clock=self._clock)
        world = World(self._service, self._cloud.client, self._clock.advance, self._cloud.handle)
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
