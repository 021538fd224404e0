"""The processes of a test run end with it, also when a signal ends the run."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = """
import signal, sys
from pathlib import Path
from tests.support.server import ServerProcess

print(ServerProcess(Path(sys.argv[1])).start().pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_cloud_ends_with_the_run_that_started_it(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", RUN, str(tmp_path / "data")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            cloud = int(run.stdout.readline())
            parent = parent_of(cloud)
            ends = [os.pidfd_open(pid) for pid in (cloud, parent)]
        finally:
            run.send_signal(number)
    try:
        for name, end in zip(("cloud", "warm server"), ends, strict=True):
            assert select.select([end], [], [], 60)[0], f"the {name} goes on"
    finally:
        for end in ends:
            os.close(end)


def parent_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])
