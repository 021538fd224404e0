"""Loads and saves moto's state: snapshots of services, rows for growing collections, a journal for the rest.

A request's changes are written in one transaction before it is answered, so the database's size depends on the state
and not on the history; and loading reads state instead of running requests again. The requests of a service that cannot
be pickled are journalled, as those of all services once were; a data directory from that time is converted once.

The journal of requests to those of moto's services whose state cannot be pickled.

Each such request is stored with the seed of its random ids, and runs again, in order, when moto is next loaded.
Earlier versions journalled all services; their entries name no service. Thread-safe.
"""

from __future__ import annotations

import functools
import json
import logging
import sqlite3
import sys
import zlib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.aws.calls.errors import AwsError
from headrace.moto.storage.changes import CHANGES, Act, ChangedRows, RowKey, Rows, Taken
from headrace.moto.storage.pickles import (
    Where,
    all_packages,
    digest_of,
    dump_service,
    load_service,
    take_back,
)
from headrace.store.database import Database

log = logging.getLogger(__name__)

# Rows read per query, so that loading can report progress and others can use the database.
ROWS_AT_ONCE = 5_000
# The free pages that are worth a rewrite of the file: the old journal leaves them.
MOST_FREE_BYTES = 16 * 1024 * 1024
COMPRESS_FROM_BYTES = 8 * 1024
# One service holds the other's state in memory: a session's access key belongs to IAM.
TOGETHER = (frozenset({"iam", "sts"}),)
# The services that clients usually call first are loaded first.
FIRST = ("dynamodb", "sqs")

_TABLES = [
    """CREATE TABLE fallback_services (service TEXT PRIMARY KEY, moto TEXT, is_compressed INTEGER,
       state BLOB)""",
    # Not WITHOUT ROWID: rows are read back in the order in which they were first written.
    "CREATE TABLE fallback_rows (rows_id INTEGER, key, value BLOB, UNIQUE (rows_id, key))",
    "CREATE INDEX fallback_rows_in_order ON fallback_rows (rows_id)",
]


_SNAPSHOT = (
    "INSERT INTO fallback_services VALUES (?, ?, ?, ?) ON CONFLICT(service) DO UPDATE SET"
    " moto = excluded.moto, is_compressed = excluded.is_compressed, state = excluded.state"
)
_ROW = (
    "INSERT INTO fallback_rows VALUES (?, ?, ?)"
    " ON CONFLICT(rows_id, key) DO UPDATE SET value = excluded.value"
)
_NO_ROW = "DELETE FROM fallback_rows WHERE rows_id = ? AND key = ?"
_NO_ROWS = "DELETE FROM fallback_rows WHERE rows_id = ?"

# A statement, and the arguments of each of its runs.
_Statement = tuple[str, Sequence[tuple[Any, ...]]]


class Repeat(Protocol):
    """Runs a journalled request again."""

    def __call__(self, entry: Entry) -> int:
        """Return the HTTP status of the answer."""
        ...


@dataclass(slots=True)
class Progress:
    """The progress of loading: snapshots, rows and journalled requests. Other threads read it."""

    done: int = 0
    all: int = 0


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the database has for a service: its snapshot's digest, and the ids of its rows."""

    digest: bytes
    live: frozenset[int]


NOTHING = _Stored(b"", frozenset())


class MotoStorage:
    """The state of moto in one data directory. Not thread-safe: its callers hold `MOTO_LOCK`.

    Attributes:
        journalled: the services whose requests are stored, because their state cannot currently be pickled.
    """

    def __init__(self, database: Database, always: Sequence[Rows] = ()) -> None:
        """Store the state in `database`; the rows in `always` belong to no service."""
        self._database = database
        self._always = {backend.id: backend for backend in always}
        self.journal = Journal(database)
        database.migrate("fallback_state", _TABLES)
        self.progress = Progress()
        self._stored: dict[str, _Stored] = {}
        self.journalled: set[str] = set()
        # How often a change was undone; a read in the meantime may have seen it.
        self.undo_count = 0
        # Whether memory differs from the database, because a change could not be undone.
        self.must_load_again = False

    # --- loading ----------------------------------------------------------------------------------

    def load(self, repeat: Repeat) -> None:
        """Load the stored state into moto, which is empty; `repeat` runs journalled requests.

        The state of a service that is not imported is loaded on first use, since some imports take a second.
        """
        (rows,) = self._database.query("SELECT count(*) FROM fallback_rows")[0]
        services = [
            name for (name,) in self._database.query("SELECT service FROM fallback_services")
        ]
        self.progress = Progress(0, len(services) + int(rows) + len(self.journal))
        self._stored, self.must_load_again = {}, False
        CHANGES.deferred.clear()
        self.journalled = self.journal.services()
        for service in sorted(services, key=lambda name: name not in FIRST):
            if f"moto.{service}.models" in sys.modules:
                self._load_snapshot(service)
            else:
                CHANGES.deferred[service] = functools.partial(self._load_snapshot, service)
            self.progress.done += 1
        self._load_rows(self._always)
        if len(self.journal):
            self._repeat(repeat)
            # The snapshots already contain what those requests changed in their services.
            for service in list(self._stored):
                if service not in self.journalled:
                    self._load_snapshot(service)
        CHANGES.take()
        if self.journal.has_old_entries():
            self._settle()

    def _load_snapshot(self, service: str) -> Collection[Where]:
        """Load a service; return the backends that its snapshot has."""
        ((version, is_compressed, state),) = self._database.query(
            "SELECT moto, is_compressed, state FROM fallback_services WHERE service = ?", (service,)
        )
        if version != _moto_version():
            log.warning("%s was stored by moto %s; this is %s", service, version, _moto_version())
        data = zlib.decompress(state) if is_compressed else bytes(state)
        where, rows = load_service(data)
        self._stored[service] = _Stored(digest_of(data), frozenset(row.id for row in rows))
        self._load_rows({row.id: row for row in rows})
        return where

    def _load_rows(self, rows_by_id: Mapping[int, Rows]) -> None:
        for rows_id, rows in rows_by_id.items():
            last = -1
            # The index finds the keys; rowids have the order in which rows were first written.
            while part := self._database.query(
                "SELECT rowid, key, value FROM fallback_rows WHERE rows_id = ? AND rowid > ?"
                " ORDER BY rowid LIMIT ?",
                (rows_id, last, ROWS_AT_ONCE),
            ):
                rows.load([(key, value) for _, key, value in part])
                last = part[-1][0]
                self.progress.done += len(part)

    def _repeat(self, repeat: Repeat) -> None:
        failed = 0
        for entry in self.journal:
            try:
                failed += repeat(entry) >= 400
            except AwsError as error:
                # moto lacks the operation: it was answered with this error then, too.
                log.debug("a journalled request: %s", error)
                failed += 1
            self.progress.done += 1
        if failed:
            log.error("%d journalled requests, answered once, could not be repeated", failed)

    def _settle(self) -> None:
        """Convert the journal of an old data directory into snapshots, in one transaction."""
        for package in all_packages():
            CHANGES.made(package)
        with self._database.transaction():
            self.save(None, CHANGES.take())
            self.journal.adopt_old_entries(sorted(self.journalled))
        (free,) = self._database.query("PRAGMA freelist_count")[0]
        (page_bytes,) = self._database.query("PRAGMA page_size")[0]
        if int(free) * int(page_bytes) > MOST_FREE_BYTES:
            try:
                self._database.execute("VACUUM")
            except (sqlite3.Error, OSError) as error:
                # The rewrite needs as much disk space again; otherwise later writes use the free pages.
                log.warning("the state database stays as large as it was: %s", error)

    # --- saving -----------------------------------------------------------------------------------

    def save(
        self, entry: Callable[[], Entry] | None, taken: Taken, *, frees: bool = False
    ) -> list[Act]:
        """Write what `CHANGES` had; durable on return. Return what is to be called then.

        `entry` returns the request that changed it, for journalled services. `frees` marks a change that
        frees disk space, which is also written on a full disk. When this raises, the changes are undone: memory equals
        the database, or `must_load_again` says that everything has to be loaded anew.
        """
        services, rows, acts = taken
        services |= {row.service for row in rows if not self._is_live(row)}
        # A journalled service has no stored rows: they would contain the effects of requests that run again.
        services |= {row.service for row in rows} & self.journalled
        if not services and not rows:
            return acts
        before, self._stored = self._stored, dict(self._stored)
        journalled = set(self.journalled)
        try:
            snapshots = {name: self._snapshot(name, rows) for name in sorted(services)}
            unable = [name for name, written in snapshots.items() if written is None]
            statements = [one for written in snapshots.values() for one in written or ()]
            for backend, keys in rows.items():
                if self._is_live(backend) and backend.service not in unable:
                    statements += _statements_of(backend, keys)
            with self._database.transaction(frees=frees):
                if unable and entry is not None:
                    self.journal.append(entry(), unable)
                for sql, arguments in statements:
                    self._database.execute_many(sql, arguments)
        except BaseException:
            self._stored = before
            self._take_back(services, rows, is_journalled=bool(journalled & services))
            self.journalled = journalled
            raise
        return acts

    def _take_back(self, services: set[str], rows: ChangedRows, *, is_journalled: bool) -> None:
        """Restore what was touched to the state in the database."""
        self.undo_count += 1
        # For a journalled service the database has requests, not state.
        self.must_load_again = True
        if is_journalled:
            return
        names = services | {row.service for row in rows if row.service}
        names = names.union(*(some for some in TOGETHER if some & names)) - set(CHANGES.deferred)
        try:
            for name in sorted(names):
                is_stored = name in self._stored
                load = functools.partial(self._load_snapshot, name) if is_stored else tuple[Where]
                take_back(name, load)
            always = {row.id: row for row in rows if row.id in self._always}
            for backend in always.values():
                backend.clear()
            self._load_rows(always)
        except Exception:
            log.exception(
                "a change that could not be stored cannot be undone: the whole state is loaded again"
            )
            return
        CHANGES.take()
        for name in names - set(self._stored):
            # The ids of new backends are stored with the next save.
            CHANGES.made(name)
        self.must_load_again = False

    def _is_live(self, rows: Rows) -> bool:
        if rows.id in self._always:
            return True
        stored = self._stored.get(rows.service)
        return stored is not None and rows.id in stored.live

    def _snapshot(self, service: str, rows: ChangedRows) -> list[_Statement] | None:
        """Return what stores a service's snapshot, nothing for an unchanged one; note its new rows in `rows`.

        None when it cannot be pickled.
        """
        if service in CHANGES.deferred:
            # Nothing has used it yet, so it is unchanged; and it is not in memory.
            return []
        try:
            data, backends = dump_service(service)
        except Exception as error:  # noqa: BLE001 - whatever cannot be pickled is journalled
            if service not in self.journalled:
                self.journalled.add(service)
                log.warning(
                    "%s holds what cannot be stored (%s): its requests are journalled and run again"
                    " at the next start",
                    service,
                    error,
                )
            return None
        was_journalled = service in self.journalled
        digest = digest_of(data)
        known = self._stored.get(service, NOTHING)
        if known.digest == digest and not was_journalled:
            return []
        is_compressed = len(data) >= COMPRESS_FROM_BYTES
        state = zlib.compress(data, 1) if is_compressed else data
        live = frozenset(backend.id for backend in backends)
        rows.update(
            (backend, None)
            for backend in backends
            if was_journalled or backend.id not in known.live
        )
        self._stored[service] = _Stored(digest, live)
        self.journalled.discard(service)
        return [
            (_SNAPSHOT, [(service, _moto_version(), is_compressed, state)]),
            *(journal_without(service) if was_journalled else ()),
            (_NO_ROWS, [(gone,) for gone in known.live - live]),
        ]


def _statements_of(rows: Rows, keys: set[Hashable] | None) -> list[_Statement]:
    """Return what stores the rows of `keys`; for None, exactly the current rows."""
    changed: list[tuple[int, RowKey, bytes]] = []
    deleted: list[tuple[int, RowKey]] = []
    row_keys: Iterable[Hashable] = rows.keys() if keys is None else keys
    for key in row_keys:
        value = rows.encode_row(key)
        row_key = key if isinstance(key, RowKey) else rows.row_key(key)
        if value is None:
            deleted.append((rows.id, row_key))
        else:
            changed.append((rows.id, row_key, value))
    all_deleted = [(rows.id,)] if keys is None else []
    statements = [(_NO_ROWS, all_deleted), (_NO_ROW, deleted), (_ROW, changed)]
    return [(sql, arguments) for sql, arguments in statements if arguments]


@functools.cache
def _moto_version() -> str:
    import importlib.metadata

    return importlib.metadata.version("moto")


@dataclass(frozen=True, slots=True)
class Entry:
    """One request in moto's form, and the seed of its random numbers."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    seed: int


def journal_without(service: str) -> list[_Statement]:
    """Return what removes `service` from the journal's entries: its state is stored as a snapshot now."""
    return [
        (
            "UPDATE fallback_journal SET services = replace(services, ?, ',') WHERE services LIKE ?",
            [(f",{service},", f"%,{service},%")],
        ),
        ("DELETE FROM fallback_journal WHERE services = ','", [()]),
    ]


class Journal:
    """Entries in their order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate(
            "fallback_journal",
            [
                """CREATE TABLE fallback_journal (id INTEGER PRIMARY KEY AUTOINCREMENT,
                   method TEXT, url TEXT, headers TEXT, body BLOB, seed INTEGER)""",
                # The services that the entry belongs to, as `,kms,sts,`; null in entries from before snapshots.
                "ALTER TABLE fallback_journal ADD COLUMN services TEXT",
            ],
        )

    def append(self, entry: Entry, services: Iterable[str]) -> None:
        """Store an entry for `services`; it is durable on return."""
        self._database.execute(
            "INSERT INTO fallback_journal (method, url, headers, body, seed, services)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                entry.method,
                entry.url,
                json.dumps(entry.headers),
                entry.body,
                entry.seed,
                f",{','.join(services)},",
            ),
        )

    def services(self) -> set[str]:
        """Return the services that have entries."""
        rows = self._database.query(
            "SELECT DISTINCT services FROM fallback_journal WHERE services IS NOT NULL"
        )
        return {name for (names,) in rows for name in names.strip(",").split(",")}

    def has_old_entries(self) -> bool:
        """Whether there are entries from before snapshots."""
        return bool(
            self._database.query("SELECT 1 FROM fallback_journal WHERE services IS NULL LIMIT 1")
        )

    def adopt_old_entries(self, services: Iterable[str]) -> None:
        """Assign entries from before snapshots to `services`; drop them when there are none."""
        names = ",".join(services)
        if names:
            self._database.execute(
                "UPDATE fallback_journal SET services = ? WHERE services IS NULL", (f",{names},",)
            )
        else:
            self._database.execute("DELETE FROM fallback_journal WHERE services IS NULL")

    def __len__(self) -> int:
        return int(self._database.query("SELECT count(*) FROM fallback_journal")[0][0])

    def __iter__(self) -> Iterator[Entry]:
        last = 0
        while rows := self._database.query(
            "SELECT id, method, url, headers, body, seed FROM fallback_journal WHERE id > ?"
            " ORDER BY id LIMIT 1000",
            (last,),
        ):
            for last, method, url, headers, body, seed in rows:  # noqa: B007 - the next page begins there
                yield Entry(method, url, json.loads(headers), bytes(body), seed)
