"""A program that starts function processes in Linux namespaces ("behind walls"). Each cloud runs one.

It uses only the standard library and `headrace.walls.namespaces`. At its start it enters a user and a mount namespace,
and mounts there the files that every function may see (`visible_files.py` lists them). For each function process it
clones itself into new namespaces (mounts, processes, IPC), mounts the function's code, layers, `/tmp` and `/proc`,
removes the machine's other files with `pivot_root`, drops every capability, and then runs the function's interpreter.
A clone takes a millisecond; `unshare` and `mount` would each be a program to start.

The clone is process 1 of its process namespace. It waits for the function and reports how the function ended. When the
clone ends, the kernel ends every process of the function. The launcher ends when its socket closes, which happens
however the cloud ends; then the kernel kills all clones.

A message is a length and JSON on the socket that is standard input; file descriptors are sent with it. Needs Linux 5.12
(mount_setattr). The cloud's process imports nothing from here.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import socket
import struct
from collections.abc import Mapping
from typing import Any, NoReturn

from headrace.walls import namespaces as ns

# Linux's constants (include/uapi/linux/sched.h).
_CLONE_PIDFD = 0x0000_1000
_SYS_CLONE3 = 435

_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")


class _CloneArguments(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            *("flags", "pidfd", "child_tid", "parent_tid"),
            *("exit_signal", "stack", "stack_size", "tls"),
        )
    ]


# --- the root that all functions share ------------------------------------------------------------


def _lay_out(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Build the root directory of all functions at `stage`. Return the paths that could not be mounted, and why."""
    stage: str = plan["stage"]
    ns.mount("functions", stage, "tmpfs", ns.MS_NOSUID | ns.MS_NODEV, "size=8m,mode=755")
    for path, target in plan["links"]:
        os.makedirs(os.path.dirname(stage + path), exist_ok=True)
        os.symlink(target, stage + path)
    for path in ("/proc", "/tmp", "/opt", "/var/task", *plan["folders"]):
        os.makedirs(stage + path, exist_ok=True)
    for path, source in plan["copied"]:
        os.makedirs(os.path.dirname(stage + path), exist_ok=True)
        shutil.copyfile(source, stage + path)
    devices = ns.make_devices(stage)
    skipped = ns.show(stage, plan["seen"])
    # Make all this read-only before mounting devices and shared folders, which functions may write to.
    ns.restrict(stage, ns.ATTR_RDONLY | ns.ATTR_NOSUID | ns.ATTR_NODEV)
    ns.bind_devices(stage, devices)
    for path in plan["folders"]:
        ns.bind(path, stage + path, ns.ATTR_NOSUID | ns.ATTR_NODEV)
    ns.hide(plan["hidden"], stage)
    return skipped


# --- a process --------------------------------------------------------------------------------------


def _clone() -> tuple[int, int]:
    """Fork into new namespaces. Return the process id (0 in the clone) and its pidfd."""
    pidfd = ctypes.c_int(-1)
    clone_arguments = _CloneArguments(
        flags=ns.CLONE_NEWNS | ns.CLONE_NEWPID | ns.CLONE_NEWIPC | _CLONE_PIDFD,
        pidfd=ctypes.addressof(pidfd),
        exit_signal=signal.SIGCHLD,
    )
    result = ns.libc.syscall(
        _SYS_CLONE3, ctypes.byref(clone_arguments), ctypes.sizeof(clone_arguments)
    )
    return ns.check(result, "clone3"), pidfd.value


def _mount_own(stage: str, order: Mapping[str, Any]) -> None:
    """Mount this process's own folders in the shared root, and make that root the process's root."""
    read_only = ns.ATTR_RDONLY | ns.ATTR_NOSUID | ns.ATTR_NODEV
    size_mib = int(order["tmp_mib"])
    # Limit the number of files to that of a usual file system of this size.
    options = f"size={size_mib}m,nr_inodes={size_mib * 64},mode=1777"
    ns.mount("tmp", f"{stage}/tmp", "tmpfs", ns.MS_NOSUID | ns.MS_NODEV, options)
    if order["fresh_opt"]:
        ns.mount("opt", f"{stage}/opt", "tmpfs", ns.MS_NOSUID | ns.MS_NODEV, "size=4m,mode=755")
    for path, source in order["own"]:
        ns.bind(source, ns.make_place(stage, path, source), read_only)
    if order["fresh_opt"]:
        ns.restrict(f"{stage}/opt", read_only)
    for path in order["own_folders"]:
        ns.bind(path, ns.make_place(stage, path, path), ns.ATTR_NOSUID | ns.ATTR_NODEV)
    ns.hide(order["hidden"], stage)
    ns.enter_root(stage)


def _run_function(order: Mapping[str, Any], output: int, error: int) -> NoReturn:
    """Run the function's program in place of this one, in a new session, with only its standard streams open."""
    os.setsid()
    os.umask(0o022)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(order["directory"])
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execve(order["arguments"][0], order["arguments"], order["environment"])
    except OSError as failure:
        _report_failure(error, failure)
    os._exit(127)


def _report_failure(error: int, failure: OSError) -> None:
    """Write the reason why the function did not start: an error number and a text."""
    os.write(error, f"{failure.errno or errno.EINVAL} {failure.strerror or failure}".encode())


def _run_as_process_1(
    stage: str, order: Mapping[str, Any], output: int, status: int, error: int
) -> NoReturn:
    """Run as process 1 of a function's namespace: start the function, wait for it, report how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ns.check(ns.prctl(ns.PR_SET_PDEATHSIG, signal.SIGKILL), "pdeathsig")
        _mount_own(stage, order)
        ns.drop_capabilities()
        function = os.fork()
    except OSError as failure:
        _report_failure(error, failure)
        os._exit(1)
    if function == 0:
        _run_function(order, output, error)
    os.close(output)
    os.close(error)
    while True:
        # Orphaned processes of the function become children of this process.
        pid, ended = os.waitpid(-1, 0)
        if pid == function:
            os.write(status, _STATUS.pack(ended))
            # When this process exits, the kernel ends all others in the namespace.
            os._exit(0)


# --- messages ----------------------------------------------------------------------------------------


def _receive(server: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and its descriptors, or None when the cloud has ended."""
    descriptors: list[int] = []
    data = b""
    while len(data) < _LENGTH.size or len(data) < _LENGTH.size + _LENGTH.unpack_from(data)[0]:
        part, fds, _, _ = socket.recv_fds(server, 65536, 3)
        if not part:
            return None
        for descriptor in fds:
            os.set_inheritable(descriptor, False)
        descriptors += fds
        data += part
    return json.loads(data[_LENGTH.size :]), descriptors


def _answer(server: socket.socket, message: Mapping[str, Any], descriptors: list[int]) -> None:
    data = json.dumps(message).encode()
    socket.send_fds(server, [_LENGTH.pack(len(data)) + data], descriptors)


def _start(
    server: socket.socket, stage: str, order: Mapping[str, Any], descriptors: list[int]
) -> None:
    output, status, error = descriptors
    try:
        pid, pidfd = _clone()
    except OSError as failure:
        _answer(server, {"error": str(failure), "errno": failure.errno}, [])
    else:
        if pid == 0:
            server.close()
            _run_as_process_1(stage, order, output, status, error)
        _answer(server, {"pid": pid}, [pidfd])
        os.close(pidfd)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def main() -> None:
    """Build the root directory that the first message describes, then start a process for each further message."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The kernel removes ended clones at once; the cloud learns of their end from the pidfd.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    first = _receive(server)
    if first is None:
        return
    plan, _ = first
    try:
        ns.enter_namespaces()
        skipped = _lay_out(plan)
        ns.prctl(ns.PR_SET_DUMPABLE, 0)
    except (OSError, KeyError) as failure:
        number = failure.errno if isinstance(failure, OSError) else None
        _answer(server, {"error": str(failure), "errno": number}, [])
        return
    _answer(server, {"skipped": skipped}, [])
    while (message := _receive(server)) is not None:
        _start(server, plan["stage"], *message)
