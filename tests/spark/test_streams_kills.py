"""The driver of a `kinesis_stream` is killed (-9) while its stream is split and merged: every record comes once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.spark.versions import HAS_DATA_SOURCES
from tests.spark.test_kills import run
from tests.support.server import ServerProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.skipif(HAS_DATA_SOURCES, reason="of the way on Spark 3.5"),
]

JOB = Path(__file__).parent / "jobs" / "copy_by_function.py"


def test_every_record_is_written_once_whatever_was_killed(
    server: ServerProcess, make_stream: Any, tmp_path: Path
) -> None:
    run(server, make_stream(3), tmp_path / "job", seed=7, kills=1, job=JOB)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_every_record_is_written_once_whatever_was_killed_often(
    server: ServerProcess, make_stream: Any, tmp_path: Path, seed: int
) -> None:
    run(server, make_stream(4), tmp_path / "job", seed=seed, kills=5, job=JOB)
