"""S3: the backend that actions work on, its `ObjectStore`, and the service for the gateway."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.service import ServiceApi
from headrace.core.clock import Clock
from headrace.core.config import Durability
from headrace.core.ids import Ids
from headrace.core.ports import BucketNotFound, ObjectInfo, ObjectNotFound
from headrace.services.s3.checksums import Body
from headrace.services.s3.cors import BucketRules
from headrace.services.s3.errors import translate
from headrace.services.s3.files import ObjectFiles, StoredObject
from headrace.services.s3.notifications import REMOVED, Happening, Notifications
from headrace.services.s3.uploads import Uploads
from headrace.services.s3.writes import copy_file, write_object
from headrace.store.database import Database

Bucket = dict[str, Any]

_MOST_LOOKS = 20


class S3:
    """All buckets. Bucket names are global, as on AWS. Thread-safe."""

    def __init__(
        self,
        *,
        data_dir: Path,
        clock: Clock,
        ids: Ids,
        database: Database,
        durability: Durability = "os",
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.lock = threading.RLock()
        self.files = ObjectFiles(
            data_dir, clock=clock, ids=ids, database=database, durability=durability
        )
        self.uploads = Uploads(
            data_dir, clock=clock, ids=ids, database=database, settle=self.files.settle
        )
        # Called after each write with bucket, key, size in bytes and ETag, on the writer's thread.
        # Must not block. What Spark writes as a file does not pass here.
        self.on_object_created: list[Callable[[str, str, int, str], None]] = []
        self._documents = database.documents("s_three_buckets")
        self._buckets: dict[str, Bucket] = {}
        self.notifications = Notifications(
            clock=clock, ids=ids, database=database, bucket_of=self.bucket
        )
        self.objects = Objects(self)
        self.cors_rules = BucketRules(self)

    def start(self) -> None:
        """Recover the buckets."""
        self.files.prepare()
        self._buckets = dict(self._documents.items())
        for name in self._buckets:
            self.files.add_bucket(name)

    def stop(self) -> None:
        """Nothing to do: every change is on its way to the disk already."""

    # --- buckets ------------------------------------------------------------------------------

    def bucket(self, name: str) -> Bucket:
        """Return a bucket's document. Raises BucketNotFound."""
        found = self._buckets.get(name)
        if found is None:
            raise BucketNotFound(name)
        return found

    def buckets(self) -> dict[str, Bucket]:
        """Return all buckets by name."""
        return dict(self._buckets)

    def has_bucket(self, name: str) -> bool:
        """Whether there is a bucket of that name."""
        return name in self._buckets

    def save_bucket(self, name: str, bucket: Bucket) -> None:
        """Store a new or changed bucket. When it cannot be stored it is as it was."""
        with self.lock:
            self.files.add_bucket(name)
            try:
                self._documents.put(name, bucket)
            except BaseException:
                stored = self._documents.get(name)
                if stored is None:
                    self.files.remove_bucket(name)
                else:
                    self._buckets[name] = stored
                raise
            self._buckets[name] = bucket

    def delete_bucket(self, name: str) -> None:
        """Remove an empty bucket."""
        with self.lock, self.files.lock:
            for upload in self.uploads.list(name):
                self.uploads.remove(upload)
            # Files first: a kill between the two leaves an empty bucket, not files without one.
            self.files.remove_bucket(name)
            self._documents.delete(name)
            self._buckets.pop(name, None)

    def object(self, bucket: str, key: str) -> StoredObject:
        """Return an object. Raises BucketNotFound, ObjectNotFound."""
        self.bucket(bucket)
        found = self.files.find(bucket, key)
        if found is None:
            raise ObjectNotFound(key)
        return found

    def remove(self, bucket: str, key: str) -> None:
        """Remove an object, if there is one, and say so."""
        self.files.remove(bucket, key)
        self.notifications.note(Happening(REMOVED, bucket, key))

    def read(
        self, bucket: str, key: str, part: Callable[[StoredObject], tuple[int, int]] | None = None
    ) -> tuple[StoredObject, bytes]:
        """Return an object and its bytes, or those of the (offset, length) that `part` gives.

        Both are of one write, even when another replaces the object meanwhile. Raises BucketNotFound,
        ObjectNotFound, AwsError SlowDown, and what `part` raises.
        """
        for _ in range(_MOST_LOOKS):
            stored = self.object(bucket, key)
            offset, length = (0, stored.size_bytes) if part is None else part(stored)
            with contextlib.suppress(FileNotFoundError), stored.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_size, status.st_mtime_ns) == (stored.size_bytes, stored.mtime_ns):
                    file.seek(offset)
                    return stored, file.read(length)
        # Replaced or deleted since it was found, again and again.
        raise AwsError("SlowDown", "Please reduce your request rate.", 503)


class Objects:
    """Implements `headrace.core.ports.ObjectStore`."""

    def __init__(self, s3: S3) -> None:
        self._s3 = s3

    def put(
        self,
        bucket: str,
        key: str,
        body: bytes | Path,
        *,
        content_type: str = "binary/octet-stream",
        content_encoding: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        """See `ObjectStore.put`."""
        params: dict[str, Any] = {"ContentType": content_type, "Metadata": dict(metadata or {})}
        if content_encoding:
            params["ContentEncoding"] = content_encoding
        if isinstance(body, bytes):
            whole = Body(data=body)
        else:
            temporary = self._s3.files.temporary()
            try:
                copy_file(body, temporary, 0, body.stat().st_size)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
            whole = Body(file=temporary)
        return write_object(self._s3, bucket, key, whole, params).etag

    def get(self, bucket: str, key: str) -> bytes:
        """See `ObjectStore.get`."""
        return self._s3.read(bucket, key)[1]

    def delete(self, bucket: str, key: str) -> None:
        """See `ObjectStore.delete`."""
        self._s3.bucket(bucket)
        self._s3.remove(bucket, key)

    def list(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.list`."""
        self._s3.bucket(bucket)
        for stored in self._s3.files.scan(bucket, prefix):
            yield ObjectInfo(stored.key, stored.size_bytes, stored.etag, stored.last_modified_ms)

    def file(self, bucket: str, key: str) -> Path:
        """See `ObjectStore.file`."""
        return self._s3.object(bucket, key).path

    def buckets(self) -> Mapping[str, Path]:
        """See `ObjectStore.buckets`."""
        return {name: self._s3.files.bucket_folder(name) for name in self._s3.buckets()}


def s3_api(s3: S3) -> ServiceApi:
    """Return the service for the gateway."""
    from headrace.services.s3 import actions
    from headrace.services.s3.raw import HttpFront

    raw: Callable[[Any], Any] = HttpFront(s3, actions.ALL).handle
    return ServiceApi(name="s3", backend=s3, actions=actions.ALL, translate=translate, raw=raw)
