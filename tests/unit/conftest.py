"""A lab of moto's services for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.support.moto_lab import MotoLab


@pytest.fixture
def lab(tmp_path: Path, clock: FakeClock) -> Iterator[MotoLab]:
    """moto's services on an empty data directory, with a clock that moves only when told."""
    with MotoLab(tmp_path / "data", clock=clock) as lab:
        yield lab
