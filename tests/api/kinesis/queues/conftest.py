"""Queues on a cloud whose clock moves only when a test moves it; a receive that finds nothing moves it to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.kinesis.queues.lab import QueueLab
from tests.support.clock import FakeClock, HandClock
from tests.support.cloud import InProcessCloud


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def cloud(data_dir: Path, clock: FakeClock) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir, clock=clock) as running:
        yield running


@pytest.fixture
def lab(cloud: InProcessCloud, clock: FakeClock) -> QueueLab:
    made = QueueLab(cloud, clock)
    made.stream()
    return made


@pytest.fixture
def kinesis(lab: QueueLab) -> Any:
    return lab.kinesis
