"""A supervised job: its process from its start to its end, under this cloud or the next.

EMR's steps and bootstrap actions and EMR Serverless' job runs are such jobs. Their services handle the states, and
interpret and store a job's end. The log `controller` in the job's folder, if there is one, records its events.

The process runs under a small shell wrapper in its own session. The wrapper writes its pid and, at the end, the exit
code to the job's folder, so that a cloud that was killed and started again learns how the job ended, or takes over a
job that still runs.

A job's processes are those in its session, those whose environment names the job's folder (a daemon leaves the session
but keeps its environment), and the children of both. A process that leaves the session, clears its environment and
loses its parent is not found; without /proc (macOS), only the session's processes are.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headrace.core.clock import Clock
from headrace.spark_submit import JobRefused
from headrace.spark_submit.job_context import Command
from headrace.spark_submit.logs import note_in

# How often a running process is checked, and how long it has to end after SIGTERM.
POLL_S = 0.1
CANCEL_GRACE_S = 10.0
STOP_GRACE_S = 3.0
# How long a job's end waits for processes that were killed: only those that the kernel holds take longer.
KILLED_GRACE_S = 5


_PROC = Path("/proc")
_MARK = "HEADRACE_JOB"
# The limit of repeated signals, because a program may react to each by starting other processes.
_ROUNDS = 4

# $1: the job's folder; the rest: the command. The rename makes the exit code complete or absent.
_WRAPPER = """
dir=$1; shift
echo $$ > "$dir/pid.new" && mv "$dir/pid.new" "$dir/pid"
"$@" > "$dir/stdout" 2> "$dir/stderr" < /dev/null
code=$?
echo $code > "$dir/exit_code.new" && mv "$dir/exit_code.new" "$dir/exit_code"
exit $code
"""


class JobProcess:
    """The process of one job in `folder`. Used by one thread at a time."""

    def __init__(self, folder: Path, pid: int, child: subprocess.Popen[bytes] | None) -> None:
        self.folder = folder
        self.pid = pid
        self._child = child

    @classmethod
    def start(
        cls, folder: Path, command: Sequence[str], *, environment: Mapping[str, str], cwd: Path
    ) -> JobProcess:
        """Start `command` with its output in `folder`. Raises OSError.

        First end a process that an earlier cloud started there just before its end, too late to be found again.
        """
        _send(signal.SIGKILL, lambda: _members(None, folder))
        child = subprocess.Popen(
            ["/bin/sh", "-c", _WRAPPER, "headrace-job", str(folder), *command],
            cwd=cwd,
            env={**environment, _MARK: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Its own session, by which child processes in any process group can be found.
            start_new_session=True,
        )
        return cls(folder, child.pid, child)

    @classmethod
    def find(cls, folder: Path) -> JobProcess | None:
        """Return the process that an earlier cloud started in `folder`, running or not; None if none started."""
        try:
            pid = int((folder / "pid").read_text())
        except (OSError, ValueError):
            return None
        return cls(folder, pid, None)

    @property
    def adopted(self) -> bool:
        """Return whether an earlier cloud started it."""
        return self._child is None

    @property
    def alive(self) -> bool:
        """Whether the wrapper still runs."""
        if self._child is not None:
            return self._child.poll() is None
        return _is_running(self.pid, str(self.folder))

    @property
    def exit_code(self) -> int | None:
        """The command's exit code; None while it runs, and always if it was killed."""
        try:
            return int((self.folder / "exit_code").read_text())
        except (OSError, ValueError):
            return None

    def signal(self, number: int) -> None:
        """Send a signal to every process of the job, including processes that start meanwhile."""
        _send(number, self.members, _ROUNDS)

    def members(self) -> list[int]:
        """Return the pids of the job's processes that still run."""
        return _members(self.pid, self.folder)

    def kill(self) -> None:
        """Kill the job's remaining processes, and wait until they have ended; no zombie remains."""
        _send(signal.SIGKILL, self.members)
        if self._child is not None:
            self._child.wait()
        _wait_for_end(self.members())


def end_jobs_below(folder: Path) -> None:
    """Kill the remaining job processes of a data directory whose cloud was killed and is not started again."""
    for pid_file in folder.glob("emr*/**/pid"):
        process = JobProcess.find(pid_file.parent)
        if process is not None:
            process.kill()


def _send(number: int, members: Callable[[], list[int]], most_rounds: int | None = None) -> None:
    """Send a signal until every process of the job has got it, including ones started meanwhile."""
    sent: set[int] = set()
    rounds = 0
    while (more := set(members()) - sent) and rounds != most_rounds:
        # Parents first: a parent that sees its child die might exit with success before it gets the signal.
        for pid in sorted(more):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        sent |= more
        rounds += 1


def _wait_for_end(pids: Sequence[int]) -> None:
    """Wait until killed processes have ended: a process may run for a moment after SIGKILL. macOS does not wait."""
    ends = select.poll()
    running: dict[int, int] = {}
    try:
        for pid in pids:
            # Also where the system lacks pidfd_open, or forbids it.
            with contextlib.suppress(AttributeError, OSError):
                running[fd := os.pidfd_open(pid)] = pid
                ends.register(fd, select.POLLIN)
        while running and (ended := ends.poll(KILLED_GRACE_S * 1000)):
            for fd, _ in ended:
                ends.unregister(fd)
                os.close(fd)
                del running[fd]
        if running:
            log.warning("these killed processes have not ended: %s", sorted(running.values()))
    finally:
        for fd in running:
            os.close(fd)


def _members(session: int | None, folder: Path) -> list[int]:
    """Return the pids of running processes in a session or with a folder's mark, and of their children."""
    if not _PROC.is_dir():
        return [] if session is None else _members_by_ps(session)
    mark = f"{_MARK}={folder}".encode()
    parents: dict[int, int] = {}
    pids: set[int] = set()
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        stat = _stat(entry)
        if stat is None or stat.state in ("Z", "X"):
            continue
        pid = int(entry.name)
        parents[pid] = stat.parent
        if stat.session == session or _has_mark(entry, mark):
            pids.add(pid)
    while children := {pid for pid, parent in parents.items() if parent in pids} - pids:
        pids |= children
    return sorted(pids)


def _has_mark(entry: Path, mark: bytes) -> bool:
    try:
        return mark in (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        # The process has ended, or belongs to another user.
        return False


class _Stat(NamedTuple):
    state: str
    parent: int
    session: int


def _stat(entry: Path) -> _Stat | None:
    """Return a process's fields in /proc; None when it has ended."""
    try:
        text = (entry / "stat").read_text()
    except OSError:
        return None
    # The command's name is in parentheses and may contain any character.
    fields = text.rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[1]), int(fields[3]))


def _is_running(pid: int, folder: str) -> bool:
    """Return whether `pid` is still the wrapper of `folder`, not another process with a reused pid."""
    if not _PROC.is_dir():
        printed = _ps("-o", "command=", "-p", str(pid))
        return folder in printed
    stat = _stat(_PROC / str(pid))
    if stat is None or stat.state in ("Z", "X"):
        return False
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return folder.encode() in arguments


def _members_by_ps(session: int) -> list[int]:
    lines = [line.split() for line in _ps("-ax", "-o", "pid=,sess=,pgid=").splitlines()]
    return [int(pid) for pid, *groups in lines if str(session) in groups]


def _ps(*arguments: str) -> str:
    done = subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False)
    return done.stdout


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
