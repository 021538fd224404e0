"""Linux's namespaces and mounts, by system calls: what the launchers of walled processes share.

It uses only the standard library, and the cloud's process does not import it: a launcher does, before it has threads.
Needs Linux 5.12 (mount_setattr). Raises OSError, whose text names the call that failed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence

# --- Linux's constants (include/uapi/linux/{sched,mount,prctl,capability}.h) ----------------

CLONE_NEWNS = 0x0002_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 1, 2, 4, 8
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITY_VERSION_3 = 0x2008_0522
# Newer system calls have the same number on every architecture, but pivot_root does not.
_SYS_MOUNT_SETATTR = 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}

_DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
# PyDLL keeps Python's global interpreter lock during a call, so that a clone returns with the lock held.
libc = ctypes.PyDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")
    ]


def check(result: int, what: str) -> int:
    """Return the result of a system call. Raises OSError when it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system."""
    encoded = [os.fsencode(text) for text in (source, target, kind, data)]
    check(libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]), f"mount {target}")


def bind(source: str, target: str, attributes: int) -> None:
    """Bind-mount `source`, with all mounts below it, at `target`, which must exist."""
    mount(source, target, "", _MS_BIND | _MS_REC)
    restrict(target, attributes)


def restrict(target: str, attributes: int, *, recursive: bool = True) -> None:
    """Add restrictions to a mount and, if `recursive`, to all mounts below it; those that they have stay."""
    mount_attributes = _MountAttributes(attr_set=attributes)
    result = libc.syscall(
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(target),
        _AT_RECURSIVE if recursive else 0,
        ctypes.byref(mount_attributes),
        ctypes.sizeof(mount_attributes),
    )
    check(result, f"mount_setattr {target}")


def prctl(option: int, value: int) -> int:
    """Call prctl; return its result."""
    nothing = ctypes.c_ulong(0)
    return libc.prctl(option, ctypes.c_ulong(value), nothing, nothing, nothing)


def enter_namespaces(
    *, user: int | None = None, more: int = 0, kinds: str = "user namespaces"
) -> None:
    """Enter a user and a mount namespace, in which this process may mount.

    Its user and group id become `user` there, or stay the same. `more` are further namespaces (CLONE_NEW...).
    """
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | more) < 0:
        number = ctypes.get_errno()
        # ENOSPC is not about a disk here.
        why = "no more are allowed" if number == errno.ENOSPC else os.strerror(number)
        raise OSError(number, f"{kinds}: {why}")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid if user is None else user} {uid} 1"),
        ("gid_map", f"{gid if user is None else user} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    # Later mounts of the machine appear here too, but mounts made here do not appear on the machine.
    mount("none", "/", "", _MS_REC | _MS_SLAVE)


def make_place(stage: str, path: str, source: str) -> str:
    """Make and return a mount point for `source` below `stage`: a directory or an empty file."""
    target = stage + path
    if os.path.lexists(target):
        return target
    if stat.S_ISDIR(os.stat(source).st_mode):
        os.makedirs(target)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o444))
    return target


def make_devices(stage: str) -> list[str]:
    """Make the mount points of the harmless devices, and their links; return the devices, for `bind_devices`."""
    os.makedirs(f"{stage}/dev", exist_ok=True)
    for name, target in _LINKS.items():
        os.symlink(target, f"{stage}/dev/{name}")
    devices = [f"/dev/{name}" for name in _DEVICES if os.path.exists(f"/dev/{name}")]
    for device in devices:
        make_place(stage, device, device)
    return devices


def bind_devices(stage: str, devices: Sequence[str]) -> None:
    """Mount the devices below `stage`."""
    for device in devices:
        bind(device, stage + device, ATTR_NOSUID | ATTR_NOEXEC)


def show(stage: str, paths: Sequence[str]) -> list[tuple[str, str]]:
    """Mount paths of the machine below `stage` at the same paths. Return those that could not be mounted, and why."""
    skipped: list[tuple[str, str]] = []
    for path in paths:
        try:
            mount(path, make_place(stage, path, path), "", _MS_BIND | _MS_REC)
        except OSError as failure:
            # For example, a network folder that even root may not enter: leave it out, but keep the walls.
            skipped.append((path, str(failure)))
    return skipped


def hide(paths: Sequence[str], root: str) -> None:
    """Mount something empty over the paths that can be seen."""
    for path in paths:
        target = root + path
        try:
            mode = os.stat(target).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            flags = MS_RDONLY | MS_NOSUID | MS_NODEV
            mount("hidden", target, "tmpfs", flags, "size=4k,mode=555")
        else:
            mount("/dev/null", target, "", _MS_BIND)


def enter_root(stage: str) -> None:
    """Make `stage` the root directory of this process, with a `/proc` of its own; nothing else stays reachable."""
    # Mount the new /proc while the machine's own is still visible: otherwise Linux refuses it.
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    mount("proc", f"{stage}/proc", "proc", flags)
    os.chdir(stage)
    check(libc.syscall(_SYS_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    # After this pivot_root, the machine's root covers the new one until it is unmounted.
    check(libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


def drop_capabilities() -> None:
    """Drop every capability permanently: with capabilities, a process could undo the walls in these namespaces."""
    number = 0
    while prctl(_PR_CAPBSET_DROP, number) == 0:
        number += 1
    # The header has the version and this process (0); all capability sets are empty.
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    check(prctl(_PR_SET_NO_NEW_PRIVS, 1), "no_new_privs")
    # Other processes must not read this memory, which still holds what the launcher was told.
    check(prctl(PR_SET_DUMPABLE, 0), "dumpable")
