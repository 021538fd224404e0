"""The state database: one SQLite file that holds every service's control-plane state.

WAL mode. A statement is committed before its method returns, so what was acknowledged survives kill -9;
with `fsync=True` it survives a power cut too. Thread-safe: one connection behind one lock, since writes are
small and rare beside the data plane.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SQLITE_VARIABLE = str | int | float | bytes | None


class Database:
    """A SQLite file with migrations and JSON document tables. Thread-safe."""

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._depth = 0
        # Autocommit; transactions are opened by hand in `transaction`.
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={'FULL' if fsync else 'NORMAL'}")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS headrace_migrations (component TEXT PRIMARY KEY, version INTEGER)"
        )

    def close(self) -> None:
        """Close the file. No method may be called after."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Make the statements inside one atomic change. Nests; the outermost commits."""
        with self._lock:
            if self._depth == 0:
                self._connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._connection.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._connection.execute("COMMIT")

    def migrate(self, component: str, statements: Sequence[str]) -> None:
        """Run those of `statements` that this file has not run yet; append, never edit them."""
        with self.transaction():
            rows = self.query(
                "SELECT version FROM headrace_migrations WHERE component = ?", (component,)
            )
            done = int(rows[0][0]) if rows else 0
            for statement in statements[done:]:
                self._connection.execute(statement)
            self.execute(
                "INSERT INTO headrace_migrations VALUES (?, ?)"
                " ON CONFLICT(component) DO UPDATE SET version = excluded.version",
                (component, max(done, len(statements))),
            )

    def execute(self, sql: str, args: Sequence[_SQLITE_VARIABLE] = ()) -> int:
        """Run a statement and commit; return the number of rows it changed."""
        with self._lock:
            return self._connection.execute(sql, args).rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[_SQLITE_VARIABLE]]) -> None:
        """Run a statement for each of `rows`, as one atomic change."""
        with self.transaction():
            self._connection.executemany(sql, rows)

    def query(self, sql: str, args: Sequence[_SQLITE_VARIABLE] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""
        with self._lock:
            return self._connection.execute(sql, args).fetchall()

    def documents(self, name: str) -> Documents:
        """Return the document table `name` (letters and underscores), made if missing."""
        return Documents(self, name)


class Documents:
    """A table of JSON values by key. Writes are durable when the method returns. Thread-safe."""

    def __init__(self, database: Database, name: str) -> None:
        if not name.replace("_", "").isalpha():
            raise ValueError(f"a document table's name is letters and underscores, not {name!r}")
        self._database = database
        self._table = f"doc_{name}"
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table}"
            " (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
        )

    def put(self, key: str, value: Any) -> None:
        """Store `value` (anything that json can dump) under `key`, replacing what was there."""
        self._database.execute(
            f"INSERT INTO {self._table} VALUES (?, ?)"
            " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
            (key, json.dumps(value, separators=(",", ":"))),
        )

    def get(self, key: str) -> Any | None:
        """Return the value under `key`, or None."""
        rows = self._database.query(
            f"SELECT value FROM {self._table} WHERE key = ?",
            (key,),
        )
        return json.loads(rows[0][0]) if rows else None

    def delete(self, key: str) -> bool:
        """Remove `key`; return whether it was there."""
        return self._database.execute(f"DELETE FROM {self._table} WHERE key = ?", (key,)) > 0

    def items(self, prefix: str = "") -> list[tuple[str, Any]]:
        """Return (key, value) of every key that starts with `prefix`, in key order."""
        rows = self._database.query(
            f"SELECT key, value FROM {self._table} WHERE key >= ? AND substr(key, 1, ?) = ? ORDER BY key",
            (prefix, len(prefix), prefix),
        )
        return [(key, json.loads(value)) for key, value in rows]
