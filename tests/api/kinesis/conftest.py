"""A cloud whose clock moves only when a test moves it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.kinesis.streams import Streams
from tests.support.clock import FakeClock
from tests.support.cloud import InProcessCloud


class StillClock(FakeClock):
    """A clock that workers wait on without moving it."""

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        """Wait for the event in real time; tests set it by stopping the cloud."""
        return event.wait(timeout_s)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def cloud(data_dir: Path, clock: StillClock) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir, clock=clock) as running:
        yield running


@pytest.fixture
def kinesis(cloud: InProcessCloud) -> Any:
    return cloud.client("kinesis")


@pytest.fixture
def streams(cloud: InProcessCloud, kinesis: Any, clock: StillClock) -> Streams:
    return Streams(cloud, kinesis, clock)
