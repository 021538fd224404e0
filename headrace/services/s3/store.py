"""Stores buckets (documents in the database) and the descriptions of objects (the index).

The index has what an object's file cannot hold: ETag, headers, metadata, tags. A write is announced in `s3_pending`
before its file is moved into place, and confirmed afterwards, so that a kill between the two loses neither the
description of the old object nor that of the new one. Here are also the histories of keys.

The database rows of versions and delete markers, and of file removals that are not finished yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from headrace.services.s3.state import Bucket, Marker, StoredObject
from headrace.store.database import Database

_COLUMNS = "key, escaped, size, etag, last_modified_ms, mtime_ns, details"
_MOST_VARIABLES = 500
_WITHDRAW = "DELETE FROM s3_pending WHERE bucket = ? AND key = ?"


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """An object's row. The file may have changed since the row was written."""

    key: str
    escaped: bool
    size_bytes: int
    etag: str
    last_modified_ms: int
    mtime_ns: int
    details: str

    def describe(self, bucket: str, path: Path) -> StoredObject:
        """Return the object that the row describes; its file is `path`."""
        return StoredObject(
            bucket,
            self.key,
            path,
            self.size_bytes,
            self.etag,
            self.last_modified_ms,
            self.mtime_ns,
            **build_details_fields(self.details),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a key's history that is part of a write.

    Attributes:
        version_id: the version that the write makes, or makes current again.
        file: the version's file in the folder of versions.
        dropped: the ids of the versions that the write removes.
    """

    version_id: str
    file: str
    dropped: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write that a kill may have interrupted."""

    bucket: str
    key: str
    inode: int
    row: ObjectRow
    change: Change | None


class Buckets:
    """The stored buckets, by name. Thread-safe as the database is."""

    def __init__(self, database: Database) -> None:
        self._documents = database.documents("s_three_buckets")

    def load(self) -> dict[str, Bucket]:
        """Return all stored buckets, by name."""
        return {name: Bucket(**document) for name, document in self._documents.items()}

    def get(self, name: str) -> Bucket | None:
        """Return the stored state of a bucket, or None."""
        document = self._documents.get(name)
        return None if document is None else Bucket(**document)

    def put(self, name: str, bucket: Bucket) -> None:
        """Store a bucket; it is durable when this returns."""
        self._documents.put(name, asdict(bucket))

    def delete(self, name: str) -> None:
        """Delete a bucket's document."""
        self._documents.delete(name)


class ObjectIndex:
    """The index: a row for each object of all buckets. Each method is one atomic change. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate(
            "s3",
            [
                """CREATE TABLE s3_objects (bucket TEXT, key TEXT, escaped INTEGER, size INTEGER,
                   etag TEXT, last_modified_ms INTEGER, mtime_ns INTEGER, details TEXT,
                   PRIMARY KEY (bucket, key)) WITHOUT ROWID""",
                """CREATE TABLE s3_pending (bucket TEXT, key TEXT, escaped INTEGER, size INTEGER,
                   etag TEXT, last_modified_ms INTEGER, mtime_ns INTEGER, details TEXT,
                   inode INTEGER, PRIMARY KEY (bucket, key)) WITHOUT ROWID""",
                "CREATE INDEX s3_escaped ON s3_objects (bucket, key) WHERE escaped = 1",
                "ALTER TABLE s3_pending ADD COLUMN change TEXT",
                """CREATE TABLE s3_versions (number INTEGER PRIMARY KEY AUTOINCREMENT, bucket TEXT,
                   key TEXT, version_id TEXT, file TEXT, size INTEGER, etag TEXT,
                   last_modified_ms INTEGER, mtime_ns INTEGER, details TEXT)""",
                "CREATE UNIQUE INDEX s3_version_ids ON s3_versions (bucket, key, version_id)",
                """CREATE TABLE s3_removals (bucket TEXT, key TEXT, escaped INTEGER, inode INTEGER,
                   PRIMARY KEY (bucket, key)) WITHOUT ROWID""",
            ],
        )

    def get(self, bucket: str, key: str, *, waits: bool = True) -> ObjectRow | None:
        """Return a key's row, or None. Raises as `many`."""
        return self.many(bucket, [key], waits=waits).get(key)

    def many(self, bucket: str, keys: Sequence[str], *, waits: bool = True) -> dict[str, ObjectRow]:
        """Return the rows of the `keys` that have a row. Without `waits`, raises BlockingIOError instead."""
        rows: dict[str, ObjectRow] = {}
        for start in range(0, len(keys), _MOST_VARIABLES):
            some = keys[start : start + _MOST_VARIABLES]
            marks = ",".join("?" * len(some))
            for row in self._database.query(
                f"SELECT {_COLUMNS} FROM s3_objects WHERE bucket = ? AND key IN ({marks})",
                (bucket, *some),
                waits=waits,
            ):
                rows[row[0]] = ObjectRow(row[0], bool(row[1]), *row[2:])
        return rows

    def list_escaped_keys(self, bucket: str, prefix: str, after: str) -> Iterator[str]:
        """Yield, in order, the keys above `after` whose files are in the escape folder."""
        while True:
            rows = self._database.query(
                "SELECT key FROM s3_objects WHERE bucket = ? AND escaped = 1 AND key > ? AND key >= ?"
                " ORDER BY key LIMIT 1000",
                (bucket, after, prefix),
            )
            for (key,) in rows:
                if not key.startswith(prefix):
                    return
                yield key
            if not rows:
                return
            after = rows[-1][0]

    def put(self, stored: StoredObject, *, escaped: bool) -> None:
        """Write an object's row."""
        self._database.execute(
            "INSERT OR REPLACE INTO s3_objects VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            _build_values(stored, escaped=escaped),
        )

    def announce(
        self, stored: StoredObject, *, escaped: bool, inode: int, change: Change | None = None
    ) -> None:
        """Store a write before its file, which has the inode `inode`, is moved into place."""
        changed = None if change is None else json.dumps(asdict(change))
        self._database.execute(
            "INSERT OR REPLACE INTO s3_pending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*_build_values(stored, escaped=escaped), inode, changed),
        )

    def confirm(self, bucket: str, key: str, change: Change | None = None) -> None:
        """Make the row of an announced write the object's row. This works on a full disk too, since the file exists."""
        with self._database.transaction(frees=True):
            if change is not None:
                self._confirm_change(bucket, key, change)
            self._database.execute(
                "INSERT OR REPLACE INTO s3_objects SELECT bucket, key, escaped, size, etag,"
                " last_modified_ms, mtime_ns, details FROM s3_pending WHERE bucket = ? AND key = ?",
                (bucket, key),
            )
            self._database.execute(_WITHDRAW, (bucket, key))

    def _confirm_change(self, bucket: str, key: str, change: Change) -> None:
        drop_versions(self._database, bucket, key, change.dropped)
        # A version that becomes current again already has its row and its place in the order.
        self._database.execute(
            "INSERT OR IGNORE INTO s3_versions (bucket, key, version_id, file, size, etag,"
            " last_modified_ms, mtime_ns, details) SELECT bucket, key, ?, ?, size, etag,"
            " last_modified_ms, mtime_ns, details FROM s3_pending WHERE bucket = ? AND key = ?",
            (change.version_id, change.file, bucket, key),
        )

    def withdraw(self, bucket: str, key: str) -> None:
        """Delete the row of an announced write."""
        self._database.execute(_WITHDRAW, (bucket, key))

    def pending(self) -> list[PendingWrite]:
        """Return the announced writes that were neither confirmed nor withdrawn."""
        rows = self._database.query(f"SELECT bucket, inode, change, {_COLUMNS} FROM s3_pending")
        return [
            PendingWrite(
                row[0],
                row[3],
                row[1],
                ObjectRow(row[3], bool(row[4]), *row[5:]),
                None if row[2] is None else Change(**json.loads(row[2])),
            )
            for row in rows
        ]

    def remove(self, bucket: str, key: str) -> None:
        """Delete a key's row."""
        self._database.execute("DELETE FROM s3_objects WHERE bucket = ? AND key = ?", (bucket, key))

    def remove_bucket(self, bucket: str) -> None:
        """Delete all rows of a bucket."""
        with self._database.transaction(frees=True):
            self._database.execute("DELETE FROM s3_objects WHERE bucket = ?", (bucket,))
            self._database.execute("DELETE FROM s3_versions WHERE bucket = ?", (bucket,))


def drop_versions(database: Database, bucket: str, key: str, version_ids: Sequence[str]) -> None:
    """Delete the rows of versions in the caller's transaction."""
    for version_id in version_ids:
        database.execute(
            "DELETE FROM s3_versions WHERE bucket = ? AND key = ? AND version_id = ?",
            (bucket, key, version_id),
        )


def build_details_fields(details: str) -> dict[str, Any]:
    """Return the fields of a StoredObject that are in the column `details` of a row."""
    fields_by_name: dict[str, Any] = json.loads(details)
    if "part_sizes" in fields_by_name or "part_checksums" in fields_by_name:
        for name in _TUPLES:
            fields_by_name[name] = tuple(fields_by_name.get(name, ()))
    return fields_by_name


def render_details(stored: StoredObject) -> str:
    """Return the column `details` of a row: every field that has no column of its own and differs from its default."""
    details: dict[str, Any] = {}
    for name, default in _DETAILS:
        value = getattr(stored, name)
        if value and value != default:
            details[name] = value
    return json.dumps(details)


_OWN_COLUMNS = ("bucket", "key", "path", "size_bytes", "etag", "last_modified_ms", "mtime_ns")
_DETAILS = [(f.name, f.default) for f in fields(StoredObject) if f.name not in _OWN_COLUMNS]
_TUPLES = [f.name for f in fields(StoredObject) if f.default == ()]


def _build_values(stored: StoredObject, *, escaped: bool) -> tuple[str | int, ...]:
    return (
        stored.bucket,
        stored.key,
        int(escaped),
        stored.size_bytes,
        stored.etag,
        stored.last_modified_ms,
        stored.mtime_ns,
        render_details(stored),
    )


_HISTORY_COLUMNS = "number, key, version_id, file, size, etag, last_modified_ms, mtime_ns, details"
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class VersionRow:
    """The row of a version. A newer version has a higher `number`. The row of a delete marker has no file."""

    number: int
    key: str
    version_id: str
    file: str
    size_bytes: int
    etag: str
    last_modified_ms: int
    mtime_ns: int
    details: str

    @property
    def is_marker(self) -> bool:
        """Whether this is a delete marker."""
        return not self.file

    def describe(self, bucket: str, path: Path) -> StoredObject:
        """Return the version that the row describes; its bytes are in `path`."""
        fields = build_details_fields(self.details)
        fields |= {"version_id": self.version_id, "version_file": self.file}
        return StoredObject(
            bucket,
            self.key,
            path,
            self.size_bytes,
            self.etag,
            self.last_modified_ms,
            self.mtime_ns,
            **fields,
        )

    def marker(self, bucket: str) -> Marker:
        """Return the delete marker that the row describes."""
        return Marker(bucket, self.key, self.version_id, self.last_modified_ms)


@dataclass(frozen=True, slots=True)
class Removal:
    """A plain file that must be removed; the database has already removed the object."""

    bucket: str
    key: str
    escaped: bool
    inode: int


class HistoryIndex:
    """The rows of all histories. Each method is one atomic change. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, bucket: str, key: str, version_id: str) -> VersionRow | None:
        """Return a version's row, or None."""
        rows = self._database.query(
            f"SELECT {_HISTORY_COLUMNS} FROM s3_versions WHERE bucket = ? AND key = ? AND version_id = ?",
            (bucket, key, version_id),
        )
        return VersionRow(*rows[0]) if rows else None

    def of_key(self, bucket: str, key: str) -> list[VersionRow]:
        """Return a key's rows, newest first."""
        rows = self._database.query(
            f"SELECT {_HISTORY_COLUMNS} FROM s3_versions WHERE bucket = ? AND key = ? ORDER BY number DESC",
            (bucket, key),
        )
        return [VersionRow(*row) for row in rows]

    def newest(self, bucket: str, key: str, *, but: str = "") -> VersionRow | None:
        """Return the newest row of a key, ignoring the version `but`, or None."""
        rows = self._database.query(
            f"SELECT {_HISTORY_COLUMNS} FROM s3_versions WHERE bucket = ? AND key = ? AND version_id != ?"
            " ORDER BY number DESC LIMIT 1",
            (bucket, key, but),
        )
        return VersionRow(*rows[0]) if rows else None

    def keys(self, bucket: str, prefix: str, after: str) -> Iterator[str]:
        """Yield, in order, the keys from `after` on that have versions or delete markers."""
        inclusive = True
        while True:
            rows = self._database.query(
                f"SELECT DISTINCT key FROM s3_versions WHERE bucket = ? AND key >= ?"
                f" AND key {'>=' if inclusive else '>'} ? ORDER BY key LIMIT {_PAGE}",
                (bucket, prefix, after),
            )
            for (key,) in rows:
                if not key.startswith(prefix):
                    return
                yield key
            if len(rows) < _PAGE:
                return
            after, inclusive = rows[-1][0], False

    def has_any(self, bucket: str) -> bool:
        """Whether a bucket has any row of a version or a delete marker."""
        query = "SELECT 1 FROM s3_versions WHERE bucket = ? LIMIT 1"
        return bool(self._database.query(query, (bucket,)))

    def files(self) -> set[str]:
        """Return the names of all version files that have a row."""
        query = "SELECT file FROM s3_versions WHERE file != ''"
        return {file for (file,) in self._database.query(query)}

    def put(self, stored: StoredObject, *, dropped: Sequence[str] = ()) -> None:
        """Add a version as the newest of its key, and delete the versions in `dropped`."""
        with self._database.transaction():
            drop_versions(self._database, stored.bucket, stored.key, dropped)
            self._database.execute(
                "INSERT INTO s3_versions (bucket, key, version_id, file, size, etag,"
                " last_modified_ms, mtime_ns, details) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    stored.bucket,
                    stored.key,
                    stored.version_id,
                    stored.version_file,
                    stored.size_bytes,
                    stored.etag,
                    stored.last_modified_ms,
                    stored.mtime_ns,
                    render_details(stored),
                ),
            )

    def update(self, stored: StoredObject) -> None:
        """Store a changed description of a version; its place in the order stays."""
        self._database.execute(
            "UPDATE s3_versions SET file = ?, size = ?, etag = ?, last_modified_ms = ?,"
            " mtime_ns = ?, details = ? WHERE bucket = ? AND key = ? AND version_id = ?",
            (
                stored.version_file,
                stored.size_bytes,
                stored.etag,
                stored.last_modified_ms,
                stored.mtime_ns,
                render_details(stored),
                stored.bucket,
                stored.key,
                stored.version_id,
            ),
        )

    def change(
        self,
        bucket: str,
        key: str,
        *,
        dropped: Sequence[str] = (),
        marker: Marker | None = None,
        removal: Removal | None = None,
    ) -> None:
        """Delete versions, add a delete marker, and store which file must be removed, all in one step."""
        with self._database.transaction(frees=marker is None):
            drop_versions(self._database, bucket, key, dropped)
            if marker is not None:
                self._database.execute(
                    "INSERT INTO s3_versions (bucket, key, version_id, file, size, etag,"
                    " last_modified_ms, mtime_ns, details) VALUES (?, ?, ?, '', 0, '', ?, 0, '{}')",
                    (bucket, key, marker.version_id, marker.last_modified_ms),
                )
            if removal is not None:
                self._database.execute(
                    "DELETE FROM s3_objects WHERE bucket = ? AND key = ?", (bucket, key)
                )
                self._database.execute(
                    "INSERT OR REPLACE INTO s3_removals VALUES (?, ?, ?, ?)",
                    (bucket, key, int(removal.escaped), removal.inode),
                )

    def removals(self) -> list[Removal]:
        """Return the removals that were started but not finished."""
        rows = self._database.query("SELECT bucket, key, escaped, inode FROM s3_removals")
        return [Removal(row[0], row[1], bool(row[2]), row[3]) for row in rows]

    def delete_removal(self, bucket: str, key: str) -> None:
        """Delete the row of a finished removal."""
        self._database.execute(
            "DELETE FROM s3_removals WHERE bucket = ? AND key = ?", (bucket, key)
        )
