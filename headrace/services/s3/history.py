"""The history of each key in a bucket with versioning: its current version, older versions and delete markers.

The current version is the plain file, as in every bucket. The file of each version also has a name in the folder of
versions, which neither listings nor Spark see. That name is a hard link, so that the version survives when the plain
file is replaced or deleted. A version exists if it has a row in the database. At start-up `headrace.services.s3.files`
finishes writes that a kill interrupted, so that a history never shows half of a write.

A file that Spark moves into the bucket becomes a version when S3 first finds it. If Spark writes into an existing file,
the current version itself changes. If Spark deletes a plain file, the history stays and gets no delete marker.
"""

from __future__ import annotations

import base64
import contextlib
import heapq
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from headrace.core.ids import Ids
from headrace.services.s3.errors import invalid_version
from headrace.services.s3.files import VERSIONS_FOLDER, ObjectFiles
from headrace.services.s3.state import NULL_VERSION, Bucket, Marker, StoredObject
from headrace.services.s3.store import Change, HistoryIndex, Removal, VersionRow

Version = StoredObject | Marker

_ENABLED = "Enabled"
_RANDOM_BYTES = 20
_ID_CHARACTERS = 32


def new_version_id(ids: Ids) -> str:
    """Return a new version id of 32 characters. Its end is a checksum, which `is_version_id` checks."""
    raw = ids.bytes(_RANDOM_BYTES)
    return base64.b64encode(raw + zlib.crc32(raw).to_bytes(4, "big"), altchars=b"._").decode()


def is_version_id(text: str) -> bool:
    """Whether S3 could have made this id. AWS's error for a made-up id differs from that for a deleted version."""
    if text == NULL_VERSION:
        return True
    if len(text) != _ID_CHARACTERS or not text.isascii():
        return False
    try:
        raw = base64.b64decode(text, altchars=b"._", validate=True)
    except ValueError:
        return False
    return raw[_RANDOM_BYTES:] == zlib.crc32(raw[:_RANDOM_BYTES]).to_bytes(4, "big")


def check_version_id(text: str) -> None:
    """Raise AwsError InvalidArgument for an id that S3 cannot have made."""
    if not is_version_id(text):
        raise invalid_version(text)


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version or delete marker in a listing."""

    version: Version
    is_latest: bool


class Histories:
    """The histories of all keys. Thread-safe: every change is made under the lock of the files."""

    def __init__(self, files: ObjectFiles, index: HistoryIndex, ids: Ids) -> None:
        self._files = files
        self._index = index
        self._ids = ids
        self._folder = files.root / VERSIONS_FOLDER

    def prepare(self) -> None:
        """Finish removals that a kill interrupted, and delete version files that have no row."""
        for removal in self._index.removals():
            self._files.remove_file(
                removal.bucket, removal.key, escaped=removal.escaped, inode=removal.inode
            )
            self._index.delete_removal(removal.bucket, removal.key)
        if self._folder.is_dir():
            known = self._index.files()
            for folder in self._folder.iterdir():
                for path in folder.iterdir():
                    if path.name not in known:
                        path.unlink()

    # --- finding ------------------------------------------------------------------------------

    def find(self, bucket: str, key: str, version_id: str) -> Version | None:
        """Return the version with this id, or None."""
        current = self._files.find(bucket, key)
        if current is not None and current.version_id == version_id:
            return current
        row = self._index.get(bucket, key, version_id)
        return None if row is None else self._build_version(bucket, row)

    def latest_marker(self, bucket: str, key: str) -> Marker | None:
        """Return the delete marker that is the latest version of a key, or None."""
        row = self._index.newest(bucket, key)
        return row.marker(bucket) if row is not None and row.is_marker else None

    def has_any(self, bucket: str) -> bool:
        """Whether a bucket has a version or a delete marker that is not its plain file."""
        return self._index.has_any(bucket)

    def scan(self, bucket: str, prefix: str, after: str) -> Iterator[ListedVersion]:
        """Yield the versions and delete markers of all keys from `after` on, sorted by key, newest first."""
        # Include the key `after` itself: the page before may have ended between two of its versions.
        below = after[:-1] if after else ""
        current = (stored.key for stored in self._files.scan(bucket, prefix, after=below))
        older = self._index.keys(bucket, prefix, after)
        for key, _ in groupby(heapq.merge(current, older)):
            if key >= after:
                yield from self.of_key(bucket, key)

    def of_key(self, bucket: str, key: str) -> Iterator[ListedVersion]:
        """Yield the versions and delete markers of a key, newest first."""
        current = self._files.find(bucket, key)
        if current is not None:
            yield ListedVersion(current, is_latest=True)
        rows = self._index.of_key(bucket, key)
        for index, row in enumerate(rows):
            if current is None or row.version_id != current.version_id:
                is_latest = current is None and index == 0 and row.is_marker
                yield ListedVersion(self._build_version(bucket, row), is_latest)

    def _build_version(self, bucket: str, row: VersionRow) -> Version:
        if row.is_marker:
            return row.marker(bucket)
        return row.describe(bucket, self._build_path(bucket, row.file))

    def _build_path(self, bucket: str, file: str) -> Path:
        return self._folder / bucket / file

    # --- changing: the caller holds the lock of the files, except for `known` -----------------

    def add_known(self, name: str, bucket: Bucket, stored: StoredObject) -> StoredObject:
        """Return a current object; if Spark wrote it after versioning was enabled, add it to its history first."""
        is_new = (
            bucket.versioning == _ENABLED
            and not stored.version_file
            and stored.last_modified_ms > bucket.versioned_since_ms
        )
        if not is_new:
            return stored
        with self._files.lock:
            return self._keep_current(name, bucket, stored.key) or stored

    def _keep_current(self, name: str, bucket: Bucket, key: str) -> StoredObject | None:
        """Return the current object, after making sure that its history has a row and a file for it."""
        current = self._files.find(name, key)
        if current is None or current.version_file:
            return current
        newest = self._index.newest(name, key)
        if newest is not None and not newest.is_marker:
            held = self._build_path(name, newest.file)
            if held.exists() and held.samefile(current.path):  # Spark wrote into the version's file
                same = replace(current, version_id=newest.version_id, version_file=newest.file)
                self._index.update(same)
                self._files.update(same)
                return same
        is_null = (
            bucket.versioning != _ENABLED or current.last_modified_ms <= bucket.versioned_since_ms
        )
        version_id = NULL_VERSION if is_null else new_version_id(self._ids)
        kept = replace(current, version_id=version_id, version_file=self._ids.hex(32))
        replaced = self._index.get(name, key, version_id)
        link = self._link(name, kept.version_file)
        os.link(current.path, link)
        self._files.settle(link)
        self._index.put(kept, dropped=[version_id])
        self._files.update(kept)
        self._discard(name, replaced)
        return kept

    def publish(
        self, bucket: Bucket, temporary: Path, stored: StoredObject, *, overwrites_null: bool
    ) -> StoredObject:
        """Make a temporary file the current version. The version before it stays in the history."""
        name, key = stored.bucket, stored.key
        self._keep_current(name, bucket, key)
        replaced = self._index.get(name, key, NULL_VERSION) if overwrites_null else None
        version_id = NULL_VERSION if overwrites_null else new_version_id(self._ids)
        stored = replace(stored, version_id=version_id, version_file=self._ids.hex(32))
        dropped = [NULL_VERSION] if overwrites_null else []
        stored = self._files.publish(
            temporary,
            stored,
            change=Change(version_id, stored.version_file, dropped),
            link=self._link(name, stored.version_file),
        )
        self._discard(name, replaced)
        return stored

    def mark_deleted(self, name: str, bucket: Bucket, key: str, now_ms: int) -> Marker:
        """Add a delete marker to a key's history and remove its plain file. The versions stay."""
        current = self._keep_current(name, bucket, key)
        is_suspended = bucket.versioning != _ENABLED
        replaced = self._index.get(name, key, NULL_VERSION) if is_suspended else None
        version_id = NULL_VERSION if is_suspended else new_version_id(self._ids)
        marker = Marker(name, key, version_id, now_ms)
        self._index.change(
            name,
            key,
            dropped=[NULL_VERSION] if is_suspended else [],
            marker=marker,
            removal=None if current is None else self._build_removal(current),
        )
        if current is not None:
            self._end_removal(name, key)
        self._discard(name, replaced)
        return marker

    def remove(self, name: str, bucket: Bucket, key: str, version_id: str) -> Version | None:
        """Permanently remove a version and return it, or None if it does not exist.

        If it was the latest version, the version before it becomes the current one.
        """
        current = self._keep_current(name, bucket, key)
        row = self._index.get(name, key, version_id)
        if row is None:
            return None
        is_current = current is not None and current.version_id == version_id
        newest = self._index.newest(name, key)
        is_latest = is_current or (current is None and row.is_marker and newest == row)
        before = self._index.newest(name, key, but=version_id) if is_latest else None
        if before is not None and not before.is_marker:
            self._promote(name, before, version_id)
        elif is_current:
            assert current is not None
            removal = self._build_removal(current)
            self._index.change(name, key, dropped=[version_id], removal=removal)
            self._end_removal(name, key)
        else:
            self._index.change(name, key, dropped=[version_id])
        removed = self._build_version(name, row)
        self._discard(name, row)
        return removed

    def update(self, stored: StoredObject) -> None:
        """Store changed tags, locks or grants of a version; its file stays."""
        if stored.version_file:
            self._index.update(stored)
        if not stored.path.is_relative_to(self._folder):
            self._files.update(stored)

    def _promote(self, name: str, row: VersionRow, dropped: str) -> None:
        """Make an older version the plain file again."""
        temporary = self._files.temporary()
        try:
            os.link(self._build_path(name, row.file), temporary)
            self._files.publish(
                temporary,
                row.describe(name, temporary),
                change=Change(row.version_id, row.file, [dropped]),
            )
        finally:
            temporary.unlink(missing_ok=True)

    def _build_removal(self, current: StoredObject) -> Removal:
        return Removal(
            current.bucket,
            current.key,
            self._files.is_escaped(current.path),
            current.path.lstat().st_ino,
        )

    def _end_removal(self, name: str, key: str) -> None:
        self._files.remove(name, key)
        self._index.delete_removal(name, key)

    def _link(self, name: str, file: str) -> Path:
        path = self._build_path(name, file)
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files.settle(path.parent)
        return path

    def _discard(self, name: str, row: VersionRow | None) -> None:
        if row is not None and row.file:
            with contextlib.suppress(FileNotFoundError):
                self._build_path(name, row.file).unlink()
