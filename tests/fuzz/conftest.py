"""How much is fuzzed, and with which seed: as the command line says, `--fuzz-requests 200 --fuzz-seed 7`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

# Files cost a fuzzer as much as all the rest when a disk keeps them: it makes and deletes millions.
_IN_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder, in memory where the system has such, that is gone after the module's tests."""
    if not _IN_MEMORY.is_dir():
        yield tmp_path_factory.mktemp("fuzz")
        return
    folder = Path(tempfile.mkdtemp(prefix="headrace-fuzz-", dir=_IN_MEMORY))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def cloud_scope(fixture_name: str, config: pytest.Config) -> Literal["function", "module"]:
    """Return how long a cloud lives that keeps what is deleted: for one operation where many requests are made.

    Else each list of stacks and clusters were longer than the last.
    """
    del fixture_name
    many = config.getoption("--nightly") or (config.getoption("--fuzz-requests") or 0) > 1_000
    return "function" if many else "module"


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
