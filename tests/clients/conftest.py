"""A real server for the clients, each of which is somebody else's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("clients")) as running:
        yield running


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.fail("Node.js 20 or newer is needed for the JavaScript SDK's tests; install it")
    if not (Path(__file__).parent / "js" / "node_modules").is_dir():
        pytest.fail("the JavaScript SDK is not installed: run `npm ci --prefix tests/clients/js`")
    return found
