"""A supervised job: its process and its worker, from its start to its end with the cloud.

EMR's steps and bootstrap actions and EMR Serverless' job runs are such jobs. Their services handle the states, and
interpret and store a job's end. The log `controller` in the job's folder, if there is one, records its events.

Starts, wakes and stops the workers of jobs: one for each cluster or job run.
"""

from __future__ import annotations

import logging
import shutil
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from headrace.core.clock import Clock
from headrace.core.workers import Supervisor, Worker, WorkerHandle
from headrace.spark_submit import JobRefused
from headrace.spark_submit.access import Command
from headrace.spark_submit.logs import note_in
from headrace.spark_submit.process import CANCEL_GRACE_S, POLL_S, STOP_GRACE_S, JobProcess

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """How a running job is cancelled.

    Attributes:
        signal: the first signal to all its processes.
        grace_s: after how many seconds the remaining processes are killed.
        repeat: whether the signal is sent twice, because a process between fork and exec loses the first.
    """

    signal: int = signal.SIGTERM
    grace_s: float = CANCEL_GRACE_S
    repeat: bool = False


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended.

    Attributes:
        exit_code: its command's exit code; None when it was killed.
        lost: whether its end is unknown, because no cloud was running.
    """

    exit_code: int | None
    lost: bool


@dataclass(slots=True, eq=False)
class SupervisedJob:
    """A job that this cloud or an earlier one started. Used by one thread at a time."""

    _clock: Clock
    _process: JobProcess
    _end: JobEnd | None = field(default=None, init=False)
    _cancelled_at_s: float | None = field(default=None, init=False)
    _repeated: bool = field(default=False, init=False)

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
        """Start a job in a new folder.

        Args:
            clock: measures the grace of a cancellation.
            folder: the job's folder; files of an interrupted attempt are removed.
            command: writes the folder's files and returns the command.
            kind: `step`, `job` or the like, for messages.
            logs: the files that are created empty before `command` is called.

        Raises:
            JobRefused: the process could not start, for any reason.
        """
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for name in logs:
                (folder / name).touch()
            built = command()
            for note in built.notes:
                note_in(folder, clock.now_ms(), note)
            note_in(folder, clock.now_ms(), f"the command is: {' '.join(built.arguments)}")
            process = JobProcess.start(
                folder, built.arguments, environment=built.environment, cwd=built.cwd
            )
        except (JobRefused, OSError) as error:
            message = str(error)
        except Exception as error:
            # For example, a request may have arguments that no process can get; retries would not help.
            log.exception("the %s in %s could not be started", kind, folder)
            message = f"The {kind} could not be started: {error}."
        else:
            note_in(folder, clock.now_ms(), f"the process is {process.pid}")
            return cls(clock, process)
        note_in(folder, clock.now_ms(), f"the command could not be started: {message}")
        raise JobRefused(message)

    @classmethod
    def find(cls, clock: Clock, folder: Path) -> SupervisedJob | None:
        """Return the job that was started in `folder`, running or not; None if there was none."""
        process = JobProcess.find(folder)
        return None if process is None else cls(clock, process)

    @property
    def running(self) -> bool:
        """Whether its command still runs."""
        return self._process.exit_code is None and self._process.alive

    @property
    def busy(self) -> bool:
        """Whether any of its processes still runs."""
        return bool(self._process.members())

    def watch(self, cancellation: Cancellation | None) -> JobEnd | None:
        """Check the job once; return how it ended, or None while it runs.

        Args:
            cancellation: how to cancel the job, in this call and every later one; None to let it run.

        When its command ends, its remaining processes are killed. A cancelled job ends when all of its processes have
        ended. After the end, each call returns the same result, so that a failed attempt to store it can be repeated.
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
        """Return whether the wrapper has ended, as it does first after a signal, and other processes still run."""
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
            # At each call: a process may have been started while the others were being killed.
            self._process.signal(signal.SIGKILL)
        elif cancellation.repeat and not self._repeated:
            self._repeated = True
            self._process.signal(cancellation.signal)

    def shut_down(self) -> None:
        """Ask all its processes to end, because the cloud stops."""
        self._process.signal(signal.SIGTERM)

    def abandon(self) -> int | None:
        """Kill its remaining processes; return its exit code, None when it had not ended by itself."""
        code = self._process.exit_code
        self._process.kill()
        return code


class JobWorker(Worker, Protocol):
    """A worker with job processes. `step` is not called after the first call of these methods."""

    def shut_down(self) -> None:
        """Ask the processes to end, because the cloud stops."""
        ...

    def abandon(self) -> None:
        """Kill the processes that outlived `shut_down`, and store how the jobs ended."""
        ...

    @property
    def busy(self) -> bool:
        """Return whether a process of a job still runs."""
        ...


W = TypeVar("W", bound=JobWorker)


class JobWorkers(Generic[W]):
    """The job workers of one service, by the id of their cluster or job run. Thread-safe."""

    def __init__(self, clock: Clock, supervisor: Supervisor) -> None:
        self._clock = clock
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._workers: dict[str, tuple[W, WorkerHandle]] = {}

    def start(self, key: str, worker: W) -> None:
        """Run a worker on a thread until it is done or stopped."""
        with self._lock:
            self._workers = {k: running for k, running in self._workers.items() if running[1].alive}
            self._workers[key] = worker, self._supervisor.start(worker)

    def wake(self, key: str) -> None:
        """Wake a worker after a change, if it is not done."""
        with self._lock:
            worker = self._workers.get(key)
        if worker is not None:
            worker[1].wake()

    def stop(self) -> None:
        """Stop the workers and end their processes: first by SIGTERM, after STOP_GRACE_S by SIGKILL."""
        with self._lock:
            workers, self._workers = list(self._workers.values()), {}
        for _, handle in workers:
            handle.stop()
        for worker, handle in workers:
            handle.join(STOP_GRACE_S)
            worker.shut_down()
        deadline_s = self._clock.monotonic_s() + STOP_GRACE_S
        never = threading.Event()
        while self._clock.monotonic_s() < deadline_s and any(w.busy for w, _ in workers):
            self._clock.wait(never, POLL_S)
        for worker, _ in workers:
            worker.abandon()
