"""The database rows of versions and delete markers, and of file removals that are not finished yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.services.s3.state import Marker, StoredObject
from headrace.services.s3.store import build_details_fields, drop_versions, render_details
from headrace.store.database import Database

_COLUMNS = "number, key, version_id, file, size, etag, last_modified_ms, mtime_ns, details"
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
            f"SELECT {_COLUMNS} FROM s3_versions WHERE bucket = ? AND key = ? AND version_id = ?",
            (bucket, key, version_id),
        )
        return VersionRow(*rows[0]) if rows else None

    def of_key(self, bucket: str, key: str) -> list[VersionRow]:
        """Return a key's rows, newest first."""
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM s3_versions WHERE bucket = ? AND key = ? ORDER BY number DESC",
            (bucket, key),
        )
        return [VersionRow(*row) for row in rows]

    def newest(self, bucket: str, key: str, *, but: str = "") -> VersionRow | None:
        """Return the newest row of a key, ignoring the version `but`, or None."""
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM s3_versions WHERE bucket = ? AND key = ? AND version_id != ?"
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
