"""Ends the function processes of a cloud that was killed.

A program of its own (standard library only), one per cloud. It reads `+PID` and `-PID` lines. Its input ends with the
cloud, however the cloud ends; then it kills the process groups that are left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Follow standard input until it ends, then kill what is left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    alive: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        if line[0] == "+":
            alive.add(pid)
        else:
            alive.discard(pid)
    for pid in alive:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
