"""Objects as files: where they lie, writing them whole or not at all, and what the index says of them.

The index (SQLite) holds what a file cannot: ETag, headers, metadata. A file that the index does not know, or
knows with another size or modification time, is an object all the same (Spark wrote it): it is taken in when
it is met. A row whose file is gone is dropped the same way.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.core.clock import Clock
from headrace.core.config import Durability
from headrace.core.ids import Ids
from headrace.services.s3.names import escaped_name, is_hidden, is_plain
from headrace.store.database import Database

S3_FOLDER = "s3"
_ESCAPED = ".headrace-escaped"
_TEMPORARY = ".headrace-tmp"
_CHUNK_BYTES = 1024 * 1024

DEFAULT_CONTENT_TYPE = "binary/octet-stream"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object: its file, and what the index knows of it. `etag` has no quotes."""

    bucket: str
    key: str
    path: Path
    size_bytes: int
    etag: str
    last_modified_ms: int
    mtime_ns: int
    content_type: str = DEFAULT_CONTENT_TYPE
    headers: dict[str, str] = field(default_factory=dict[str, str])
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    checksums: dict[str, str] = field(default_factory=dict[str, str])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    parts: int = 0


_COLUMNS = "key, escaped, size, etag, last_modified_ms, mtime_ns, details"


class ObjectFiles:
    """All objects of all buckets. Thread-safe: finishing a write holds `lock`; copying bytes does not."""

    def __init__(
        self, data_dir: Path, *, clock: Clock, ids: Ids, database: Database, durability: Durability
    ) -> None:
        self.root = data_dir / S3_FOLDER
        self.lock = threading.RLock()
        self._clock = clock
        self._ids = ids
        self._database = database
        self._fsync = durability == "fsync"
        database.migrate(
            "s3",
            [
                """CREATE TABLE s3_objects (bucket TEXT, key TEXT, escaped INTEGER, size INTEGER,
                   etag TEXT, last_modified_ms INTEGER, mtime_ns INTEGER, details TEXT,
                   PRIMARY KEY (bucket, key)) WITHOUT ROWID"""
            ],
        )

    def prepare(self) -> None:
        """Make the folders and throw away what a kill left half-written."""
        shutil.rmtree(self.root / _TEMPORARY, ignore_errors=True)
        (self.root / _TEMPORARY).mkdir(parents=True, exist_ok=True)

    # --- buckets ------------------------------------------------------------------------------

    def bucket_folder(self, bucket: str) -> Path:
        """Return the folder of a bucket's plain files."""
        return self.root / bucket

    def add_bucket(self, bucket: str) -> None:
        """Make a bucket's folder."""
        self.bucket_folder(bucket).mkdir(parents=True, exist_ok=True)

    def remove_bucket(self, bucket: str) -> None:
        """Remove a bucket's folders and rows."""
        self._database.execute("DELETE FROM s3_objects WHERE bucket = ?", (bucket,))
        shutil.rmtree(self.bucket_folder(bucket), ignore_errors=True)
        shutil.rmtree(self.root / _ESCAPED / bucket, ignore_errors=True)

    # --- writing ------------------------------------------------------------------------------

    def temporary(self) -> Path:
        """Return the path of a new temporary file on the same file system."""
        return self.root / _TEMPORARY / self._ids.hex(32)

    def write_temporary(self, data: bytes) -> Path:
        """Return a temporary file that holds `data`."""
        path = self.temporary()
        path.write_bytes(data)
        return path

    def publish(self, temporary: Path, stored: StoredObject) -> StoredObject:
        """Make a temporary file the object: at once, and with the index behind it when this returns."""
        if self._fsync:
            _sync(temporary)
        with self.lock:
            path, escaped = self._place(stored.bucket, stored.key)
            temporary.replace(path)
            if self._fsync:
                _sync(path.parent)
            mtime_ns = path.stat().st_mtime_ns
            stored = replace(stored, path=path, mtime_ns=mtime_ns)
            self._remember(stored, escaped=escaped)
            if not escaped:
                # Hadoop checks a file against the checksum beside it, which is now another's.
                (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        return stored

    def _place(self, bucket: str, key: str) -> tuple[Path, bool]:
        """Return where a key's file goes, its folder made, and whether that is the escape folder."""
        if is_plain(key):
            path = self.bucket_folder(bucket) / key
            escape = self._escape_path(bucket, key)
            with contextlib.suppress(FileExistsError, NotADirectoryError):
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.is_dir() and self._is_inside(bucket, path):
                    escape.unlink(missing_ok=True)
                    return path, False
        escape = self._escape_path(bucket, key)
        escape.parent.mkdir(parents=True, exist_ok=True)
        return escape, True

    def _escape_path(self, bucket: str, key: str) -> Path:
        return self.root / _ESCAPED / bucket / escaped_name(key)

    def _is_inside(self, bucket: str, path: Path) -> bool:
        """Whether no link that somebody planted in the bucket leads `path` out of it."""
        return path.parent.resolve().is_relative_to(self.bucket_folder(bucket).resolve())

    def _remember(self, stored: StoredObject, *, escaped: bool) -> None:
        details = {
            "content_type": stored.content_type,
            "headers": stored.headers,
            "metadata": stored.metadata,
            "checksums": stored.checksums,
            "tags": stored.tags,
            "parts": stored.parts,
        }
        self._database.execute(
            "INSERT OR REPLACE INTO s3_objects VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                stored.bucket,
                stored.key,
                int(escaped),
                stored.size_bytes,
                stored.etag,
                stored.last_modified_ms,
                stored.mtime_ns,
                json.dumps(details),
            ),
        )

    def update(self, stored: StoredObject) -> None:
        """Store changed tags or metadata of an object whose file stays."""
        escaped = stored.path.is_relative_to(self.root / _ESCAPED)
        self._remember(stored, escaped=escaped)

    def remove(self, bucket: str, key: str) -> None:
        """Delete an object; a missing one is no error. Folders left empty go too."""
        with self.lock:
            self._database.execute(
                "DELETE FROM s3_objects WHERE bucket = ? AND key = ?", (bucket, key)
            )
            self._escape_path(bucket, key).unlink(missing_ok=True)
            if not is_plain(key):
                return
            path = self.bucket_folder(bucket) / key
            if not self._is_inside(bucket, path) or path.is_dir():
                return
            with contextlib.suppress(NotADirectoryError):
                path.unlink(missing_ok=True)
                (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
            self._prune(bucket, path.parent)

    def _prune(self, bucket: str, folder: Path) -> None:
        top = self.bucket_folder(bucket)
        with contextlib.suppress(OSError):  # not empty, or gone already
            while folder != top:
                folder.rmdir()
                folder = folder.parent

    # --- reading ------------------------------------------------------------------------------

    def find(self, bucket: str, key: str) -> StoredObject | None:
        """Return the object under `key`, or None."""
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM s3_objects WHERE bucket = ? AND key = ?",  # noqa: S608
            (bucket, key),
        )
        row = rows[0] if rows else None
        if row is not None and row[1]:
            return self._known(bucket, row)
        if not is_plain(key):
            return None
        return self._reconcile(bucket, key, row)

    def list(self, bucket: str, prefix: str = "") -> list[StoredObject]:
        """Return the objects whose keys start with `prefix`, in the order of their UTF-8 bytes."""
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM s3_objects WHERE bucket = ? AND key >= ?"  # noqa: S608
            " AND substr(key, 1, ?) = ?",
            (bucket, prefix, len(prefix), prefix),
        )
        found: dict[str, StoredObject] = {}
        known: dict[str, tuple[Any, ...]] = {}
        for row in rows:
            if row[1]:
                found[row[0]] = self._known(bucket, row)
            else:
                known[row[0]] = row
        for key in self._plain_keys(bucket, prefix):
            stored = self._reconcile(bucket, key, known.pop(key, None))
            if stored is not None:
                found.setdefault(key, stored)
        for key in known:
            self._forget_if_gone(bucket, key)
        return [found[key] for key in sorted(found, key=_utf8)]

    def _plain_keys(self, bucket: str, prefix: str) -> Iterator[str]:
        top = self.bucket_folder(bucket)
        # Only the folder that the prefix names needs a look.
        start = prefix.rpartition("/")[0]
        folder = top / start if start and is_plain(start) else top
        if start and not is_plain(start):
            return
        if not folder.is_dir() or not folder.resolve().is_relative_to(top.resolve()):
            return
        for place, _, names in os.walk(folder):
            base = Path(place).relative_to(top).as_posix()
            lead = "" if base == "." else f"{base}/"
            for name in names:
                key = lead + name
                if key.startswith(prefix) and not is_hidden(name):
                    yield key

    def _known(self, bucket: str, row: tuple[Any, ...]) -> StoredObject:
        key, escaped, size, etag, last_modified_ms, mtime_ns, details = row
        path = self._escape_path(bucket, key) if escaped else self.bucket_folder(bucket) / key
        return StoredObject(
            bucket, key, path, size, etag, last_modified_ms, mtime_ns, **json.loads(details)
        )

    def _reconcile(self, bucket: str, key: str, row: tuple[Any, ...] | None) -> StoredObject | None:
        """Return the object that the file of `key` is, taking it in when the index is behind."""
        path = self.bucket_folder(bucket) / key
        try:
            status = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            if row is not None:
                self._forget_if_gone(bucket, key)
            return None
        if not os.path.isfile(path) or os.path.islink(path) or not self._is_inside(bucket, path):  # noqa: PTH113, PTH114
            return None
        if row is not None and (row[2], row[5]) == (status.st_size, status.st_mtime_ns):
            return self._known(bucket, row)
        with self.lock:
            status = path.stat()
            stored = StoredObject(
                bucket=bucket,
                key=key,
                path=path,
                size_bytes=status.st_size,
                etag=md5_of_file(path),
                last_modified_ms=status.st_mtime_ns // 1_000_000,
                mtime_ns=status.st_mtime_ns,
            )
            self._remember(stored, escaped=False)
        return stored

    def _forget_if_gone(self, bucket: str, key: str) -> None:
        with self.lock:
            if not (self.bucket_folder(bucket) / key).is_file():
                self._database.execute(
                    "DELETE FROM s3_objects WHERE bucket = ? AND key = ? AND escaped = 0",
                    (bucket, key),
                )


def _utf8(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def md5_of_file(path: Path) -> str:
    """Return a file's MD5 as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
