"""A program that starts function processes in Linux namespaces ("behind walls"). Each cloud runs one.

It uses only the standard library. At its start it enters a user and a mount namespace, and mounts there the files that
every function may see (`walls.py` lists them). For each function process it clones itself into new namespaces (mounts,
processes, IPC), mounts the function's code, layers, `/tmp` and `/proc`, removes the machine's other files with
`pivot_root`, drops every capability, and then runs the function's interpreter. A clone takes a millisecond; `unshare`
and `mount` would each be a program to start.

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
import signal
import socket
import stat
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

# --- Linux's constants (include/uapi/linux/{sched,mount,prctl,capability}.h) ----------------

_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWIPC = 0x0800_0000
_CLONE_NEWUSER = 0x1000_0000
_CLONE_NEWPID = 0x2000_0000
_CLONE_PIDFD = 0x0000_1000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_NOEXEC = 1, 2, 4, 8
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_CAPABILITY_VERSION_3 = 0x2008_0522
# Newer system calls have the same number on every architecture, but pivot_root does not.
_SYS_CLONE3, _SYS_MOUNT_SETATTR = 435, 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}

_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
# PyDLL keeps Python's global interpreter lock during a call, so that a clone returns with the lock held.
_libc = ctypes.PyDLL(None, use_errno=True)


class _CloneArguments(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            *("flags", "pidfd", "child_tid", "parent_tid"),
            *("exit_signal", "stack", "stack_size", "tls"),
        )
    ]


class _MountAttributes(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")
    ]


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    encoded = [os.fsencode(text) for text in (source, target, kind, data)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]), f"mount {target}")


def _bind(source: str, target: str, attributes: int) -> None:
    """Bind-mount `source`, with all mounts below it, at `target`, which must exist."""
    _mount(source, target, "", _MS_BIND | _MS_REC)
    _restrict(target, attributes)


def _restrict(target: str, attributes: int) -> None:
    """Add restrictions to a mount and to all mounts below it; restrictions that they already have stay."""
    wanted = _MountAttributes(attr_set=attributes)
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(target),
        _AT_RECURSIVE,
        ctypes.byref(wanted),
        ctypes.sizeof(wanted),
    )
    _check(result, f"mount_setattr {target}")


def _prctl(option: int, value: int) -> int:
    nothing = ctypes.c_ulong(0)
    return _libc.prctl(option, ctypes.c_ulong(value), nothing, nothing, nothing)


# --- the root that all functions share ------------------------------------------------------------


def _enter_namespaces() -> None:
    """Enter a user and a mount namespace, in which this process may mount. Its user id stays the same."""
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS) < 0:
        number = ctypes.get_errno()
        # ENOSPC is not about a disk here.
        why = "no more are allowed" if number == errno.ENOSPC else os.strerror(number)
        raise OSError(number, f"user namespaces: {why}")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    # Later mounts of the machine appear here too, but mounts made here do not appear on the machine.
    _mount("none", "/", "", _MS_REC | _MS_SLAVE)


def _make_place(stage: str, path: str, source: str) -> str:
    """Make and return a mount point for `source` below `stage`: a directory or an empty file."""
    place = stage + path
    if os.path.lexists(place):
        return place
    if stat.S_ISDIR(os.stat(source).st_mode):
        os.makedirs(place)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o444))
    return place


def _lay_out(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Build the root directory of all functions at `stage`. Return the paths that could not be mounted, and why."""
    stage: str = plan["stage"]
    _mount("functions", stage, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=8m,mode=755")
    for path, target in plan["links"]:
        os.makedirs(os.path.dirname(stage + path), exist_ok=True)
        os.symlink(target, stage + path)
    for path in ("/proc", "/tmp", "/opt", "/dev", "/var/task", *plan["folders"]):
        os.makedirs(stage + path, exist_ok=True)
    for name, target in _LINKS.items():
        os.symlink(target, f"{stage}/dev/{name}")
    devices = [f"/dev/{name}" for name in _DEVICES if os.path.exists(f"/dev/{name}")]
    for device in devices:
        _make_place(stage, device, device)
    skipped = _show(stage, plan["seen"])
    # Make all this read-only before mounting devices and shared folders, which functions may write to.
    _restrict(stage, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV)
    for device in devices:
        _bind(device, stage + device, _ATTR_NOSUID | _ATTR_NOEXEC)
    for path in plan["folders"]:
        _bind(path, stage + path, _ATTR_NOSUID | _ATTR_NODEV)
    _hide(plan["hidden"], stage)
    return skipped


def _show(stage: str, paths: Sequence[str]) -> list[tuple[str, str]]:
    """Mount paths of the machine below `stage` at the same paths. Return those that could not be mounted, and why."""
    skipped: list[tuple[str, str]] = []
    for path in paths:
        try:
            _mount(path, _make_place(stage, path, path), "", _MS_BIND | _MS_REC)
        except OSError as failure:
            # For example, a network folder that even root may not enter: leave it out, but keep the walls.
            skipped.append((path, str(failure)))
    return skipped


def _hide(paths: Sequence[str], root: str) -> None:
    """Mount something empty over the paths that can be seen."""
    for path in paths:
        place = root + path
        try:
            mode = os.stat(place).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV
            _mount("hidden", place, "tmpfs", flags, "size=4k,mode=555")
        else:
            _mount("/dev/null", place, "", _MS_BIND)


# --- a process --------------------------------------------------------------------------------------


def _clone() -> tuple[int, int]:
    """Fork into new namespaces. Return the process id (0 in the clone) and its pidfd."""
    pidfd = ctypes.c_int(-1)
    wanted = _CloneArguments(
        flags=_CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC | _CLONE_PIDFD,
        pidfd=ctypes.addressof(pidfd),
        exit_signal=signal.SIGCHLD,
    )
    result = _libc.syscall(_SYS_CLONE3, ctypes.byref(wanted), ctypes.sizeof(wanted))
    return _check(result, "clone3"), pidfd.value


def _mount_own(stage: str, wanted: Mapping[str, Any]) -> None:
    """Mount this process's own folders in the shared root, and make that root the process's root."""
    read_only = _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV
    size_mib = int(wanted["tmp_mib"])
    # Limit the number of files to that of a usual file system of this size.
    options = f"size={size_mib}m,nr_inodes={size_mib * 64},mode=1777"
    _mount("tmp", f"{stage}/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, options)
    if wanted["fresh_opt"]:
        _mount("opt", f"{stage}/opt", "tmpfs", _MS_NOSUID | _MS_NODEV, "size=4m,mode=755")
    for path, source in wanted["own"]:
        _bind(source, _make_place(stage, path, source), read_only)
    if wanted["fresh_opt"]:
        _restrict(f"{stage}/opt", read_only)
    for path in wanted["own_folders"]:
        _bind(path, _make_place(stage, path, path), _ATTR_NOSUID | _ATTR_NODEV)
    _hide(wanted["hidden"], stage)
    # Mount the new /proc while the machine's own is still visible: otherwise Linux refuses it.
    flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _mount("proc", f"{stage}/proc", "proc", flags)
    os.chdir(stage)
    _check(_libc.syscall(_SYS_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    # After this pivot_root, the machine's root covers the new one until it is unmounted.
    _check(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


def _drop_capabilities() -> None:
    """Drop every capability permanently: with capabilities, a process could undo the walls in these namespaces."""
    number = 0
    while _prctl(_PR_CAPBSET_DROP, number) == 0:
        number += 1
    # The header has the version and this process (0); all capability sets are empty.
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1), "no_new_privs")
    # Other processes must not read this memory, which still holds the environment variables of other functions.
    _check(_prctl(_PR_SET_DUMPABLE, 0), "dumpable")


def _run_function(wanted: Mapping[str, Any], output: int, error: int) -> NoReturn:
    """Run the function's program in place of this one, in a new session, with only its standard streams open."""
    os.setsid()
    os.umask(0o022)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(wanted["directory"])
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execve(wanted["arguments"][0], wanted["arguments"], wanted["environment"])
    except OSError as failure:
        _report_failure(error, failure)
    os._exit(127)


def _report_failure(error: int, failure: OSError) -> None:
    """Write the reason why the function did not start: an error number and a text."""
    os.write(error, f"{failure.errno or errno.EINVAL} {failure.strerror or failure}".encode())


def _run_as_process_1(
    stage: str, wanted: Mapping[str, Any], output: int, status: int, error: int
) -> NoReturn:
    """Run as process 1 of a function's namespace: start the function, wait for it, report how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _check(_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "pdeathsig")
        _mount_own(stage, wanted)
        _drop_capabilities()
        function = os.fork()
    except OSError as failure:
        _report_failure(error, failure)
        os._exit(1)
    if function == 0:
        _run_function(wanted, output, error)
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
        part, given, _, _ = socket.recv_fds(server, 65536, 3)
        if not part:
            return None
        for descriptor in given:
            os.set_inheritable(descriptor, False)
        descriptors += given
        data += part
    return json.loads(data[_LENGTH.size :]), descriptors


def _answer(server: socket.socket, message: Mapping[str, Any], descriptors: list[int]) -> None:
    data = json.dumps(message).encode()
    socket.send_fds(server, [_LENGTH.pack(len(data)) + data], descriptors)


def _start(
    server: socket.socket, stage: str, wanted: Mapping[str, Any], descriptors: list[int]
) -> None:
    output, status, error = descriptors
    try:
        pid, pidfd = _clone()
    except OSError as failure:
        _answer(server, {"error": str(failure), "errno": failure.errno}, [])
    else:
        if pid == 0:
            server.close()
            _run_as_process_1(stage, wanted, output, status, error)
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
        _enter_namespaces()
        skipped = _lay_out(plan)
        _prctl(_PR_SET_DUMPABLE, 0)
    except (OSError, KeyError) as failure:
        number = failure.errno if isinstance(failure, OSError) else None
        _answer(server, {"error": str(failure), "errno": number}, [])
        return
    _answer(server, {"skipped": skipped}, [])
    while (message := _receive(server)) is not None:
        _start(server, plan["stage"], *message)


if __name__ == "__main__":
    sys.exit(main())
