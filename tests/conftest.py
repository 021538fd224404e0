"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

from tests.support.clock import FakeClock

# No test may reach AWS, whatever the machine is configured for.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_ACCESS_KEY_ID"] = "test"
os.environ["AWS_SECRET_ACCESS_KEY"] = "test"
os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
for _name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
    os.environ.pop(_name, None)

# A busy machine is no failure: no property is held to a time.
hypothesis.settings.register_profile("headrace", deadline=None)
hypothesis.settings.load_profile("headrace")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--nightly",
        action="store_true",
        help="the long forms: 200 kills, 10,000 fuzzed requests an action, tests marked slow",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
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
