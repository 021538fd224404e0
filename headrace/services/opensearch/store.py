"""The SQLite file of all indexes: documents, and the values and words by which searches find them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headrace.core.values import parse_json
from headrace.services.opensearch.fields import Reader, SearchError, check_mapping
from headrace.store.database import Database

_MIGRATIONS = (
    """CREATE TABLE indexes (id INTEGER PRIMARY KEY, domain TEXT NOT NULL, name TEXT NOT NULL, mapping TEXT NOT NULL,
    settings TEXT NOT NULL, uuid TEXT NOT NULL, created_ms INTEGER NOT NULL, UNIQUE (domain, name))""",
    """CREATE TABLE docs (id INTEGER PRIMARY KEY AUTOINCREMENT, idx INTEGER NOT NULL, doc_id TEXT NOT NULL,
    version INTEGER NOT NULL, source TEXT NOT NULL, UNIQUE (idx, doc_id))""",
    "CREATE TABLE vals (id INTEGER PRIMARY KEY, doc INTEGER NOT NULL, field TEXT NOT NULL, num REAL, txt TEXT)",
    "CREATE INDEX vals_of_doc ON vals (doc)",
    "CREATE INDEX vals_num ON vals (field, num) WHERE num IS NOT NULL",
    "CREATE INDEX vals_txt ON vals (field, txt) WHERE txt IS NOT NULL",
    # As OpenSearch's standard analyzer: words of letters and digits, in lower case, with accents.
    "CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = 'unicode61 remove_diacritics 0')",
    # `writes` is the alias's is_write_index: null if it was not said.
    """CREATE TABLE aliases (domain TEXT NOT NULL, name TEXT NOT NULL, idx INTEGER NOT NULL, writes INTEGER,
    PRIMARY KEY (domain, name, idx)) WITHOUT ROWID""",
)
_FORBIDDEN = frozenset('\\/*?"<>| ,#:')


@dataclass(slots=True)
class Index:
    """An index."""

    id: int
    name: str
    mapping: dict[str, Any]
    settings: dict[str, Any]
    uuid: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class Alias:
    """An alias's pointer to one index, by its name; `writes` is its `is_write_index`, None if not said."""

    name: str
    index: str
    writes: bool | None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of one write: OpenSearch's word for it, and the document's version."""

    result: str
    version: int
    seq_no: int


def check_name(name: str, kind: str = "index") -> None:
    """Raise SearchError for a name that no index can have; `kind` is "index" or "alias"."""
    reason = ""
    if name != name.lower():
        reason = "must be lowercase"
    elif not name or name in (".", "..") or len(name.encode()) > 255:
        reason = "must be of 1 to 255 bytes, and neither '.' nor '..'"
    elif name[0] in "_-+":
        reason = "must not start with '_', '-', or '+'"
    elif set(name) & _FORBIDDEN:
        reason = 'must not contain the following characters [ , ", *, \\, <, |, ,, >, /, ?]'
    if reason:
        raise invalid_name(kind, name, reason)


def invalid_name(kind: str, name: str, reason: str) -> SearchError:
    """Return the error for a name that an index or an alias cannot have."""
    return SearchError(
        400,
        f"invalid_{kind}_name_exception",
        f"Invalid {kind} name [{name}], {reason}",
        index=name,
        index_uuid="_na_",
    )


class Store:
    """All indexes of all domains. Thread-safe: one connection behind one lock. Writes survive kill -9."""

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        self.database = Database(path, fsync=fsync)
        self.database.migrate("search", _MIGRATIONS)
        (row,) = self.database.query(
            "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'docs'), 0),"
            " COALESCE((SELECT MAX(id) FROM vals), 0)"
        )
        # The next row ids of a document and of a value; kept here because a query for them costs as much as a write.
        self._free = (int(row[0]) + 1, int(row[1]) + 1)

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    # --- indexes ------------------------------------------------------------------------------

    def indexes(self, domain: str) -> list[Index]:
        """Return a domain's indexes by name."""
        rows = self.database.query(
            "SELECT id, name, mapping, settings, uuid, created_ms FROM indexes WHERE domain = ? ORDER BY name",
            (domain,),
        )
        return [Index(i, n, json.loads(m), json.loads(s), u, c) for i, n, m, s, u, c in rows]

    def find(self, domain: str, name: str) -> Index | None:
        """Return an index, or None if it does not exist."""
        rows = self.database.query(
            "SELECT id, mapping, settings, uuid, created_ms FROM indexes WHERE domain = ? AND name = ?",
            (domain, name),
        )
        if not rows:
            return None
        index_id, mapping, settings, uuid, created_ms = rows[0]
        return Index(index_id, name, json.loads(mapping), json.loads(settings), uuid, created_ms)

    def create(
        self, domain: str, name: str, mapping: dict[str, Any], settings: dict[str, Any], now_ms: int
    ) -> Index:
        """Create an index. Raises SearchError if it exists, or its name or mapping is invalid."""
        check_name(name)
        check_mapping(mapping.get("properties") or {})
        with self.database.transaction():
            existing = self.find(domain, name)
            if existing is not None:
                raise SearchError(
                    400,
                    "resource_already_exists_exception",
                    f"index [{name}/{existing.uuid}] already exists",
                    index=name,
                    index_uuid=existing.uuid,
                )
            if self.aliases(domain, name):
                raise invalid_name("index", name, "already exists as alias")
            (row,) = self.database.query("SELECT lower(hex(randomblob(11)))")
            self.database.execute(
                "INSERT INTO indexes (domain, name, mapping, settings, uuid, created_ms) VALUES (?, ?, ?, ?, ?, ?)",
                (domain, name, json.dumps(mapping), json.dumps(settings), str(row[0]), now_ms),
            )
            created = self.find(domain, name)
        assert created is not None
        return created

    def save_mapping(self, index: Index) -> None:
        """Store an index's mapping."""
        self.database.execute(
            "UPDATE indexes SET mapping = ? WHERE id = ?", (json.dumps(index.mapping), index.id)
        )

    def drop(self, index: Index) -> None:
        """Delete an index and its documents."""
        of_index = "SELECT id FROM docs WHERE idx = ?"
        with self.database.transaction(frees=True):
            self.database.execute(
                f"DELETE FROM words WHERE rowid IN (SELECT id FROM vals WHERE doc IN ({of_index}))",
                (index.id,),
            )
            self.database.execute(f"DELETE FROM vals WHERE doc IN ({of_index})", (index.id,))
            self.database.execute("DELETE FROM docs WHERE idx = ?", (index.id,))
            self.database.execute("DELETE FROM aliases WHERE idx = ?", (index.id,))
            self.database.execute("DELETE FROM indexes WHERE id = ?", (index.id,))

    # --- aliases ------------------------------------------------------------------------------

    def aliases(self, domain: str, name: str | None = None) -> list[Alias]:
        """Return a domain's aliases, or those of one name, by name and then by index."""
        rows = self.database.query(
            "SELECT a.name, i.name, a.writes FROM aliases a JOIN indexes i ON i.id = a.idx"
            " WHERE a.domain = ? AND (? IS NULL OR a.name = ?) ORDER BY a.name, i.name",
            (domain, name, name),
        )
        return [Alias(n, i, None if w is None else bool(w)) for n, i, w in rows]

    def put_alias(self, domain: str, name: str, index: Index, *, writes: bool | None) -> None:
        """Point an alias at an index; an earlier pointer to it is replaced."""
        self.database.execute(
            "INSERT OR REPLACE INTO aliases VALUES (?, ?, ?, ?)", (domain, name, index.id, writes)
        )

    def remove_alias(self, domain: str, name: str, index: Index) -> None:
        """Remove an alias's pointer to an index."""
        self.database.execute(
            "DELETE FROM aliases WHERE domain = ? AND name = ? AND idx = ?",
            (domain, name, index.id),
        )

    # --- documents ----------------------------------------------------------------------------

    def put(
        self, index: Index, doc_id: str, source: bytes, *, create_only: bool = False
    ) -> WriteResult:
        """Write a document, inside the caller's transaction if there is one. Raises SearchError."""
        document = parse_document(source)
        reader = Reader(index.mapping)
        values = reader.values(document)
        with self.database.transaction():
            if reader.has_grown:
                self.save_mapping(index)
            version = self._take_out(index, doc_id, create_only=create_only) + 1
            row_id, first = self._next_ids(len(values))
            self.database.execute(
                "INSERT INTO docs VALUES (?, ?, ?, ?, ?)",
                (row_id, index.id, doc_id, version, source.decode("utf-8")),
            )
            numbered = list(enumerate(values, first))
            self.database.execute_many(
                "INSERT INTO vals VALUES (?, ?, ?, ?, ?)",
                [(n, row_id, v.field, v.number, v.keyword) for n, v in numbered],
            )
            self.database.execute_many(
                "INSERT INTO words (rowid, body) VALUES (?, ?)",
                [(n, v.words) for n, v in numbered if v.words is not None],
            )
        return WriteResult("created" if version == 1 else "updated", version, row_id)

    def _next_ids(self, values: int) -> tuple[int, int]:
        """Return the row ids for a new document and for its first value. Inside a transaction."""
        row_id, first = self._free
        self._free = (row_id + 1, first + values)
        return row_id, first

    def delete(self, index: Index, doc_id: str) -> WriteResult:
        """Delete a document."""
        with self.database.transaction(frees=True):
            version = self._take_out(index, doc_id, create_only=False)
        return WriteResult("deleted" if version else "not_found", version + 1, 0)

    def _take_out(self, index: Index, doc_id: str, *, create_only: bool) -> int:
        """Remove a document; return its version, or 0 if it did not exist."""
        rows = self.database.query(
            "SELECT id, version FROM docs WHERE idx = ? AND doc_id = ?", (index.id, doc_id)
        )
        if not rows:
            return 0
        row_id, version = int(rows[0][0]), int(rows[0][1])
        if create_only:
            raise SearchError(
                409,
                "version_conflict_engine_exception",
                f"[{doc_id}]: version conflict, document already exists (current version [{version}])",
                index=index.name,
            )
        self.database.execute(
            "DELETE FROM words WHERE rowid IN (SELECT id FROM vals WHERE doc = ?)", (row_id,)
        )
        self.database.execute("DELETE FROM vals WHERE doc = ?", (row_id,))
        self.database.execute("DELETE FROM docs WHERE id = ?", (row_id,))
        return version

    def get(self, index: Index, doc_id: str) -> tuple[int, int, str] | None:
        """Return a document's version, sequence number (of the whole file) and source."""
        rows = self.database.query(
            "SELECT version, id, source FROM docs WHERE idx = ? AND doc_id = ?",
            (index.id, doc_id),
        )
        return None if not rows else (int(rows[0][0]), int(rows[0][1]), str(rows[0][2]))

    def counts(self, indexes: Sequence[Index]) -> Mapping[int, tuple[int, int]]:
        """Return, by index, the number of documents and the bytes of their sources."""
        totals: dict[int, tuple[int, int]] = {index.id: (0, 0) for index in indexes}
        rows = self.database.query(
            "SELECT idx, COUNT(*), SUM(LENGTH(source)) FROM docs GROUP BY idx"
        )
        totals.update({int(i): (int(n), int(b)) for i, n, b in rows if int(i) in totals})
        return totals


def parse_document(source: bytes) -> dict[str, Any]:
    """Return a document. Raises SearchError for what is none."""
    try:
        document = parse_json(source)
    except ValueError as error:
        raise SearchError(
            400,
            "mapper_parsing_exception",
            "failed to parse",
            caused_by={"type": "json_parse_exception", "reason": str(error)},
        ) from error
    if not isinstance(document, dict):
        raise SearchError(
            400,
            "mapper_parsing_exception",
            "failed to parse",
            caused_by={
                "type": "not_x_content_exception",
                "reason": "Compressor detection can only be called on some xcontent bytes",
            },
        )
    return cast("dict[str, Any]", document)
