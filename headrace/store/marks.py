"""How far each log was known to reach, kept apart from the logs, so that what vanished whole is missed.

A log cut between two writes, or a folder that is gone, looks sound by itself. Marks are written when a log is closed
and now and then, so they may lag behind the log, never run ahead of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from headrace.store.database import Database
from headrace.store.shard_log import ShardLog

_TABLE = "shard_log_marks"


class Marks:
    """Marks of the logs under one data directory. Thread-safe."""

    def __init__(self, database: Database, data_dir: Path) -> None:
        self._database = database
        self._documents = database.documents(_TABLE)
        self._data_dir = data_dir
        self._noted: dict[str, int] = {}

    def note(self, logs: Iterable[ShardLog]) -> None:
        """Note how far logs reach, of those that have grown since; durable when this returns."""
        grown = {
            key: end
            for key, end in ((self._key(log.folder), log.next_index) for log in logs)
            if self._noted.get(key) != end
        }
        if not grown:
            return
        with self._database.transaction():
            for key, end in grown.items():
                self._documents.put(key, end)
        self._noted.update(grown)

    def forget(self, folder: Path) -> None:
        """Forget the logs in `folder`, which are to go."""
        prefix = self._key(folder)
        with self._database.transaction():
            for key, _ in self._documents.items(prefix):
                if key == prefix or key.startswith(f"{prefix}/"):
                    self._documents.delete(key)
                    self._noted.pop(key, None)

    def _key(self, folder: Path) -> str:
        return folder.relative_to(self._data_dir).as_posix()


def read_marks(database_path: Path) -> dict[str, int]:
    """Return the end of each log by its folder, relative to the data directory; the cloud must not run.

    Raises sqlite3.DatabaseError when the file is damaged.
    """
    connection = sqlite3.connect(f"file:{database_path}?mode=ro", uri=True)
    try:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        known = connection.execute(
            "SELECT 1 FROM sqlite_master WHERE name = ?", (f"doc_{_TABLE}",)
        ).fetchone()
        rows = (
            connection.execute(f"SELECT key, value FROM doc_{_TABLE}").fetchall() if known else []
        )
    finally:
        connection.close()
    return {key: json.loads(value) for key, value in rows}
