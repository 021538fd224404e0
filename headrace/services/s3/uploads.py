"""Multipart uploads. Each part is a file until the upload is completed. Uploads survive a restart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.services.s3.errors import no_such_upload
from headrace.services.s3.files import S3_FOLDER
from headrace.services.s3.state import Part, Upload
from headrace.store.database import Database

UPLOADS_FOLDER = ".headrace-uploads"


class Uploads:
    """All uploads of all buckets. Thread-safe."""

    def __init__(
        self,
        data_dir: Path,
        *,
        clock: Clock,
        ids: Ids,
        database: Database,
        settle: Callable[[Path], None],
    ) -> None:
        self._settle = settle
        self._folder = data_dir / S3_FOLDER / UPLOADS_FOLDER
        self._clock = clock
        self._ids = ids
        self._database = database
        database.migrate(
            "s3_uploads",
            [
                """CREATE TABLE s3_uploads (id TEXT PRIMARY KEY, bucket TEXT, key TEXT,
                   initiated_ms INTEGER, params TEXT)""",
                """CREATE TABLE s3_parts (upload TEXT, number INTEGER, etag TEXT, size INTEGER,
                   uploaded_ms INTEGER, checksums TEXT, PRIMARY KEY (upload, number))""",
                "ALTER TABLE s3_uploads ADD COLUMN disturbed INTEGER",
            ],
        )
        rows = database.query("SELECT DISTINCT bucket, key FROM s3_uploads")
        # The keys that have or had an upload. A write to any other key need not look for uploads.
        self._keys = {(bucket, key) for bucket, key in rows}

    def mark_changed(self, bucket: str, key: str) -> None:
        """Mark the uploads of a key, because its object is written or deleted."""
        if (bucket, key) in self._keys:
            self._database.execute(
                "UPDATE s3_uploads SET disturbed = 1 WHERE bucket = ? AND key = ?", (bucket, key)
            )

    def is_disturbed(self, upload: Upload) -> bool:
        """Whether the object of an upload was written or deleted since the upload started."""
        query = "SELECT disturbed FROM s3_uploads WHERE id = ?"
        return any(bool(row[0]) for row in self._database.query(query, (upload.upload_id,)))

    def create(self, bucket: str, key: str, params: dict[str, Any]) -> Upload:
        """Start an upload."""
        upload = Upload(self._ids.hex(64), bucket, key, self._clock.now_ms(), params)
        folder = self._folder / upload.upload_id
        folder.mkdir(parents=True)
        row = (upload.upload_id, bucket, key, upload.initiated_ms, json.dumps(params, default=str))
        try:
            self._database.execute("INSERT INTO s3_uploads VALUES (?, ?, ?, ?, ?, NULL)", row)
            self._keys.add((bucket, key))
        except OSError:
            folder.rmdir()
            raise
        return upload

    def find(self, bucket: str, key: str, upload_id: str) -> Upload:
        """Return an upload. Raises AwsError NoSuchUpload."""
        rows = self._database.query(
            "SELECT id, bucket, key, initiated_ms, params FROM s3_uploads"
            " WHERE id = ? AND bucket = ? AND key = ?",
            (upload_id, bucket, key),
        )
        if not rows:
            raise no_such_upload(upload_id)
        return _upload(rows[0])

    def list(self, bucket: str, prefix: str = "") -> list[Upload]:  # pyrefly: ignore[not-a-type]
        """Return a bucket's uploads, sorted by key, then by id."""
        rows = self._database.query(
            "SELECT id, bucket, key, initiated_ms, params FROM s3_uploads"
            " WHERE bucket = ? AND key >= ? ORDER BY key, id",
            (bucket, prefix),
        )
        return [_upload(row) for row in rows if row[2].startswith(prefix)]

    def part_path(self, upload: Upload, number: int) -> Path:
        """Return the path of a part's file."""
        return self._folder / upload.upload_id / str(number)

    def add_part(
        self, upload: Upload, number: int, temporary: Path, etag: str, checksums: dict[str, str]
    ) -> Part:
        """Make a temporary file a part of the upload. It replaces an earlier part with the same number.

        Raises AwsError NoSuchUpload when the upload no longer exists.
        """
        path = self.part_path(upload, number)
        size_bytes = temporary.stat().st_size
        try:
            temporary.replace(path)
        except FileNotFoundError:
            temporary.unlink(missing_ok=True)
            raise no_such_upload(upload.upload_id) from None  # aborted meanwhile
        self._settle(path)
        part = Part(number, etag, size_bytes, self._clock.now_ms(), path, checksums)
        row = (upload.upload_id, number, etag, size_bytes, part.uploaded_ms, json.dumps(checksums))
        # This succeeds on a full disk too, because the file is in place already (and may have replaced a part).
        with self._database.transaction(frees=True):
            self._database.execute("INSERT OR REPLACE INTO s3_parts VALUES (?, ?, ?, ?, ?, ?)", row)
        return part

    def parts(self, upload: Upload) -> dict[int, Part]:
        """Return the parts, sorted by number."""
        rows = self._database.query(
            "SELECT number, etag, size, uploaded_ms, checksums FROM s3_parts"
            " WHERE upload = ? ORDER BY number",
            (upload.upload_id,),
        )
        return {
            number: Part(
                number,
                etag,
                size,
                uploaded_ms,
                self.part_path(upload, number),
                json.loads(checksums),
            )
            for number, etag, size, uploaded_ms, checksums in rows
        }

    def remove(self, upload: Upload) -> None:
        """Delete an upload and its parts."""
        with self._database.transaction(frees=True):
            self._database.execute("DELETE FROM s3_uploads WHERE id = ?", (upload.upload_id,))
            self._database.execute("DELETE FROM s3_parts WHERE upload = ?", (upload.upload_id,))
        shutil.rmtree(self._folder / upload.upload_id, ignore_errors=True)


def _upload(row: tuple[Any, ...]) -> Upload:
    upload_id, bucket, key, initiated_ms, params = row
    return Upload(upload_id, bucket, key, initiated_ms, json.loads(params))
