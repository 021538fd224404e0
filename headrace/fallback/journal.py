"""The journal of requests that changed moto's state, so that the state is there again after kill -9.

moto keeps everything in memory. Each request that may change it is written to the state database with the
seed that its random ids came from, and is run again, in order, when moto is next loaded. Thread-safe.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.store.database import Database


@dataclass(frozen=True, slots=True)
class Entry:
    """One request as moto takes it, and the seed of its random numbers."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    seed: int


class Journal:
    """Entries in the order they ran."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate(
            "fallback_journal",
            [
                """CREATE TABLE fallback_journal (id INTEGER PRIMARY KEY AUTOINCREMENT,
                   method TEXT, url TEXT, headers TEXT, body BLOB, seed INTEGER)"""
            ],
        )

    def append(self, entry: Entry) -> None:
        """Write an entry; it is durable when this returns."""
        self._database.execute(
            "INSERT INTO fallback_journal (method, url, headers, body, seed) VALUES (?, ?, ?, ?, ?)",
            (entry.method, entry.url, json.dumps(entry.headers), entry.body, entry.seed),
        )

    def __len__(self) -> int:
        return int(self._database.query("SELECT count(*) FROM fallback_journal")[0][0])

    def __iter__(self) -> Iterator[Entry]:
        rows = self._database.query(
            "SELECT method, url, headers, body, seed FROM fallback_journal ORDER BY id"
        )
        for method, url, headers, body, seed in rows:
            yield Entry(method, url, json.loads(headers), bytes(body), seed)
