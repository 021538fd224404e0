"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

from headrace.cli.interrupts import pass_interrupts_on
from tests.support.clock import FakeClock

# No test may reach AWS, whatever the machine is configured for.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_ACCESS_KEY_ID"] = "test"
os.environ["AWS_SECRET_ACCESS_KEY"] = "test"
os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
for _name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
    os.environ.pop(_name, None)

# Tests that are run in the background, too, start programs that can be interrupted.
pass_interrupts_on()

# A busy machine is no failure: no property is held to a time.
hypothesis.settings.register_profile("headrace", deadline=None)
hypothesis.settings.load_profile("headrace")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--nightly",
        action="store_true",
        help="the long forms: 200 kills, 10,000 fuzzed requests an action, tests marked slow",
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help="only what takes no Spark, no process that is killed and no socket",
    )


# What a test takes, by the folder it is in or the names that its module imports.
_SLOW_FOLDERS = ("clients", "pipeline", "scripts", "server", "soak")
_SLOW_NAMES = ("ServerProcess", "subprocess")


def _is_quick(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(name) for name in ("spark", "crash", "slow")):
        return False
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    module = getattr(item, "module", None)
    return folder not in _SLOW_FOLDERS and not any(hasattr(module, name) for name in _SLOW_NAMES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        left_out = [item for item in items if not _is_quick(item)]
        items[:] = [item for item in items if _is_quick(item)]
        config.hook.pytest_deselected(items=left_out)
        return
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="takes minutes: --nightly")
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(skip)


@pytest.fixture
def nightly(request: pytest.FixtureRequest) -> bool:
    """Whether the long form of a test is wanted."""
    return bool(request.config.getoption("--nightly"))


@pytest.fixture
def clock() -> FakeClock:
    """A clock that moves only when told."""
    return FakeClock()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """An empty data directory."""
    return tmp_path / "data"
