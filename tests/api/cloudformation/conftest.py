"""A cloud in process and a client of its CloudFormation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud


@pytest.fixture
def cloud(data_dir: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir) as cloud:
        yield cloud


@pytest.fixture
def cfn(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudformation")
