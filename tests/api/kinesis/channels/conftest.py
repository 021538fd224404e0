"""Channels on a cloud whose time a test can move forward."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.aws.calls.operation import service_model
from headrace.testing.clock import MovableClock
from tests.api.kinesis.channels.lab import ChannelLab
from tests.support.cloud import InProcessCloud

# The lowest botocore that headrace takes does not know channels: then neither does headrace.
if "CreateChannel" not in service_model("kinesis").operation_names:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def lab(data_dir: Path) -> Iterator[ChannelLab]:
    clock = MovableClock()
    with InProcessCloud(data_dir, clock=clock) as cloud:
        made = ChannelLab(cloud, clock)
        made.build()
        yield made
