"""The state database: one SQLite file that holds every service's control-plane state.

WAL mode. A statement is committed before its method returns, so what was acknowledged survives kill -9;
with `fsync=True` it survives a power cut too. Thread-safe: one connection behind one lock, since writes are
small and rare beside the data plane.

When the disk is full, nothing is written and DiskFull (an OSError) is raised. Statements that free space still work:
DELETE and `transaction(frees=True)` use the space that `headrace.store.disk_space` reserves for them.

Finds damaged pages of a SQLite file, and names the tables whose rows are on them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from headrace.store.checkpoints import COMMITS_BETWEEN, Checkpoints
from headrace.store.disk_space import LOW_BYTES, PLENTY_BYTES, DiskFull, DiskReserve
from headrace.store.notes import NOW, write_note

STATE_FILE, MIGRATIONS = "state.sqlite", "headrace_migrations"

_SQLITE_VARIABLE = str | int | float | bytes | None
_INSTRUCTIONS_BETWEEN_LOOKS = 100_000
_GROWING = ("INSERT", "UPDATE", "REPLACE")
# When the writing connection moves the log: SQLite's default, and 16 MiB where a worker does it before.
_USUAL_LOG_PAGES, MOST_LOG_PAGES = 1000, 4096
# Made once: `json.dumps` makes an encoder for each call with separators other than the default ones.
_encode = json.JSONEncoder(separators=(",", ":")).encode


class NewerFormat(Exception):
    """The file was last written by a later version of headrace, whose format this version does not know."""


class QueryTooLong(Exception):
    """A query takes more processor time than it may."""


class QueryTooComplex(Exception):
    """A query exceeds one of SQLite's limits; the message is SQLite's."""


class Database:
    """A SQLite file with migrations and JSON document tables. Thread-safe.

    Attributes:
        fsync: whether a commit waits for the disk. Without `reserves` no disk space is kept for deletions.
        first_tables: the names of the tables that the file had when it was opened.
    """

    def __init__(self, path: Path, *, fsync: bool = False, reserves: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.fsync = fsync
        self._lock = threading.RLock()
        self._depth = 0
        self._path = path
        self._reserve = DiskReserve(path, is_kept=reserves)
        self._reserve.give_up_if_low()
        # Autocommit; transactions are opened by hand in `transaction`.
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._run("PRAGMA journal_mode=WAL")
        self._synchronous = "FULL" if fsync else "NORMAL"
        self._run(f"PRAGMA synchronous={self._synchronous}")
        self._run(
            "CREATE TABLE IF NOT EXISTS headrace_migrations (component TEXT PRIMARY KEY, version INTEGER)"
        )
        # The versions and tables of the file, by two queries rather than one for each table and component.
        self._versions = dict(self.query("SELECT component, version FROM headrace_migrations"))
        tables = self.query("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.first_tables = frozenset(str(name) for (name,) in tables)
        self._reserve.keep()
        # See `move_log_elsewhere`.
        self._checkpoints: Checkpoints | None = None
        self._wake_checkpoints: Callable[[], None] | None = None
        self._commits_left = COMMITS_BETWEEN
        self._log_pages = 0

    def move_log_elsewhere(
        self,
        start: Callable[[Checkpoints], Callable[[], None]],
        quiet: AbstractContextManager[object],
    ) -> None:
        """Let a worker move the write-ahead log into the file; see `Checkpoints` for `quiet`.

        `start` starts the worker and returns what wakes it. The log stays bounded: when the worker does not keep up,
        this connection moves it, as it does earlier on a disk that may fill up.
        """
        with self._lock:
            self._checkpoints = Checkpoints(self._path, self._synchronous, quiet)
            self._bound_log(MOST_LOG_PAGES)
            self._wake_checkpoints = start(self._checkpoints)

    def _bound_log(self, pages: int) -> None:
        if pages != self._log_pages:
            self._log_pages = pages
            self._connection.execute(f"PRAGMA wal_autocheckpoint={pages}")

    def _note_commit(self) -> None:
        self._commits_left -= 1
        if self._commits_left <= 0 and self._wake_checkpoints is not None:
            self._commits_left = COMMITS_BETWEEN
            self._wake_checkpoints()

    def _look_at_disk(self, *, grows: bool) -> None:
        """Raise DiskFull if a change that grows the file may not be written; keep the log short on a small disk."""
        is_moved = self._checkpoints is not None
        if not grows and not is_moved:
            return
        free_bytes = self._reserve.free_bytes
        if is_moved:
            self._bound_log(MOST_LOG_PAGES if free_bytes >= PLENTY_BYTES else _USUAL_LOG_PAGES)
        if free_bytes >= LOW_BYTES:
            return
        if grows:
            raise DiskFull
        if is_moved:
            # The deletion gets the log's room; if the database cannot grow, that which is left at the log's end.
            with contextlib.suppress(sqlite3.OperationalError):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def keep_room(self) -> None:
        """Reserve disk space for deletions on a disk that may fill up; call this from time to time."""
        with self._lock:
            self._reserve.keep()

    def damage(self) -> str:
        """Return which pages of the file are damaged, and of which tables; empty when none are."""
        with self._lock:
            return damage_in(self._connection)

    def close(self) -> None:
        """Close the file. Call no method after this."""
        if self._checkpoints is not None:
            self._checkpoints.close()
        with self._lock:
            self._connection.close()
            self._reserve.keep_for_start()

    @contextmanager
    def transaction(self, *, frees: bool = False) -> Generator[None]:
        """Run the statements inside the `with` block as one transaction. Blocks nest; the outermost one commits.

        With `frees` it also runs on a full disk, for changes that free space (or finish what has taken it). Raises
        DiskFull, with nothing changed.
        """
        with self._lock:
            if self._depth == 0:
                self._look_at_disk(grows=not frees)
                self._run("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
                if self._depth == 1:
                    if NOW.note is not None:
                        write_note()
                    self._run("COMMIT")
                    self._note_commit()
            except BaseException:
                # SQLite itself rolls back after some failures.
                if self._depth == 1 and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def _run(self, sql: str, args: Sequence[_SQLITE_VARIABLE] = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, args)
        except sqlite3.OperationalError as error:
            raise _system_error(error) from error

    def migrate(self, component: str, statements: Sequence[str]) -> None:
        """Run the migrations in `statements` that this file has not run yet. Append to them, never edit them.

        Raises NewerFormat when the file has run more migrations than there are.
        """
        with self._lock:
            done = int(self._versions.get(component, 0))
            if done == len(statements):
                return
            if done > len(statements):
                raise NewerFormat(component)
            with self.transaction():
                for statement in statements[done:]:
                    self._run(statement)
                self._run(
                    "INSERT INTO headrace_migrations VALUES (?, ?)"
                    " ON CONFLICT(component) DO UPDATE SET version = excluded.version",
                    (component, len(statements)),
                )
            self._versions[component] = len(statements)

    def execute(self, sql: str, args: Sequence[_SQLITE_VARIABLE] = ()) -> int:
        """Run a statement and commit; return the number of rows it changed. Raises DiskFull, OSError."""
        with self._lock:
            if self._depth == 0 and NOW.note is not None:
                with self.transaction(frees=not sql.startswith(_GROWING)):
                    return self._run(sql, args).rowcount
            if self._depth:
                return self._run(sql, args).rowcount
            self._look_at_disk(grows=sql.startswith(_GROWING))
            count = self._run(sql, args).rowcount
            self._note_commit()
            return count

    def execute_many(self, sql: str, rows: Sequence[Sequence[_SQLITE_VARIABLE]]) -> None:
        """Run a statement for each of `rows`, in one transaction."""
        with self.transaction():
            try:
                self._connection.executemany(sql, rows)
            except sqlite3.OperationalError as error:
                raise _system_error(error) from error

    def query(
        self, sql: str, args: Sequence[_SQLITE_VARIABLE] = (), *, waits: bool = True
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT. Without `waits`, raises BlockingIOError instead of waiting for a thread."""
        if not self._lock.acquire(blocking=waits):
            raise BlockingIOError
        try:
            return self._run(sql, args).fetchall()
        finally:
            self._lock.release()

    def rows_within(
        self, sql: str, args: Sequence[_SQLITE_VARIABLE], most_cpu_s: float
    ) -> Generator[tuple[Any, ...]]:
        """Yield the rows of a SELECT that a client wrote; the database is locked until the last one, or `close`.

        Raises QueryTooLong, QueryTooComplex.
        """
        with self._lock:
            yield from _rows_within(self._connection, sql, args, most_cpu_s)

    def snapshot(self) -> Snapshot:
        """Return the file as it is now, on a connection of its own; close it. Raises OSError."""
        return Snapshot(self._path)

    def documents(self, name: str) -> Documents:
        """Return the document table `name` (letters and underscores); it is created when it is missing."""
        return Documents(self, name)


def _system_error(error: sqlite3.OperationalError) -> Exception:
    """Return the OSError that caused an SQLite error; the SQLite error itself when the system is not the cause."""
    extended = getattr(error, "sqlite_errorcode", 0)
    # The low byte of an extended error code is the primary code.
    code = extended & 0xFF
    # SQLite cannot allocate its shared memory file.
    if code == sqlite3.SQLITE_FULL or extended == sqlite3.SQLITE_IOERR_SHMSIZE:
        return DiskFull()
    system = {sqlite3.SQLITE_IOERR: errno.EIO, sqlite3.SQLITE_READONLY: errno.EROFS}.get(code)
    return error if system is None else OSError(system, os.strerror(system))


class _CpuBound:
    """Says whether the threads that run a query have spent more than `most_s` seconds of processor time on it."""

    def __init__(self, most_s: float) -> None:
        self._left_s = most_s
        self._thread, self._last_s = threading.get_ident(), time.thread_time()

    def __call__(self) -> bool:
        thread, now_s = threading.get_ident(), time.thread_time()
        if thread == self._thread:
            self._left_s -= now_s - self._last_s
        self._thread, self._last_s = thread, now_s
        return self._left_s < 0


def _rows_within(
    connection: sqlite3.Connection,
    sql: str,
    args: Sequence[_SQLITE_VARIABLE],
    most_cpu_s: float,
) -> Generator[tuple[Any, ...]]:
    connection.set_progress_handler(_CpuBound(most_cpu_s), _INSTRUCTIONS_BETWEEN_LOOKS)
    try:
        yield from connection.execute(sql, args)
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            raise QueryTooLong from error
        if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOMEM):
            raise QueryTooComplex(str(error)) from error
        raise _system_error(error) from error
    finally:
        connection.set_progress_handler(None, 0)


class Snapshot:
    """A SQLite file as it was at one moment: later writes of others are not seen. For one thread at a time.

    While it is open, the write-ahead log cannot be reused: it grows by what is written.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            check_same_thread=False,
            isolation_level=None,
        )
        # SQLite's default is 2 MB for each connection.
        self._run("PRAGMA cache_size=-256")
        self._run("BEGIN")
        # The first read, not BEGIN, fixes the moment.
        self.query("SELECT COUNT(*) FROM headrace_migrations")

    def _run(self, sql: str, args: Sequence[_SQLITE_VARIABLE] = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, args)
        except sqlite3.OperationalError as error:
            raise _system_error(error) from error

    def query(self, sql: str, args: Sequence[_SQLITE_VARIABLE] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""
        return self._run(sql, args).fetchall()

    def rows_within(
        self, sql: str, args: Sequence[_SQLITE_VARIABLE], most_cpu_s: float
    ) -> Generator[tuple[Any, ...]]:
        """See `Database.rows_within`."""
        yield from _rows_within(self._connection, sql, args, most_cpu_s)

    def close(self) -> None:
        """Release the moment."""
        self._connection.close()


class Documents:
    """A table of JSON values by key. Writes are durable when the method returns. Thread-safe."""

    def __init__(self, database: Database, name: str) -> None:
        if not name.replace("_", "").isalpha():
            raise ValueError(f"a document table's name is letters and underscores, not {name!r}")
        self._database = database
        self._table = f"doc_{name}"
        self._put = (
            f"INSERT INTO {self._table} VALUES (?, ?)"
            " ON CONFLICT(key) DO UPDATE SET value = excluded.value"
        )
        if self._table not in database.first_tables:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table}"
                " (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
            )

    def put(self, key: str, value: Any) -> None:
        """Store `value` (any JSON value) under `key`, replacing an older one."""
        self._database.execute(self._put, (key, _encode(value)))

    def put_all(self, values: Mapping[str, Any]) -> None:
        """Store many values under their keys, all or nothing, replacing older ones."""
        self._database.execute_many(self._put, [(key, _encode(v)) for key, v in values.items()])

    def get(self, key: str) -> Any | None:
        """Return the value under `key`, or None."""
        rows = self._database.query(f"SELECT value FROM {self._table} WHERE key = ?", (key,))
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


_MOST_FINDINGS = 100
_SHOWN = 3


def damage_in(connection: sqlite3.Connection, *, is_thorough: bool = False) -> str:
    """Return what is wrong with an open file's pages, with the tables; empty when nothing is.

    SQLite keeps no checksums: a value whose bytes are others, but well-formed, is not found. With `is_thorough`,
    indexes are compared with their tables too. A file of 185 MiB takes 0.4 s without.
    """
    pragma = "integrity_check" if is_thorough else "quick_check"
    findings = _findings(connection, f"{pragma}({_MOST_FINDINGS})")
    if not findings:
        return ""
    try:
        tables = _list_damaged_tables(connection)
    except sqlite3.DatabaseError as error:
        return str(error)
    shown = "; ".join(findings[:_SHOWN])
    if len(findings) > _SHOWN:
        shown += f"; and {len(findings) - _SHOWN} more"
    if not tables:
        return shown
    word = "table" if len(tables) == 1 else "tables"
    return f"{word} {', '.join(tables)}: rows on damaged pages are lost: {shown}"


def _findings(connection: sqlite3.Connection, pragma: str) -> list[str]:
    """Return what a check finds: its rows, or the error that ends it."""
    findings: list[str] = []
    try:
        for (text,) in connection.execute(f"PRAGMA {pragma}"):
            findings.append(" ".join(str(text).split()))
    except sqlite3.DatabaseError as error:
        findings.append(str(error))
    return [] if findings == ["ok"] else findings


def _list_damaged_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the tables that cannot be read whole. Raises sqlite3.DatabaseError when the list of tables cannot be."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    names = [str(name) for (name,) in rows.fetchall()]
    return [name for name in names if _findings(connection, f"quick_check({_quote(name)})")]


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
