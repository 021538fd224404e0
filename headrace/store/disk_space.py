"""Measures the free space on the disk, and reserves some for changes that free space.

Deleting writes too: SQLite notes each change in its log before anything is freed. So SQLite's log is allocated ahead,
where nobody else can take it, and a reserve file gives a cloud that starts on a full disk enough to start.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

MIB = 1024 * 1024
# With less than this free, the state database accepts only changes that free space.
LOW_BYTES = 256 * 1024
# Unless plenty is free, SQLite moves its log into the database at 4 MiB; the rest is for deletions when it cannot.
LOG_BYTES = 5 * MIB
# The space that a cloud needs to start on a full disk: for its log, its run file and a few folders.
RESERVE_BYTES = MIB
_LEAST_LOG_BYTES = MIB // 2
# What may be freed at the end: SQLite's log, or, when it could not be moved into the database, its shared memory file.
_SMALL_RESERVE_BYTES = 128 * 1024
_LEAST_RESERVES_BYTES = (RESERVE_BYTES, MIB // 4, _SMALL_RESERVE_BYTES, 32 * 1024, 4096)
# With at least this free, the reserve file is made and the log fully allocated.
PLENTY_BYTES = 64 * MIB


class DiskFull(OSError):
    """Nothing was written because the disk is full."""

    def __init__(self) -> None:
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC))


def free_bytes(folder: Path) -> int:
    """Return how many bytes this process may still write to the file system of `folder`."""
    status = os.statvfs(folder)
    if not status.f_blocks:
        return PLENTY_BYTES  # some network and user-space file systems do not say
    blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail
    return blocks * status.f_frsize


class DiskReserve:
    """The disk space reserved for one state database. Used with the database's lock held.

    Without `is_kept` none is reserved: to allocate and free it takes half the time of a cloud that lives for one test.
    """

    def __init__(self, database: Path, *, is_kept: bool = True) -> None:
        self._is_kept = is_kept
        self._folder = database.parent
        self._log = database.with_name(f"{database.name}-wal")
        self._reserve = database.with_suffix(".reserve")

    @property
    def free_bytes(self) -> int:
        """How many bytes may still be written to the disk."""
        return free_bytes(self._folder)

    @property
    def is_low(self) -> bool:
        """Whether the disk is so full that only changes that free space may be written."""
        return self.free_bytes < LOW_BYTES

    def give_up_if_low(self) -> None:
        """On a full disk, delete the reserve file, so that the cloud can start."""
        if self.is_low:
            self._reserve.unlink(missing_ok=True)

    def keep_for_start(self) -> None:
        """Make the reserve file from what the deletion of SQLite's log has just freed. Never raises OSError.

        On a disk that others have filled, the next start has no other space.
        """
        for size_bytes in _LEAST_RESERVES_BYTES:
            if not self._is_kept or self._reserve.exists():
                return
            self._make_reserve(size_bytes)

    def _make_reserve(self, size_bytes: int) -> None:
        try:
            self._reserve.touch()
            _allocate(self._reserve, size_bytes)
        except OSError:
            with contextlib.suppress(OSError):
                self._reserve.unlink(missing_ok=True)

    def keep(self) -> None:
        """Allocate SQLite's log ahead, and make the reserve file when enough space is free. Never raises OSError."""
        if not self._is_kept:
            return
        plenty = free_bytes(self._folder) >= PLENTY_BYTES
        with contextlib.suppress(OSError):
            _allocate(self._log, LOG_BYTES if plenty else _LEAST_LOG_BYTES)
        if not self._reserve.exists() and not self.is_low:
            self._make_reserve(RESERVE_BYTES if plenty else _SMALL_RESERVE_BYTES)


def _allocate(path: Path, size_bytes: int) -> None:
    """Allocate at least `size_bytes` on the disk for a file, without changing its content."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_size >= size_bytes and status.st_blocks * 512 >= size_bytes:
            return
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size_bytes)
        else:  # macOS
            os.pwrite(descriptor, bytes(size_bytes - status.st_size), status.st_size)
    finally:
        os.close(descriptor)
