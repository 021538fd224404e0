"""A function's process, as its sandbox uses it: one with the cloud's rights, or one behind walls (see `walls`)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from headrace.services.lambda_.runtime.memory import memory_bytes
from headrace.services.lambda_.runtime.reaper_client import ReaperClient


class NotStarted(Exception):
    """There is no process; the text says why, in the system's words."""


class FunctionProcess(Protocol):
    """A started process. `kill` is thread-safe, the rest is for one thread."""

    @property
    def output(self) -> int:
        """The descriptor to read what it writes from; who reads it closes it."""
        ...

    @property
    def end_signal(self) -> int | None:
        """A descriptor that is readable once the process has ended; None where the system has none."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        ...

    def wait(self) -> int:
        """Wait for the end; return the exit status, negative for the signal that it was killed with."""
        ...

    def kill(self) -> None:
        """Kill the process and its children; nothing if it has ended."""
        ...

    def release(self) -> None:
        """Kill what is left of it, wait for its end, and close every descriptor but `output`."""
        ...

    def memory_bytes(self) -> int:
        """Return the memory of the process and its children, 0 where unknown."""
        ...


class PlainProcess:
    """A process that may do what the cloud may: implements `FunctionProcess`."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        reaper: ReaperClient,
    ) -> None:
        """Start it. Raises NotStarted."""
        self.output, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                arguments,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                # A group of its own, so that a kill takes the function's children along.
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
        # Elsewhere than on Linux a death shows as the caller's next tick.
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
        # Children may outlive a process that ended by itself.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._reaper.remove(self._process.pid)
        if self.end_signal is not None:
            os.close(self.end_signal)

    def memory_bytes(self) -> int:
        """See `FunctionProcess.memory_bytes`."""
        return memory_bytes(self._process.pid)
