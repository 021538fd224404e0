"""moto's circular imports, under many threads at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_the_first_requests_of_a_process_may_come_all_at_once(tmp_path: Path, seed: int):
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.programs.first_requests", str(seed), str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
