"""A program that runs one server behind walls until its standard input closes, however the cloud ends.

Its argument is a plan in JSON (`Plan` in `headrace.walls.walled_server`). The server sees the files that the plan
names, read-only, and its own folders, from which no program can run; nothing else exists for it: no shell, no other
program, no other process. It shares the machine's network. The server is process 1 of its namespace, so that the kernel
ends all of it.

When standard input closes, the server gets the plan's stop signal; SIGQUIT to this program is passed on.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from headrace.walls import namespaces as ns

# The exit status when the machine permits no walls; the reason is on standard error.
REFUSED = 78
_MEMORY = "/dev/shm"


def _lay_out(plan: Mapping[str, Any]) -> None:
    """Build the server's root directory. Raises OSError."""
    stage: str = plan["stage"]
    ns.mount("server", stage, "tmpfs", ns.MS_NOSUID | ns.MS_NODEV, "size=8m,mode=755")
    for path in ("/proc", "/tmp", _MEMORY):
        os.makedirs(stage + path, exist_ok=True)
    devices = ns.make_devices(stage)
    flags = ns.MS_NOSUID | ns.MS_NODEV | ns.MS_NOEXEC
    # First, because it would hide what was mounted below it before.
    ns.mount("own", stage + _MEMORY, "tmpfs", flags, f"size={plan['memory_mib']}m,mode=1777")
    for path, source in plan["seen"]:
        target = ns.make_place(stage, path, source)
        ns.bind(source, target, ns.ATTR_RDONLY | ns.ATTR_NOSUID | ns.ATTR_NODEV)
    places = [(path, ns.make_place(stage, path, path)) for path in plan["folders"]]
    _close_folders(stage + _MEMORY, [target for _, target in places])
    # Not what is mounted below it: its /dev/shm stays writable, and the rest has its own restrictions.
    ns.restrict(stage, ns.ATTR_RDONLY | ns.ATTR_NOSUID | ns.ATTR_NODEV, recursive=False)
    ns.bind_devices(stage, devices)
    for path, target in places:
        ns.bind(path, target, ns.ATTR_NOSUID | ns.ATTR_NODEV | ns.ATTR_NOEXEC)


def _close_folders(top: str, places: Sequence[str]) -> None:
    """Let nothing be written into the folders between `top` and the places below it."""
    for path in places:
        folder = os.path.dirname(path)
        while folder.startswith(f"{top}/"):
            os.chmod(folder, 0o555)
            folder = os.path.dirname(folder)


def _run(plan: Mapping[str, Any]) -> NoReturn:
    """Become the server. Runs as process 1 of the new process namespace."""
    try:
        os.setsid()
        _lay_out(plan)
        ns.enter_root(plan["stage"])
        ns.drop_capabilities()
        # After the capabilities are gone: the kernel forgets it when they change.
        ns.check(ns.prctl(ns.PR_SET_PDEATHSIG, signal.SIGKILL), "pdeathsig")
        os.umask(0o077)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.execve(plan["arguments"][0], plan["arguments"], plan["environment"])
    except OSError as failure:
        os.write(2, f"walls: {failure}\n".encode())
    os._exit(REFUSED)


def _enter(plan: Mapping[str, Any]) -> None:
    ns.enter_namespaces(user=plan["user"], more=ns.CLONE_NEWPID | ns.CLONE_NEWIPC)


def main() -> int:
    """Run the server; return its exit status, or `REFUSED`."""
    plan = json.loads(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _enter(plan)
    except OSError as failure:
        sys.stderr.write(f"walls: {failure}\n")
        return REFUSED
    server = os.fork()
    if server == 0:
        _run(plan)

    def pass_on(number: int, _: object) -> None:
        os.kill(server, number)

    signal.signal(signal.SIGQUIT, pass_on)
    ended = os.pidfd_open(server)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, select.POLLIN)
    while all(descriptor != ended for descriptor, _ in poll.poll()):
        if os.read(0, 1024) == b"":
            poll.unregister(0)
            with contextlib.suppress(ProcessLookupError):
                os.kill(server, plan["stop_signal"])
    return os.waitstatus_to_exitcode(os.waitpid(server, 0)[1]) & 0xFF
