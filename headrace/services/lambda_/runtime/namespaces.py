"""Walls: a function sees only its code, its layers, the interpreter and the system, and can write only to its /tmp.

The walls are Linux namespaces. A program, the launcher (`launcher.py`), enters them; it needs no root rights. Where the
system does not permit them (systems other than Linux, many containers, `sysctl
kernel.apparmor_restrict_unprivileged_userns=1`), functions run with the cloud's own rights (see `isolation`), and
headrace logs this once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.services.lambda_.runtime.environment import trust_the_machine
from headrace.services.lambda_.runtime.process import FamilyMemory, NotStarted
from headrace.services.lambda_.runtime.visible_files import (
    OPT,
    TASK,
    TMP,
    TRUST,
    VisibleFiles,
    find_visible_files,
)
from headrace.walls.walled_server import command_of

log = logging.getLogger(__name__)

_LAUNCHER = "headrace.services.lambda_.runtime.launcher"
_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")
_ANSWER_WITHIN_S = 30.0
# Errors of a machine that lacks resources now but may have them later.
_FOR_NOW = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class _Refused(Exception):
    """The machine does not permit walls. The text names the call that it refused."""


@dataclass(frozen=True, slots=True)
class OwnMounts:
    """The folders that are mounted for one process only.

    Attributes:
        code_dir: the folder that is mounted at /var/task.
        opt_dir: the folder that is mounted at /opt; None without layers.
        tmp_mib: the size of /tmp.
    """

    code_dir: Path
    opt_dir: Path | None
    tmp_mib: int


class Namespaces:
    """Starts processes behind walls, through one launcher. Thread-safe."""

    def __init__(
        self,
        data_dir: Path,
        folders: Sequence[Path] = (),
        trust_file: Callable[[], Path | None] = trust_the_machine,
    ) -> None:
        """Take the cloud's data directory, and the user's folders in which functions may write.

        `trust_file` returns the authorities that functions trust; they see its copy at `TRUST`.
        """
        self._trust_file = trust_file
        self._data_dir = data_dir
        self._stage = data_dir / "lambda" / "root"
        self._folders = tuple(folders)
        self._lock = threading.Lock()
        self._launcher: _Launcher | None = None
        self._view: VisibleFiles | None = None
        self._has_started = False
        self._is_closed = False

    @property
    def are_known(self) -> bool:
        """Whether headrace already knows if this machine permits walls."""
        return self._view is not None or _Known.permitted or self.are_missing

    @property
    def are_missing(self) -> bool:
        """Whether this machine is known to permit no walls."""
        return _Known.refusal is not None

    def view(self) -> VisibleFiles | None:
        """Start the launcher if needed, and return the view; None where walls are impossible. Raises NotStarted."""
        if self.are_missing:
            return None
        with self._lock:
            if self._is_closed:
                raise NotStarted("headrace is stopping")
            if self._launcher is None:
                self._start_launcher()
            return self._view

    def rest(self) -> None:
        """End a launcher that has started no process: the next one starts when a function needs it."""
        with self._lock:
            if not self._has_started:
                self._close_launcher()

    def _start_launcher(self) -> None:
        """Start the launcher. If the machine refuses the first one, functions run without walls. Raises NotStarted."""
        view = self._view or find_visible_files(self._data_dir, self._folders)
        try:
            self._stage.mkdir(parents=True, exist_ok=True)
            self._launcher = _Launcher(_plan(view, self._stage, self._trust_file()))
        except _Refused as error:
            if _Known.permitted:
                raise NotStarted(str(error)) from error
            _Known.refuse(str(error))
            return
        except OSError as error:
            # For example, too many processes, a full disk or a busy machine: do not give up the walls for these.
            raise NotStarted(str(error)) from error
        self._view, _Known.permitted = view, True

    def start(
        self,
        mounts: OwnMounts,
        arguments: Sequence[str],
        environment: Mapping[str, str],
    ) -> WalledProcess:
        """Start a process in /var/task. Raises NotStarted."""
        view = self._view
        assert view is not None
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "directory": str(TASK),
            **_process_mounts(view, mounts, self._data_dir),
        }
        for attempt in (1, 2):
            with self._lock:
                try:
                    if self._launcher is None and not self._is_closed:
                        self._start_launcher()
                    if self._launcher is None:
                        raise NotStarted("headrace is stopping")
                    self._has_started = True
                    return self._launcher.start(order)
                except (EOFError, BrokenPipeError, ConnectionError) as error:
                    # Somebody has killed the launcher, and with it all functions.
                    log.warning("the launcher of functions has ended; starting another one")
                    self._close_launcher()
                    if attempt == 2:
                        raise NotStarted("no launcher") from error
        raise AssertionError

    def close(self) -> None:
        """End the launcher, which ends every process that it has started."""
        with self._lock:
            self._is_closed = True
            self._close_launcher()

    def _close_launcher(self) -> None:
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.close()


NO_WALLS = (
    "Functions run with the rights of the user who started headrace and can read and change that user's files, "
    "the data directory among them"
)


class _Known:
    """The known answer to whether this machine permits walls. All clouds of this process share it."""

    permitted = False
    refusal: str | None = None

    @classmethod
    def refuse(cls, reason: str) -> None:
        """Record that this machine permits no walls, and log it once."""
        if cls.refusal is None:
            cls.refusal = reason
            log.warning("%s: this machine permits no walls around them (%s).", NO_WALLS, reason)


def _plan(view: VisibleFiles, stage: Path, trust: Path | None) -> dict[str, Any]:
    """Return the launcher's first message: the mounts for all functions. Those in /tmp and /opt come per process."""
    return {
        "stage": str(stage),
        "links": [[str(link), target] for link, target in view.links],
        "seen": [str(path) for path in view.seen if not _is_late(path)],
        "folders": [str(path) for path in view.folders if not _is_late(path)],
        "hidden": [str(path) for path in view.hidden],
        "copied": [] if trust is None else [[str(TRUST), str(trust)]],
    }


def _is_late(path: Path) -> bool:
    return path.is_relative_to(TMP) or path.is_relative_to(OPT)


def _process_mounts(view: VisibleFiles, mounts: OwnMounts, data_dir: Path) -> dict[str, Any]:
    """Return the mounts of one process for the launcher's message, as pairs of mount point and source."""
    own = [(TASK, mounts.code_dir)]
    late = [path for path in view.seen if _is_late(path)]
    shares_opt = any(path.is_relative_to(OPT) for path in (*late, *view.folders))
    if mounts.opt_dir is not None:
        # If an interpreter is in /opt (as on GitHub's runners), mount each entry of the layers next to it.
        layers = mounts.opt_dir
        own += (
            [(OPT / path.name, path) for path in layers.iterdir()]
            if shares_opt
            else [(OPT, layers)]
        )
    own += [(path, path) for path in late]
    hidden = [path for path in view.hidden if _is_late(path)]
    with contextlib.suppress(ValueError):
        # If the code is a user's folder, the data directory may be inside it.
        hidden.append(TASK / data_dir.resolve().relative_to(mounts.code_dir.resolve()))
    return {
        "tmp_mib": mounts.tmp_mib,
        "fresh_opt": shares_opt,
        "own": [[str(target), str(source)] for target, source in own],
        "own_folders": [str(path) for path in view.folders if _is_late(path)],
        "hidden": [str(path) for path in hidden],
    }


class _Launcher:
    """The launcher program and the socket to it. Only one thread may use it at a time."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        """Start the launcher. Raises _Refused when the machine permits no walls, OSError when resources are short."""
        if not sys.platform.startswith("linux"):
            raise _Refused("walls need Linux")
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                command_of(_LAUNCHER),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
                # A new session, so that Ctrl-C stops the cloud but not the launcher.
                start_new_session=True,
            )
        self._socket.settimeout(_ANSWER_WITHIN_S)
        try:
            answer, _ = self._ask(plan, [])
        except TimeoutError:
            self._process.kill()
            self.close()
            raise
        except (EOFError, OSError) as error:
            words = self._last_line()
            if not words:
                # The launcher was killed, perhaps for lack of memory, so it is still unknown if walls are possible.
                self._process.kill()
                self.close()
                raise OSError(f"the launcher ended without an error message ({error!r})") from error
            answer = {"error": words}
        for path, why in answer.get("skipped", ()):
            log.warning("functions do not see %s: %s", path, why)
        if "error" in answer:
            self.close()
            if answer.get("errno") in _FOR_NOW:
                raise OSError(answer["errno"], answer["error"])
            raise _Refused(answer["error"])

    def _last_line(self) -> str:
        """Return the last line that an ended launcher wrote, or "" when it still runs or wrote nothing."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, written = self._process.communicate(timeout=1)
            lines = written.decode("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def start(self, order: Mapping[str, Any]) -> WalledProcess:
        """Start a process. Raises NotStarted, or EOFError or OSError when the launcher has ended."""
        pipes = [os.pipe() for _ in range(3)]
        reading, writing = [pipe[0] for pipe in pipes], [pipe[1] for pipe in pipes]
        try:
            answer, descriptors = self._ask(order, writing)
            if "error" in answer:
                raise NotStarted(answer["error"])
        except BaseException:
            _close(reading)
            raise
        finally:
            _close(writing)
        output, status, error = reading
        process = WalledProcess(answer["pid"], descriptors[0], output, status)
        refusal = _read_all(error)
        if refusal:
            process.release()
            os.close(output)
            raise NotStarted(refusal.partition(b" ")[2].decode("utf-8", "replace"))
        return process

    def _ask(
        self, message: Mapping[str, Any], descriptors: list[int]
    ) -> tuple[dict[str, Any], list[int]]:
        data = json.dumps(message).encode()
        framed = _LENGTH.pack(len(data)) + data
        sent = socket.send_fds(self._socket, [framed], descriptors)
        self._socket.sendall(framed[sent:])
        received: list[int] = []
        answer = b""
        while (
            len(answer) < _LENGTH.size
            or len(answer) < _LENGTH.size + _LENGTH.unpack_from(answer)[0]
        ):
            part, fds, _, _ = socket.recv_fds(self._socket, 65536, 1)
            if not part:
                raise EOFError
            for descriptor in fds:
                os.set_inheritable(descriptor, False)
            received += fds
            answer += part
        return json.loads(answer[_LENGTH.size :]), received

    def close(self) -> None:
        """End the launcher."""
        self._socket.close()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _is_readable(descriptor: int, wait_ms: int | None) -> bool:
    """Whether a descriptor becomes readable within `wait_ms` (None: for ever). `select` refuses high descriptors."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(wait_ms))


def _read_all(descriptor: int) -> bytes:
    """Read until the other end is closed, which happens when the function's program runs or could not be started."""
    with open(descriptor, "rb") as file:
        return file.read()


class WalledProcess:
    """A process behind walls. Implements `FunctionProcess`."""

    def __init__(self, pid: int, pidfd: int, output: int, status: int) -> None:
        """Take a started process: the id and pidfd of its namespace's process 1, its output, and its status pipe."""
        self.pid = pid
        self.top_pid: int | None = pid
        self.output = output
        self.end_signal: int | None = pidfd
        self._pidfd = pidfd
        self._status = status
        # Process 1 of the namespace is not the function's own.
        self.memory = FamilyMemory(pid, counts_itself=False)
        self._lock = threading.Lock()
        self._result: int | None = None
        self._is_released = False

    @property
    def has_ended(self) -> bool:
        """See `FunctionProcess.has_ended`."""
        return self._result is not None or _is_readable(self._pidfd, 0)

    def wait(self) -> int:
        """See `FunctionProcess.wait`."""
        if self._result is None:
            _is_readable(self._pidfd, None)
            status = os.read(self._status, _STATUS.size)
            if len(status) == _STATUS.size:
                self._result = os.waitstatus_to_exitcode(_STATUS.unpack(status)[0])
            else:
                # Process 1 of the namespace was killed, and with it all others.
                self._result = -signal.SIGKILL
        return self._result

    def kill(self) -> None:
        """See `FunctionProcess.kill`."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if not self._is_released:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def release(self) -> None:
        """See `FunctionProcess.release`."""
        self.kill()
        self.wait()
        with self._lock:
            self._is_released = True
            _close([self._pidfd, self._status])
            self.memory.close()
