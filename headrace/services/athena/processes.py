"""Processes that run queries: one that has ended a query is kept for a while, and runs the next in a copy of itself.

Its start takes longer than most queries: it imports what reads and runs them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

# NumPy and pyarrow start no threads when they are imported: a process that has some is not to be copied.
WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
# Of those that wait for a query one is kept, and for so long: it holds memory.
KEPT_S = 20.0


class Processes:
    """The processes of one cloud. Thread-safe."""

    def __init__(self, temp_dir: Path) -> None:
        """Take the folder below which the queries' folders are."""
        self._temp_dir = temp_dir
        self._lock = threading.Lock()
        self._kept: subprocess.Popen[str] | None = None
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def take(self, errors: Path) -> subprocess.Popen[str]:
        """Return a process that waits for a query; a new one writes to `errors` what goes wrong before."""
        process = self._take_kept()
        if process is not None and process.poll() is None:
            return process
        if process is not None:
            end(process)
        # The packages of this process are found where it finds them; nothing else of its environment is there.
        environment = {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "LC_ALL": "C.UTF-8",
            **WITHOUT_THREADS,
        }
        with errors.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "headrace.services.athena.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=self._temp_dir,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )

    def give(self, process: subprocess.Popen[str]) -> None:
        """Keep a process that has ended its query, or end it when another is kept."""
        with self._lock:
            is_kept = self._kept is None and not self._is_closed
            if is_kept:
                self._kept = process
                self._timer = threading.Timer(KEPT_S, self._end_kept)
                self._timer.daemon = True
                self._timer.start()
        if not is_kept:
            end(process)

    def close(self) -> None:
        """End the process that is kept; keep none from now on."""
        with self._lock:
            self._is_closed = True
        self._end_kept()

    def _take_kept(self) -> subprocess.Popen[str] | None:
        with self._lock:
            process, self._kept = self._kept, None
            if self._timer is not None:
                self._timer.cancel()
        return process

    def _end_kept(self) -> None:
        process = self._take_kept()
        if process is not None:
            end(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and its copy."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process and its copy, and wait for it."""
    kill(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()
