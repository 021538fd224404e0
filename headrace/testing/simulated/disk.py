"""Counts a cloud's system calls, and lets the cloud die at a chosen call, as kill -9 would.

Everything written before that call is on the disk, and nothing else: every later call of the dead cloud fails, also
those in its `finally` blocks. Used on one thread, by one simulation at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import sqlite3
import threading
from collections.abc import Callable, Generator
from typing import Any

_CALLS = (
    "write", "pwrite", "replace", "rename", "link", "unlink", "remove", "rmdir", "mkdir", "ftruncate", "utime",
)  # fmt: skip
_WRITING = ("INSERT", "UPDATE", "DELETE", "REPLACE", "BEGIN", "COMMIT", "CREATE")
# A simulated crash closes the connection, which rolls back the open transaction; that needs no journal on the disk.
# tests/crash checks that SQLite recovers from its journal after a real kill -9.
_LIGHTER = {
    "PRAGMA journal_mode=WAL": "PRAGMA journal_mode=MEMORY",
    "PRAGMA synchronous=NORMAL": "PRAGMA synchronous=OFF",
    "PRAGMA synchronous=FULL": "PRAGMA synchronous=OFF",
}


class Crashed(BaseException):
    """The cloud has died here. No `except Exception` catches it, as none catches kill -9."""


class Disk:
    """The system calls of the cloud that is alive."""

    def __init__(self) -> None:
        self.calls = 0
        # The number of the call at which the cloud dies; None for never.
        self.dies_at: int | None = None
        self.is_dead = False
        self.is_counting = False
        self._held: list[Any] = []
        # The simulation has one thread; calls of the process's other threads do not count.
        self._thread = threading.get_ident()

    def point(self) -> None:
        """Count a call. Raises Crashed at the chosen call and at every later one."""
        if not self.is_counting or threading.get_ident() != self._thread:
            return
        if self.is_dead:
            raise Crashed
        self.calls += 1
        if self.dies_at is not None and self.calls >= self.dies_at:
            self.is_dead = True
            raise Crashed

    def hold(self, thing: Any) -> None:
        """Register what the kernel would release with the process: locks and the database connection."""
        if threading.get_ident() == self._thread:
            self._held.append(thing)

    def drop(self) -> None:
        """Release everything that a dead cloud held, so that another can start."""
        counting, self.is_counting = self.is_counting, False
        for thing in self._held:
            with contextlib.suppress(sqlite3.Error, OSError):
                thing.close()
        self._held.clear()
        self.is_counting, self.is_dead, self.dies_at = counting, False, None

    @contextlib.contextmanager
    def watched(self) -> Generator[None]:
        """Count this process's calls inside the block."""
        self._thread = threading.get_ident()
        before = {name: getattr(os, name) for name in _CALLS}
        flock, connect = fcntl.flock, sqlite3.connect

        def lock(file: Any, operation: int) -> None:
            flock(file, operation)
            self.hold(file)

        def open_connection(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection = connect(*args, factory=_Connection, **kwargs)
            # Nobody else opens the database meanwhile: to take and release locks is half of a statement's time.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.point = self.point
            self.hold(connection)
            return connection

        for name, call in before.items():
            setattr(os, name, self._count_calls(call))
        # This disk is never full: the free space, which headrace asks for before each write, is looked up only once.
        # Space is not reserved ahead: that would only write 6 MiB of zeros at each start.
        allocate = getattr(os, "posix_fallocate", None)
        if allocate is not None:
            os.posix_fallocate = _reserve_nothing
        statvfs = os.statvfs
        os.statvfs = functools.cache(statvfs)
        fcntl.flock, sqlite3.connect = lock, open_connection
        try:
            yield
        finally:
            os.statvfs = statvfs
            fcntl.flock, sqlite3.connect = flock, connect
            if allocate is not None:
                os.posix_fallocate = allocate
            for name, call in before.items():
                setattr(os, name, call)

    def _count_calls(self, call: Callable[..., Any]) -> Callable[..., Any]:
        point = self.point

        def call_and_count(*args: Any, **kwargs: Any) -> Any:
            point()
            return call(*args, **kwargs)

        return call_and_count


def _reserve_nothing(descriptor: int, offset: int, length: int, /) -> None:
    """Stand in for posix_fallocate."""


class _Connection(sqlite3.Connection):
    """A connection that counts its writing statements."""

    point: Callable[[], None]

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        """See sqlite3."""
        if sql.startswith(_WRITING):
            self.point()
        return super().execute(_LIGHTER.get(sql, sql), *args)
