"""The whole pipeline, killed, stopped, paused, out of time and out of room: see `tests/crash/pipeline`."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.pipeline.faults import plan
from tests.crash.pipeline.run import repeat_command

pytestmark = pytest.mark.crash

SEED = 7


def test_what_is_acknowledged_goes_through_the_pipeline_whatever_strikes(nightly: bool):
    """Four kills and a few other faults; nightly a thousand. A process of its own: it mounts a disk for itself."""
    kills = 1000 if nightly else 4
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.pipeline.run", "--kills", str(kills), "--seed", str(SEED)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
        timeout=4 * 3600 if nightly else 300,
    )  # fmt: skip
    assert done.returncode == 0, (
        f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}\nto repeat: {repeat_command(kills, SEED)}"
    )
    facts = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if "  " in line)
    assert facts["lost"] == "0"
    assert facts["verdict"] == "every promise held"


def test_a_seed_decides_on_the_faults():
    first, again, other = (list(plan(random.Random(seed), 50)) for seed in (1, 1, 2))
    assert first == again != other
    kinds = {fault.kind for fault in first}
    assert {"stop", "pause", "clock forward", "clock back", "full disk"} < kinds
    assert sum(fault.kind.startswith("kill") for fault in first) == 50
