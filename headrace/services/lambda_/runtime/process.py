"""A function's process: its interface, its memory, its end; none outlives the cloud.

For processes without the cloud's own rights see `walls`; memory is read from Linux's `/proc`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def count_memory_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants without mapped files, or 0 where it is unknown."""
    return _sum_memory_bytes([pid])


def count_children_memory_bytes(pid: int) -> int:
    """Return the memory of a process's descendants alone."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:  # noqa: PTH123
            return _sum_memory_bytes([int(child) for child in file.read().split()])
    except OSError:
        return 0


def _sum_memory_bytes(family: list[int]) -> int:
    total = 0
    # the list grows during this loop
    for process_id in family:
        try:
            with open(f"/proc/{process_id}/statm", "rb") as file:  # noqa: PTH123 - once an invocation: Path is slower
                fields = file.read().split()
            with open(f"/proc/{process_id}/task/{process_id}/children", "rb") as file:  # noqa: PTH123
                family.extend(map(int, file.read().split()))
        except OSError:
            continue
        total += (int(fields[1]) - int(fields[2])) * _PAGE_BYTES
    return total


class NotStarted(Exception):
    """The process could not be started; the text is the system's error message."""


class FunctionProcess(Protocol):
    """A started process. `kill` is thread-safe; only one thread may call the other methods."""

    @property
    def output(self) -> int:
        """The descriptor from which its output is read. The reader closes it."""
        ...

    @property
    def end_signal(self) -> int | None:
        """A descriptor that becomes readable when the process ends; None where the system has no such descriptor."""
        ...

    @property
    def top_pid(self) -> int | None:
        """The process from which all of the function's processes descend; None where they may leave its family."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        ...

    def wait(self) -> int:
        """Wait for the end. Return the exit status; a negative one is the number of the signal that killed it."""
        ...

    def kill(self) -> None:
        """Kill the process and its children. Does nothing if the process has ended."""
        ...

    def release(self) -> None:
        """Kill the process and its children, wait for the end, and close every descriptor except `output`."""
        ...

    def memory_bytes(self) -> int:
        """Return the memory of the process and its children, or 0 where it is unknown."""
        ...


class PlainProcess:
    """A process that has the cloud's own rights. Implements `FunctionProcess`."""

    # Its orphans belong to the system's first process.
    top_pid: int | None = None

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        reaper: ReaperClient,
    ) -> None:
        """Start the process. Raises NotStarted."""
        self.output, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                arguments,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                # A new process group, so that a kill also ends the function's children.
                start_new_session=True,
            )
        except OSError as error:
            os.close(self.output)
            raise NotStarted(error.strerror) from error
        finally:
            os.close(write_end)
        self._reaper = reaper
        reaper.add(self._process.pid)
        self.end_signal: int | None = None
        # Without a pidfd (only Linux has them), the caller notices the end at its next check.
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(ProcessLookupError):
                self.end_signal = os.pidfd_open(self._process.pid)

    @property
    def has_ended(self) -> bool:
        """See `FunctionProcess.has_ended`."""
        return self._process.poll() is not None

    def wait(self) -> int:
        """See `FunctionProcess.wait`."""
        return self._process.wait()

    def kill(self) -> None:
        """See `FunctionProcess.kill`."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def release(self) -> None:
        """See `FunctionProcess.release`."""
        self.kill()
        self._process.wait()
        # Children may still run after the process has ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._reaper.remove(self._process.pid)
        if self.end_signal is not None:
            os.close(self.end_signal)

    def memory_bytes(self) -> int:
        """See `FunctionProcess.memory_bytes`."""
        return count_memory_bytes(self._process.pid)


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
