"""The process that forks the tests' clouds ends with the process that has started it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

from tests.support.warm_server import ROOT

STARTS = """
import subprocess, sys, time
from tests.support.warm_server import WarmServer
server = WarmServer(sys.executable)._process
# A child that a test forgot holds the server's input open.
holder = subprocess.Popen(["sleep", "300"], pass_fds=[server.stdin.fileno()])
print(server.pid, holder.pid, flush=True)
time.sleep(300)
"""


def test_it_ends_with_a_run_that_is_killed_although_its_input_stays_open() -> None:
    run = subprocess.Popen([sys.executable, "-c", STARTS], cwd=ROOT, stdout=subprocess.PIPE)
    assert run.stdout is not None
    server, holder = map(int, run.stdout.readline().split())
    end = os.pidfd_open(server)
    try:
        run.kill()
        run.wait()
        assert select.select([end], [], [], 60)[0]
    finally:
        os.kill(holder, signal.SIGKILL)
        os.close(end)
        run.stdout.close()
