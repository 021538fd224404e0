"""A process that has imported headrace and moto and forks clouds: a test's cloud does not import it all once more.

Run as a module it answers requests on its standard input, one JSON document a line: {"argv", "log", "cwd", "env",
"before"}. It answers with the pid of a new process, which has a session of its own, as if it had been started from a
shell. It ends when its input does, or when the process that has started it ends, whose other children may hold the
input open; its clouds end with it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_IMPORTED = ("headrace.cli.commands", "headrace.cli.run", "headrace.cloud")


class WarmServer:
    """Starts clouds by the process of this module, for one interpreter. For one thread."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-m", __name__, str(os.getpid())],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.stop)

    def start(self, argv: Sequence[str], log: Path, before: str = "") -> ForkedProcess:
        """Start `headrace ARGV`; both its outputs go to the end of `log`.

        `before` names a function, `module:function`, that its process calls first.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "argv": argv, "log": str(log), "cwd": str(Path.cwd()), "env": dict(os.environ), "before": before,
        }  # fmt: skip
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return ForkedProcess(int(self._process.stdout.readline()))

    def stop(self) -> None:
        """End the process and, with it, its clouds."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class ForkedProcess:
    """A process that another has forked: of `subprocess.Popen` what a test needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def poll(self) -> bool | None:
        """Return None while it runs."""
        return self._has_ended(0) or None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended. Raises subprocess.TimeoutExpired."""
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)

    def terminate(self) -> None:
        """Ask it to stop."""
        signal.pidfd_send_signal(self._descriptor, signal.SIGTERM)

    def kill(self) -> None:
        """Kill it; not its children."""
        signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def _has_ended(self, within_s: float | None) -> bool:
        return bool(select.select([self._descriptor], [], [], within_s)[0])


_servers: dict[str, WarmServer] = {}


def warm_server(python: str) -> WarmServer:
    """Return this process's server for an interpreter."""
    if python not in _servers:
        _servers[python] = WarmServer(python)
    return _servers[python]


def end_with(parent: int) -> None:
    """Let the kernel stop this process (SIGTERM) when `parent`, whose child it is, ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    # It may have ended before.
    if os.getppid() != parent:
        os._exit(1)


def become_cloud(arguments: Sequence[str], log: str, parent: int) -> NoReturn:
    """Make this forked process `headrace ARGUMENTS`, in a session of its own; both outputs go to the end of `log`.

    It ends with `parent`, the process that has forked it.
    """
    code = 1
    try:
        end_with(parent)
        os.setsid()
        with Path(log).open("ab") as sink, Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(sink.fileno(), 1)
            os.dup2(sink.fileno(), 2)
        from headrace.cli.main import main

        sys.argv = ["headrace", *arguments]
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - it goes to the log
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _warm_up() -> None:
    """Do what each cloud would do again: import headrace and moto, patch moto, ask for Node.js and for walls."""
    for name in _IMPORTED:
        importlib.import_module(name)
    from headrace.aws.protocols.moto_imports import IMPORTING
    from headrace.composition.foundation import load_patches
    from headrace.moto.engine import MOTO_LOCK
    from headrace.moto.patching import start_empty
    from headrace.services.lambda_.runtime import namespaces
    from headrace.services.lambda_.runtime.environment import find_node_program

    with MOTO_LOCK, IMPORTING:
        start_empty(load_patches())
    find_node_program()
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(namespaces.NotStarted):
        walls = namespaces.Namespaces(Path(folder), trust_file=lambda: None)
        walls.view()
        walls.close()
    # Each cloud says for itself that it has none.
    namespaces._Known.refusal = None


def _serve() -> None:
    _warm_up()
    # What is imported is shared with the children, until somebody writes on it.
    gc.collect()
    gc.freeze()
    # The kernel takes the children's ends.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getpid()
    while line := sys.stdin.readline():
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.chdir(request["cwd"])
            os.environ.clear()
            os.environ.update(request["env"])
            if request["before"]:
                module, _, function = request["before"].partition(":")
                getattr(importlib.import_module(module), function)()
            become_cloud(request["argv"], request["log"], parent)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    _serve()
