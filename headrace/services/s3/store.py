"""How buckets and objects' descriptions last: documents of buckets, and the index of objects.

The index has what a file cannot hold of its object: ETag, headers, metadata, tags. A write is announced in `s3_pending`
before the file is moved into place and confirmed after it, so that a kill between the two loses neither the old
object's description nor the new one's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.services.s3.state import Bucket, StoredObject
from headrace.store.database import Database

_COLUMNS = "key, escaped, size, etag, last_modified_ms, mtime_ns, details"
_MOST_VARIABLES = 500


@dataclass(frozen=True, slots=True)
class Row:
    """An object's row. The file may have changed since the row was written."""

    key: str
    escaped: bool
    size_bytes: int
    etag: str
    last_modified_ms: int
    mtime_ns: int
    details: str

    def describe(self, bucket: str, path: Path) -> StoredObject:
        """Return the object, whose file is `path`."""
        details: dict[str, Any] = json.loads(self.details)
        details["part_sizes"] = tuple(details.get("part_sizes", ()))
        return StoredObject(
            bucket,
            self.key,
            path,
            self.size_bytes,
            self.etag,
            self.last_modified_ms,
            self.mtime_ns,
            **details,
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """A write that a kill may have interrupted."""

    bucket: str
    key: str
    inode: int
    row: Row


class Buckets:
    """The stored buckets, by name. Thread-safe as the database is."""

    def __init__(self, database: Database) -> None:
        self._documents = database.documents("s_three_buckets")

    def load(self) -> dict[str, Bucket]:
        """Return all buckets that are stored."""
        return {name: Bucket(**document) for name, document in self._documents.items()}

    def get(self, name: str) -> Bucket | None:
        """Return a bucket as it is stored, or None."""
        document = self._documents.get(name)
        return None if document is None else Bucket(**document)

    def put(self, name: str, bucket: Bucket) -> None:
        """Store a bucket; durable on return."""
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
            ],
        )

    def get(self, bucket: str, key: str) -> Row | None:
        """Return a key's row, or None."""
        return self.many(bucket, [key]).get(key)

    def many(self, bucket: str, keys: Sequence[str]) -> dict[str, Row]:
        """Return the rows of those `keys` that have one."""
        found: dict[str, Row] = {}
        for start in range(0, len(keys), _MOST_VARIABLES):
            some = keys[start : start + _MOST_VARIABLES]
            marks = ",".join("?" * len(some))
            for row in self._database.query(
                f"SELECT {_COLUMNS} FROM s3_objects WHERE bucket = ? AND key IN ({marks})",
                (bucket, *some),
            ):
                found[row[0]] = Row(row[0], bool(row[1]), *row[2:])
        return found

    def escaped_keys(self, bucket: str, prefix: str, after: str) -> Iterator[str]:
        """Yield, in order, the keys above `after` whose objects are in the escape folder."""
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
            _values(stored, escaped=escaped),
        )

    def announce(self, stored: StoredObject, *, escaped: bool, inode: int) -> None:
        """Store a write before its file, which has that inode, is moved into place."""
        self._database.execute(
            "INSERT OR REPLACE INTO s3_pending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*_values(stored, escaped=escaped), inode),
        )

    def confirm(self, bucket: str, key: str) -> None:
        """Make an announced write's row the object's. This works on a full disk too: the file is in place already."""
        with self._database.transaction(frees=True):
            self._database.execute(
                "INSERT OR REPLACE INTO s3_objects SELECT bucket, key, escaped, size, etag,"
                " last_modified_ms, mtime_ns, details FROM s3_pending WHERE bucket = ? AND key = ?",
                (bucket, key),
            )
            self.withdraw(bucket, key)

    def withdraw(self, bucket: str, key: str) -> None:
        """Delete an announced write."""
        self._database.execute("DELETE FROM s3_pending WHERE bucket = ? AND key = ?", (bucket, key))

    def pending(self) -> list[Pending]:
        """Return the writes that were announced and neither confirmed nor withdrawn."""
        rows = self._database.query(f"SELECT bucket, inode, {_COLUMNS} FROM s3_pending")
        return [
            Pending(row[0], row[2], row[1], Row(row[2], bool(row[3]), *row[4:])) for row in rows
        ]

    def remove(self, bucket: str, key: str) -> None:
        """Delete a key's row."""
        self._database.execute("DELETE FROM s3_objects WHERE bucket = ? AND key = ?", (bucket, key))

    def remove_bucket(self, bucket: str) -> None:
        """Delete all rows of a bucket."""
        self._database.execute("DELETE FROM s3_objects WHERE bucket = ?", (bucket,))


def _values(stored: StoredObject, *, escaped: bool) -> tuple[str | int, ...]:
    details = {
        "content_type": stored.content_type,
        "headers": stored.headers,
        "metadata": stored.metadata,
        "checksums": stored.checksums,
        "tags": stored.tags,
        "parts": stored.parts,
        "part_sizes": stored.part_sizes,
    }
    return (
        stored.bucket,
        stored.key,
        int(escaped),
        stored.size_bytes,
        stored.etag,
        stored.last_modified_ms,
        stored.mtime_ns,
        json.dumps(details),
    )
