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


# The files of so many processes of a family stay open between looks.
_MOST_KEPT = 8
_PROC_BYTES = 4096


class FamilyMemory:
    """Tells the memory of a process's descendants, without mapped files.

    The files of /proc stay open between looks, since opening them is most of a look's work; `close` closes them.
    """

    def __init__(self, pid: int, *, counts_itself: bool) -> None:
        self._pid = pid
        self._counts_itself = counts_itself
        # By process: the file of its memory, and that of its children.
        self._files: dict[int, tuple[int, int]] = {}

    def count_bytes(self) -> int:
        """Return the memory of the descendants, and of the process if that counts itself; 0 where it is unknown."""
        total, family = 0, [self._pid]
        before, self._files = self._files, {}
        # the list grows during this loop
        for process_id in family:
            files = before.pop(process_id, None)
            try:
                files = files or _open_files_of(process_id)
                pages = os.pread(files[0], _PROC_BYTES, 0).split()
                family.extend(_read_children(files[1]))
            except OSError:  # it has ended
                _close(files)
                continue
            self._files[process_id] = files
            if self._counts_itself or process_id != self._pid:
                total += (int(pages[1]) - int(pages[2])) * _PAGE_BYTES
        for files in before.values():
            _close(files)
        while len(self._files) > _MOST_KEPT:
            _close(self._files.popitem()[1])
        return total

    def close(self) -> None:
        """Close the files."""
        while self._files:
            _close(self._files.popitem()[1])


def _open_files_of(pid: int) -> tuple[int, int]:
    memory = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return memory, os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        os.close(memory)
        raise


def _read_children(file: int) -> list[int]:
    """Return the ids in a list of children. The kernel gives a long list in parts. Raises OSError."""
    text = part = os.pread(file, _PROC_BYTES, 0)
    while len(part) > _PROC_BYTES // 2:
        part = os.pread(file, _PROC_BYTES, len(text))
        text += part
    return [int(child) for child in text.split()]


def _close(files: tuple[int, int] | None) -> None:
    for file in files or ():
        os.close(file)


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
    def memory(self) -> FamilyMemory:
        """Tells the memory of the process and its children."""
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
        self.memory = FamilyMemory(self._process.pid, counts_itself=True)
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
        self.memory.close()
        if self.end_signal is not None:
            os.close(self.end_signal)


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
