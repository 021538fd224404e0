"""Moves SQLite's write-ahead log into the database on a worker's thread, because that waits for the disk.

Otherwise the connection that writes does it, once in a thousand pages, and the event loop's thread writes too.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from contextlib import AbstractContextManager
from pathlib import Path

# A commit writes three pages or so: SQLite itself would begin at a thousand pages.
COMMITS_BETWEEN = 250


class Checkpoints:
    """A `Worker`: moves the log when it is woken, on a connection of its own. Commits go on meanwhile."""

    name = "checkpoints"

    def __init__(self, path: Path, synchronous: str, quiet: AbstractContextManager[object]) -> None:
        """Take the database's file, and its `PRAGMA synchronous`.

        While `quiet` is held, hardly anything is committed: SQLite begins its log anew once nothing is left in it.
        """
        self._path = path
        self._synchronous = synchronous
        self._quiet = quiet
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    def step(self) -> float:
        """Move what the log has, and then the little that has come meanwhile."""
        self._move()
        with self._quiet:
            self._move()
        return math.inf

    def _move(self) -> None:
        """Move the log as far as readers permit."""
        with self._lock:
            if self._is_closed:
                return
            if self._connection is None:
                # SQLite's default is a cache of 2 MB for each connection.
                self._connection = sqlite3.connect(
                    self._path, check_same_thread=False, isolation_level=None
                )
                self._connection.execute(f"PRAGMA synchronous={self._synchronous}")
                self._connection.execute("PRAGMA cache_size=-256")
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def close(self) -> None:
        """Close the connection; steps do nothing from then on."""
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()
