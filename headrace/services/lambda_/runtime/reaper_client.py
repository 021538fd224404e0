"""Starts the reaper (`reaper.py`) and tells it about function processes, so that none outlives the cloud."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

_REAPER = Path(__file__).with_name("reaper.py")


class ReaperClient:
    """Tells the reaper which process groups run. Thread-safe. The first process starts the reaper."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reaper: subprocess.Popen[bytes] | None = None
        self._pids: set[int] = set()

    def add(self, pid: int) -> None:
        """Tell the reaper to kill the process group `pid` when this cloud ends."""
        with self._lock:
            self._pids.add(pid)
            self._send(f"+{pid}\n")

    def remove(self, pid: int) -> None:
        """Tell the reaper that a process group has ended."""
        with self._lock:
            self._pids.discard(pid)
            self._send(f"-{pid}\n")

    def close(self) -> None:
        """End the reaper, which kills the process groups that were not removed."""
        with self._lock:
            reaper, self._reaper = self._reaper, None
            if reaper is None:
                return
            assert reaper.stdin is not None
            reaper.stdin.close()
            reaper.wait()

    def _send(self, line: str) -> None:
        if self._reaper is None or self._reaper.poll() is not None:
            self._reaper = subprocess.Popen(
                [sys.executable, "-S", "-E", str(_REAPER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                bufsize=0,
            )
            line = "".join(f"+{pid}\n" for pid in self._pids)
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(line.encode())
