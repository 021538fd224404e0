"""How much is fuzzed, and with which seed: as the command line says, `--fuzz-requests 200 --fuzz-seed 7`."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def how_many(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Return the requests an action, given those of the default suite and those of `--nightly`."""
    wanted: int | None = request.config.getoption("--fuzz-requests")
    is_nightly = bool(request.config.getoption("--nightly"))
    return lambda usual, nightly: wanted or (nightly if is_nightly else usual)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed of the requests."""
    return int(request.config.getoption("--fuzz-seed"))
