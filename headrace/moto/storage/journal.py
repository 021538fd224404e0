"""The journal of requests to those of moto's services whose state cannot be pickled.

Each such request is stored with the seed of its random ids, and runs again, in order, when moto is next loaded.
Earlier versions journalled all services; their entries name no service. Thread-safe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.store.database import Database


@dataclass(frozen=True, slots=True)
class Entry:
    """One request in moto's form, and the seed of its random numbers."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    seed: int


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

    def drop(self, service: str) -> None:
        """Remove `service` from the entries: its state is stored as a snapshot now."""
        self._database.execute(
            "UPDATE fallback_journal SET services = replace(services, ?, ',') WHERE services LIKE ?",
            (f",{service},", f"%,{service},%"),
        )
        self._database.execute("DELETE FROM fallback_journal WHERE services = ','")

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
