"""Queues on a cloud whose clock moves only when a test moves it; a receive that finds nothing moves it to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.operation import service_model
from tests.api.kinesis.queues.lab import QueueLab
from tests.support.clock import FakeClock, HandClock
from tests.support.cloud import InProcessCloud

# The lowest botocore that headrace takes does not know queues: then neither does headrace.
if "CreateQueue" not in service_model("kinesis").operation_names:
    collect_ignore_glob = ["test_*.py"]


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
