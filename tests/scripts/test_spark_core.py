"""The core of the Spark tests on the oldest Spark and, nightly, on the newest, each in its own environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Making the environment takes most of it, the first time.
LIMIT_S = 900


@pytest.mark.spark
@pytest.mark.parametrize("version", ["3.5", pytest.param("4.3", marks=pytest.mark.slow)])
def test_source_and_sink(version: str) -> None:
    command = [sys.executable, "-m", "scripts.spark_matrix", version, "--core", "-q"]

    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout
