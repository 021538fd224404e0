"""A supervised job: its process started or found again, watched, cancelled, and ended with the cloud.

EMR's steps and bootstrap actions and EMR Serverless' job runs are such jobs. Their services keep the states, decide
what an end means, and store it. What happens to a job is noted in its folder's log `controller`, if there is one.
"""

from __future__ import annotations

import logging
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.clock import Clock
from headrace.spark_submit.context import Command
from headrace.spark_submit.controller_log import note_in
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.limits import CANCEL_GRACE_S
from headrace.spark_submit.process import JobProcess

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """How a running job is cancelled.

    Attributes:
        signal: what all its processes are sent at first.
        grace_s: the seconds after which those that are left are killed.
        repeat: whether the signal is sent a second time: a process that was between fork and exec has lost the first.
    """

    signal: int = signal.SIGTERM
    grace_s: float = CANCEL_GRACE_S
    repeat: bool = False


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended.

    Attributes:
        exit_code: its command's; None when it was killed.
        lost: whether nobody knows how it ended, for no cloud was running.
    """

    exit_code: int | None
    lost: bool


class SupervisedJob:
    """A job whose process was started, by this cloud or an earlier one. Used by one thread at a time."""

    def __init__(self, clock: Clock, process: JobProcess) -> None:
        self._clock = clock
        self._process = process
        self._end: JobEnd | None = None
        self._cancelled_at_s: float | None = None
        self._repeated = False

    @classmethod
    def start(
        cls,
        clock: Clock,
        folder: Path,
        command: Callable[[], Command],
        *,
        kind: str,
        logs: Sequence[str],
    ) -> SupervisedJob:
        """Start a job in a folder that is made anew.

        Args:
            clock: measures the grace of a cancellation.
            folder: the job's own; what an attempt that was cut short left there is removed.
            command: fills the folder and returns what to run there.
            kind: `step`, `job` or the like, for messages.
            logs: the files that are in the folder, empty, before `command` is called.

        Raises:
            JobRefused: no process was started, whatever the cause.
        """
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for name in logs:
                (folder / name).touch()
            made = command()
            for note in made.notes:
                note_in(folder, clock.now_ms(), note)
            note_in(folder, clock.now_ms(), f"the command is: {' '.join(made.arguments)}")
            process = JobProcess.start(
                folder, made.arguments, environment=made.environment, cwd=made.cwd
            )
        except (JobRefused, OSError) as error:
            message = str(error)
        except Exception as error:
            # A request may hold what no process can be given; trying again and again would not help.
            log.exception("the %s in %s could not be started", kind, folder)
            message = f"The {kind} could not be started: {error}."
        else:
            note_in(folder, clock.now_ms(), f"the process is {process.pid}")
            return cls(clock, process)
        note_in(folder, clock.now_ms(), f"the command could not be started: {message}")
        raise JobRefused(message)

    @classmethod
    def find(cls, clock: Clock, folder: Path) -> SupervisedJob | None:
        """Return the job that was started in `folder`, whether or not it still runs; None if none was."""
        process = JobProcess.find(folder)
        return None if process is None else cls(clock, process)

    @property
    def running(self) -> bool:
        """Whether its command has not ended."""
        return self._process.exit_code is None and self._process.alive

    @property
    def busy(self) -> bool:
        """Whether any of its processes still runs."""
        return bool(self._process.members())

    def watch(self, cancellation: Cancellation | None) -> JobEnd | None:
        """Look at the job once; return how it ended, or None while it runs.

        Args:
            cancellation: how the job is cancelled, at this look and every later one; None while nobody wants that.

        With the end of its command, the processes it left running are killed. A cancelled job ends when all of its
        processes have. After its end, each look returns the same: so an end that could not be stored is not lost.
        """
        if self._end is None and (self.running or (cancellation is not None and self._is_dying())):
            if cancellation is not None:
                self._cancel(cancellation)
            return None
        if self._end is None:
            code = self._process.exit_code
            self._process.kill()
            self._end = JobEnd(code, lost=code is None and self._process.adopted)
            note_in(
                self._process.folder,
                self._clock.now_ms(),
                f"the command ended with exit code {code}",
            )
        return self._end

    def _is_dying(self) -> bool:
        """Whether the wrapper is gone, as it is first after a signal, and others of its processes are not."""
        return self._process.exit_code is None and self.busy

    def _cancel(self, cancellation: Cancellation) -> None:
        now_s = self._clock.monotonic_s()
        if self._cancelled_at_s is None:
            self._cancelled_at_s = now_s
            self._process.signal(cancellation.signal)
            sent = signal.Signals(cancellation.signal).name
            note_in(self._process.folder, self._clock.now_ms(), f"cancelled: {sent}")
        elif (
            cancellation.signal == signal.SIGKILL
            or now_s - self._cancelled_at_s > cancellation.grace_s
        ):
            # At each look: a process may have been started while the others were being killed.
            self._process.signal(signal.SIGKILL)
        elif cancellation.repeat and not self._repeated:
            self._repeated = True
            self._process.signal(cancellation.signal)

    def shut_down(self) -> None:
        """Ask all its processes to end, because the cloud stops."""
        self._process.signal(signal.SIGTERM)

    def abandon(self) -> int | None:
        """Kill what is left of it; return its exit code, None when it had not ended by itself."""
        code = self._process.exit_code
        self._process.kill()
        return code
