"""Loads and saves moto's state in the database: snapshots of services, rows for what piles up, a journal for the rest.

A request's changes are written in one transaction before it is answered, so the database is as large as what there is,
not as what happened; and loading is reading, not running requests again. A service that cannot be pickled has its
requests journalled, as all services once had; a data directory of that time is read the old way, once.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import logging
import sqlite3
import sys
import zlib
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.fallback.journal import Entry, Journal
from headrace.fallback.kept.pickles import (
    Where,
    all_packages,
    dump_service,
    load_service,
    take_back,
)
from headrace.fallback.kept.touched import TOUCHED, RowKey, Rows, RowsTouched
from headrace.store.database import Database

log = logging.getLogger(__name__)

# Rows read in one go, so that loading can say how far it is and others may use the database.
ROWS_AT_ONCE = 5_000
# Free pages that are worth a rewrite of the file: what the old journal leaves.
MOST_FREE_BYTES = 16 * 1024 * 1024
COMPRESS_FROM_BYTES = 8 * 1024
# Services of which one keeps what the other has in memory: a session's access key is IAM's.
TOGETHER = (frozenset({"iam", "sts"}),)
# What clients ask for first is loaded first.
FIRST = ("dynamodb", "sqs")

_TABLES = [
    """CREATE TABLE fallback_services (service TEXT PRIMARY KEY, moto TEXT, is_compressed INTEGER,
       state BLOB)""",
    # Not WITHOUT ROWID: rows are read back in the order in which they were first written.
    "CREATE TABLE fallback_rows (rows_id INTEGER, key, value BLOB, UNIQUE (rows_id, key))",
    "CREATE INDEX fallback_rows_in_order ON fallback_rows (rows_id)",
]


class Repeat(Protocol):
    """Runs a journalled request again."""

    def __call__(self, entry: Entry) -> int:
        """Return the HTTP status of the answer."""
        ...


@dataclass(slots=True)
class Progress:
    """How far loading is: snapshots, rows and journalled requests. Read by other threads."""

    done: int = 0
    all: int = 0


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the database has of a service: its snapshot's digest, and the ids of the rows that it refers to."""

    digest: bytes
    live: frozenset[int]


NOTHING = _Stored(b"", frozenset())


class KeptState:
    """The state of moto in one data directory. Not thread-safe: its callers hold `MOTO_LOCK`."""

    def __init__(self, database: Database, always: Sequence[Rows] = ()) -> None:
        """Keep the state in `database`; `always` are rows that belong to no service."""
        self._database = database
        self._always = {each.id: each for each in always}
        self.journal = Journal(database)
        database.migrate("fallback_state", _TABLES)
        self.progress = Progress()
        self._stored: dict[str, _Stored] = {}
        # Services whose requests are journalled, since their state cannot be pickled at present.
        self._journalled: set[str] = set()
        self._moto = _moto_version()
        # How often a change was taken back; who read meanwhile may have seen it.
        self.times_taken_back = 0
        # Whether memory is not what the database says, since a change could not be taken back.
        self.must_load_again = False

    # --- loading ----------------------------------------------------------------------------------

    def load(self, repeat: Repeat) -> None:
        """Load the stored state into moto, which is empty; `repeat` runs journalled requests.

        A service that is not imported is loaded when it is first asked for: importing some takes a second.
        """
        (rows,) = self._database.query("SELECT count(*) FROM fallback_rows")[0]
        services = [
            name for (name,) in self._database.query("SELECT service FROM fallback_services")
        ]
        self.progress = Progress(0, len(services) + int(rows) + len(self.journal))
        self._stored, self.must_load_again = {}, False
        TOUCHED.deferred.clear()
        self._journalled = self.journal.services()
        for service in sorted(services, key=lambda name: name not in FIRST):
            if f"moto.{service}.models" in sys.modules:
                self._load_snapshot(service)
            else:
                TOUCHED.deferred[service] = functools.partial(self._load_snapshot, service)
            self.progress.done += 1
        self._load_rows(self._always)
        if len(self.journal):
            self._repeat(repeat)
            # What those requests did to services that have snapshots is in these already.
            for service in list(self._stored):
                if service not in self._journalled:
                    self._load_snapshot(service)
        TOUCHED.take()
        if self.journal.has_old_entries():
            self._settle()

    def _load_snapshot(self, service: str) -> Collection[Where]:
        """Load a service; return which of its backends are stored."""
        ((version, is_compressed, state),) = self._database.query(
            "SELECT moto, is_compressed, state FROM fallback_services WHERE service = ?", (service,)
        )
        if version != self._moto:
            log.warning("%s was stored by moto %s; this is %s", service, version, self._moto)
        data = zlib.decompress(state) if is_compressed else bytes(state)
        where, rows = load_service(data)
        self._stored[service] = _Stored(_digest(data), frozenset(each.id for each in rows))
        self._load_rows({each.id: each for each in rows})
        return where

    def _load_rows(self, found: Mapping[int, Rows]) -> None:
        for rows_id, rows in found.items():
            last = -1
            # The keys that are looked up are the index's; their order is that in which rows were first written.
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
            failed += repeat(entry) >= 400
            self.progress.done += 1
        if failed:
            log.error("%d journalled requests, answered once, could not be repeated", failed)

    def _settle(self) -> None:
        """Turn the journal of an old data directory into snapshots: once, and whole or not at all."""
        for package in all_packages():
            TOUCHED.made(package)
        with self._database.transaction():
            self.save(None)
            self.journal.adopt_old_entries(sorted(self._journalled))
        (free,) = self._database.query("PRAGMA freelist_count")[0]
        (page_bytes,) = self._database.query("PRAGMA page_size")[0]
        if int(free) * int(page_bytes) > MOST_FREE_BYTES:
            try:
                self._database.execute("VACUUM")
            except (sqlite3.Error, OSError) as error:
                # It needs as much room again; the free pages are used for what is stored from now on.
                log.warning("the state database stays as large as it was: %s", error)

    # --- saving -----------------------------------------------------------------------------------

    def save(self, entry: Entry | None, *, with_services: bool = True, frees: bool = False) -> None:
        """Write what has been touched since the last save; durable when this returns.

        `entry` is the request that did it, for services that have to be journalled. Without `with_services` the
        caller knows that it changed nothing but rows; `frees` is a change that gives room back, and is written on a
        full disk too. When this raises, what was touched has not happened: it is what
        the database says, or `must_load_again` says that everything has to be read anew.
        """
        services, rows = TOUCHED.take(with_services=with_services)
        services |= {each.service for each in rows if not self._is_live(each)}
        # A journalled service is journalled whole: stored rows would hold requests that are run again.
        services |= {each.service for each in rows} & self._journalled
        if not services and not rows:
            return
        before, self._stored = self._stored, dict(self._stored)
        journalled = set(self._journalled)
        try:
            with self._database.transaction(frees=frees):
                unable = [name for name in sorted(services) if not self._save_service(name, rows)]
                if unable and entry is not None:
                    self.journal.append(entry, unable)
                for each, keys in rows.items():
                    if self._is_live(each) and each.service not in unable:
                        self._write_rows(each, keys)
        except BaseException:
            self._stored = before
            self._take_back(services, rows, is_journalled=bool(journalled & services))
            self._journalled = journalled
            raise

    def _take_back(self, services: set[str], rows: RowsTouched, *, is_journalled: bool) -> None:
        """Set what was touched back to the state in the database."""
        self.times_taken_back += 1
        # Of a journalled service the database has requests, not state.
        self.must_load_again = True
        if is_journalled:
            return
        names = services | {each.service for each in rows if each.service}
        names = names.union(*(some for some in TOGETHER if some & names)) - set(TOUCHED.deferred)
        try:
            for name in sorted(names):
                is_stored = name in self._stored
                load = functools.partial(self._load_snapshot, name) if is_stored else tuple[Where]
                take_back(name, load)
            always = {each.id: each for each in rows if each.id in self._always}
            for each in always.values():
                each.clear()
            self._load_rows(always)
        except Exception:
            log.exception("what could not be stored cannot be taken back: all is loaded again")
            return
        TOUCHED.take()
        for name in names - set(self._stored):
            # Of new backends the ids are to be stored when that is possible.
            TOUCHED.made(name)
        self.must_load_again = False

    def _is_live(self, rows: Rows) -> bool:
        if rows.id in self._always:
            return True
        stored = self._stored.get(rows.service)
        return stored is not None and rows.id in stored.live

    def _save_service(self, service: str, rows: RowsTouched) -> bool:
        """Store a service's snapshot, if it changed, and note the rows that are new to it.

        Return False when it cannot be pickled.
        """
        if service in TOUCHED.deferred:
            # Nobody has looked at it yet, so nothing of it has changed; and it is not in memory.
            return True
        try:
            data, found = dump_service(service)
        except Exception as error:  # noqa: BLE001 - whatever cannot be pickled, the journal can take
            if service not in self._journalled:
                self._journalled.add(service)
                log.warning(
                    "%s holds what cannot be stored (%s): its requests are journalled and run again"
                    " at the next start",
                    service,
                    error,
                )
            return False
        was_journalled = service in self._journalled
        digest = _digest(data)
        known = self._stored.get(service, NOTHING)
        if known.digest == digest and not was_journalled:
            return True
        is_compressed = len(data) >= COMPRESS_FROM_BYTES
        self._database.execute(
            "INSERT INTO fallback_services VALUES (?, ?, ?, ?) ON CONFLICT(service) DO UPDATE SET"
            " moto = excluded.moto, is_compressed = excluded.is_compressed, state = excluded.state",
            (service, self._moto, is_compressed, zlib.compress(data, 1) if is_compressed else data),
        )
        self.journal.drop(service)
        live = frozenset(each.id for each in found)
        for gone in known.live - live:
            self._database.execute("DELETE FROM fallback_rows WHERE rows_id = ?", (gone,))
        rows.update((each, None) for each in found if was_journalled or each.id not in known.live)
        self._stored[service] = _Stored(digest, live)
        self._journalled.discard(service)
        return True

    def _write_rows(self, rows: Rows, keys: set[Hashable] | None) -> None:
        if keys is None:
            self._database.execute("DELETE FROM fallback_rows WHERE rows_id = ?", (rows.id,))
        changed: list[tuple[int, RowKey, bytes]] = []
        wanted: Iterable[Hashable] = rows.keys() if keys is None else keys
        for key in wanted:
            value = rows.encoded(key)
            if value is not None:
                changed.append((rows.id, rows.row_key(key), value))
                continue
            self._database.execute(
                "DELETE FROM fallback_rows WHERE rows_id = ? AND key = ?",
                (rows.id, rows.row_key(key)),
            )
        if changed:
            self._database.execute_many(
                "INSERT INTO fallback_rows VALUES (?, ?, ?)"
                " ON CONFLICT(rows_id, key) DO UPDATE SET value = excluded.value",
                changed,
            )


@functools.cache
def _moto_version() -> str:
    return importlib.metadata.version("moto")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
