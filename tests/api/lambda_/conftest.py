"""One Lambda for a module's tests, and one of its own for tests that stop it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.lambda_.consumer import Consumer
from tests.support.lambda_lab import LambdaLab


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LambdaLab]:
    folders = [tmp_path_factory.getbasetemp()]
    with LambdaLab(tmp_path_factory.mktemp("lambda"), folders=folders) as lab:
        yield lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LambdaLab]:
    with LambdaLab(tmp_path / "data") as lab:
        yield lab


@pytest.fixture
def client(shared_lab: LambdaLab) -> Any:
    return shared_lab.client()


@pytest.fixture
def consumer(lab: LambdaLab) -> Consumer:
    return Consumer(lab)
