"""A program that ends the function processes of a cloud that was killed. Each cloud runs one.

It uses only the standard library. It reads lines with `+PID` and `-PID` from standard input, which ends when the cloud
ends for any reason. Then it kills the process groups that are left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Read standard input until it ends, then kill the process groups that are left."""
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
