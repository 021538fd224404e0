"""Walls around functions: each sees its code, its layers, the interpreter and the system, and writes only to its /tmp.

Linux namespaces, entered by a launcher (`launcher.py`), for root and for ordinary users alike. Where the system permits
none (other systems, many containers, `sysctl kernel.apparmor_restrict_unprivileged_userns=1`), functions run with the
cloud's own rights (see `isolation`), and headrace logs that once.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.services.lambda_.runtime.memory import children_memory_bytes
from headrace.services.lambda_.runtime.process import NotStarted
from headrace.services.lambda_.runtime.view import OPT, TASK, TMP, View, make_view

log = logging.getLogger(__name__)

_LAUNCHER = Path(__file__).with_name("launcher.py")
_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")
_ANSWER_WITHIN_S = 30.0
# Errors of a machine that lacks something now and may have it later.
_FOR_NOW = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class _Refused(Exception):
    """The machine does not permit walls; the text says what it refused."""


@dataclass(frozen=True, slots=True)
class OwnMounts:
    """What is mounted for one process alone.

    Attributes:
        code_dir: becomes /var/task.
        opt_dir: becomes /opt; None without layers.
        tmp_mib: the size of /tmp.
    """

    code_dir: Path
    opt_dir: Path | None
    tmp_mib: int


class Walls:
    """Starts processes behind walls, through one launcher. Thread-safe."""

    def __init__(self, data_dir: Path, folders: Sequence[Path] = ()) -> None:
        """Take the cloud's data directory, and folders of the user's in which functions may write."""
        self._data_dir = data_dir
        self._stage = data_dir / "lambda" / "root"
        self._folders = tuple(folders)
        self._lock = threading.Lock()
        self._launcher: _Launcher | None = None
        self._view: View | None = None
        self._is_closed = False

    @property
    def are_known(self) -> bool:
        """Whether headrace has found out yet if this machine permits walls."""
        return self._view is not None or _Known.permitted or self.are_missing

    @property
    def are_missing(self) -> bool:
        """Whether this machine is known to permit none."""
        return _Known.refusal is not None

    def view(self) -> View | None:
        """Return what functions see, with a launcher running; None where there are no walls. Raises NotStarted."""
        if self.are_missing:
            return None
        with self._lock:
            if self._is_closed:
                raise NotStarted("headrace is stopping")
            if self._launcher is None:
                self._start_launcher()
            return self._view

    def _start_launcher(self) -> None:
        """Start the launcher; when the machine refuses the first one, there are no walls. Raises NotStarted."""
        view = self._view or make_view(self._data_dir, self._folders)
        try:
            self._stage.mkdir(parents=True, exist_ok=True)
            self._launcher = _Launcher(_plan(view, self._stage))
        except _Refused as error:
            if _Known.permitted:
                raise NotStarted(str(error)) from error
            _Known.refuse(str(error))
            return
        except OSError as error:
            # Too many processes, a full disk, a machine too busy to answer: no reason to run functions without walls.
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
        wanted = {
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
                    return self._launcher.start(wanted)
                except (EOFError, BrokenPipeError, ConnectionError) as error:
                    # Somebody has killed it, and all functions with it.
                    log.warning("the launcher of functions has ended; starting another one")
                    self._close_launcher()
                    if attempt == 2:
                        raise NotStarted("no launcher") from error
        raise AssertionError

    def close(self) -> None:
        """End the launcher, and with it every process that it started."""
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
    """Whether this machine permits walls, once it is known; one for the whole program."""

    permitted = False
    refusal: str | None = None

    @classmethod
    def refuse(cls, reason: str) -> None:
        """Note that there are no walls, and log it once."""
        if cls.refusal is None:
            cls.refusal = reason
            log.warning("%s: this machine permits no walls around them (%s).", NO_WALLS, reason)


def _plan(view: View, stage: Path) -> dict[str, Any]:
    """Return what the launcher lays out for all functions: what lies in /tmp or /opt comes with each process."""
    return {
        "stage": str(stage),
        "links": [[str(link), target] for link, target in view.links],
        "seen": [str(path) for path in view.seen if not _is_late(path)],
        "folders": [str(path) for path in view.folders if not _is_late(path)],
        "hidden": [str(path) for path in view.hidden],
    }


def _is_late(path: Path) -> bool:
    return path.is_relative_to(TMP) or path.is_relative_to(OPT)


def _process_mounts(view: View, mounts: OwnMounts, data_dir: Path) -> dict[str, Any]:
    """Return the part of the launcher's message that describes a process's mounts: pairs of place and source."""
    own = [(TASK, mounts.code_dir)]
    late = [path for path in view.seen if _is_late(path)]
    shares_opt = any(path.is_relative_to(OPT) for path in (*late, *view.folders))
    if mounts.opt_dir is not None:
        # An interpreter in /opt (GitHub's runners have it there) lies beside the layers.
        layers = mounts.opt_dir
        own += (
            [(OPT / path.name, path) for path in layers.iterdir()]
            if shares_opt
            else [(OPT, layers)]
        )
    own += [(path, path) for path in late]
    hidden = [path for path in view.hidden if _is_late(path)]
    with contextlib.suppress(ValueError):
        # A folder of the user's as code may hold the data directory.
        hidden.append(TASK / data_dir.resolve().relative_to(mounts.code_dir.resolve()))
    return {
        "tmp_mib": mounts.tmp_mib,
        "fresh_opt": shares_opt,
        "own": [[str(place), str(source)] for place, source in own],
        "own_folders": [str(path) for path in view.folders if _is_late(path)],
        "hidden": [str(path) for path in hidden],
    }


class _Launcher:
    """The launcher program and the socket to it. One thread at a time."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        """Start it. Raises _Refused when the machine permits no walls, OSError when it has no room for a launcher."""
        if not sys.platform.startswith("linux"):
            raise _Refused("walls need Linux")
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCHER)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
                # A session of its own: Ctrl-C is for the cloud, not for the launcher.
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
            words = self._last_words()
            if not words:
                # Killed, perhaps for want of memory: whether there are walls it has not said.
                self._process.kill()
                self.close()
                raise OSError(f"the launcher ended without a word ({error!r})") from error
            answer = {"error": words}
        for path, why in answer.get("skipped", ()):
            log.warning("functions do not see %s: %s", path, why)
        if "error" in answer:
            self.close()
            if answer.get("errno") in _FOR_NOW:
                raise OSError(answer["errno"], answer["error"])
            raise _Refused(answer["error"])

    def _last_words(self) -> str:
        """Return the last line of what an ended launcher wrote, empty when it runs or wrote nothing."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, written = self._process.communicate(timeout=1)
            lines = written.decode("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def start(self, wanted: Mapping[str, Any]) -> WalledProcess:
        """Start a process. Raises NotStarted; EOFError and OSError when the launcher is gone."""
        pipes = [os.pipe() for _ in range(3)]
        reading, writing = [pipe[0] for pipe in pipes], [pipe[1] for pipe in pipes]
        try:
            answer, descriptors = self._ask(wanted, writing)
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
            part, given, _, _ = socket.recv_fds(self._socket, 65536, 1)
            if not part:
                raise EOFError
            for descriptor in given:
                os.set_inheritable(descriptor, False)
            received += given
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
    """Whether a descriptor is readable within a time, or ever when it is None. `select` takes no large descriptors."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(wait_ms))


def _read_all(descriptor: int) -> bytes:
    """Read to the end, which comes when the function's program runs or could not be run."""
    with open(descriptor, "rb") as file:
        return file.read()


class WalledProcess:
    """A process behind walls: implements `FunctionProcess`."""

    def __init__(self, pid: int, pidfd: int, output: int, status: int) -> None:
        """Take a started process: id and pidfd of its namespace's first one, its output, the pipe of its status."""
        self.pid = pid
        self.output = output
        self.end_signal: int | None = pidfd
        self._pidfd = pidfd
        self._status = status
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
            told = os.read(self._status, _STATUS.size)
            if len(told) == _STATUS.size:
                self._result = os.waitstatus_to_exitcode(_STATUS.unpack(told)[0])
            else:
                # Its first process was killed, and all others with it.
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

    def memory_bytes(self) -> int:
        """See `FunctionProcess.memory_bytes`."""
        return children_memory_bytes(self.pid)
