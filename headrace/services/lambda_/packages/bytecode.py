"""Compiles the Python code of functions and layers to bytecode, since functions cannot write next to their code.

Without this, each cold start of a function with large packages would compile them again. A separate program with the
lowest priority compiles a package after its first use, and skips files that are already compiled.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

from headrace.core.workers import WorkerHandle

log = logging.getLogger(__name__)

# A smaller package is compiled at each cold start, which takes a few milliseconds.
LEAST_BYTES = 128 * 1024
_LONGEST_S = 600.0
_MOST_DONE = 10_000
_LOWEST_PRIORITY = 19


class Bytecode:
    """A worker that compiles folders. Thread-safe."""

    name = "lambda-bytecode"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Path] = deque()
        # The fingerprint of each folder when it was compiled; the files in a user's folder may change.
        self._done: dict[Path, str] = {}
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self.handle: WorkerHandle | None = None

    def want(self, folders: list[Path], fingerprint: str) -> None:
        """Schedule folders for compilation, unless this run has already compiled their present files."""
        with self._lock:
            if len(self._done) > _MOST_DONE:
                self._done.clear()
            new = [folder for folder in folders if self._done.get(folder) != fingerprint]
            self._done.update(dict.fromkeys(new, fingerprint))
            self._waiting.extend(new)
        if new and self.handle is not None:
            self.handle.wake()

    def step(self) -> float:
        """Compile one folder."""
        with self._lock:
            if self._stopped or not self._waiting:
                return math.inf
            folder = self._waiting.popleft()
        if _python_bytes(folder) >= LEAST_BYTES:
            self._compile(folder)
        return 0.0

    def _compile(self, folder: Path) -> None:
        arguments = [sys.executable, "-I", "-m", "compileall", "-q", str(folder)]
        with self._lock:
            if self._stopped:
                return
            process = self._running = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _LOWEST_PRIORITY)
        try:
            # A file that cannot be compiled is not an error here; the function that imports it gets the error.
            process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            log.warning("compiling %s took too long", folder)
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Compile nothing more, and kill a running compiler."""
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.kill()


def _python_bytes(folder: Path) -> int:
    """Return the size of the Python sources in a folder; stop when it is large enough. Links are not followed."""
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".py"):
                with contextlib.suppress(OSError):
                    total += (Path(where) / name).lstat().st_size
        if total >= LEAST_BYTES:
            break
    return total
