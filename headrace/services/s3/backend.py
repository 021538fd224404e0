"""All buckets and their objects, for requests and, by `ObjectStore`, for headrace's other services."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.clock import Clock
from headrace.core.ports import (
    BucketNotFound,
    KeyRefused,
    ObjectInfo,
    ObjectNotFound,
    PrincipalCheck,
    accept_principal,
)
from headrace.services.s3 import (
    checksums,
    encryption,
    errors,
    locks,
    notification_rules,
)
from headrace.services.s3.checksums import DEFAULT, FULL_OBJECT, Body, compute, verify
from headrace.services.s3.encryption import AnyKey, Keys
from headrace.services.s3.errors import build_marker_error, is_marker, no_such_version
from headrace.services.s3.files import ObjectFiles, copy_file
from headrace.services.s3.history import Histories, Version, check_version_id
from headrace.services.s3.notifications import (
    CREATED_PUT,
    EXPIRED,
    EXPIRED_MARKED,
    MARKED,
    REMOVED,
    Notifications,
    ObjectEvent,
)
from headrace.services.s3.object_headers import build_object_fields, check_conditions
from headrace.services.s3.routing import check_key
from headrace.services.s3.state import NULL_VERSION, Bucket, Marker, StoredObject, Upload
from headrace.services.s3.store import Buckets
from headrace.services.s3.uploads import Uploads

_MOST_LOOKS = 20


class S3:
    """All buckets. Bucket names are global, as on AWS. Thread-safe."""

    def __init__(
        self,
        *,
        clock: Clock,
        buckets: Buckets,
        files: ObjectFiles,
        uploads: Uploads,
        notifications: Notifications,
        histories: Histories,
        keys: Keys | None = None,
        has_principal: PrincipalCheck = accept_principal,
    ) -> None:
        self.lock = threading.RLock()
        self.files = files
        self.histories = histories
        self.keys = keys or AnyKey()
        self.uploads = uploads
        self.notifications = notifications
        # Called after each write with bucket, key, size in bytes and ETag, on the writer's thread.
        # They must not block. They are not called for files that Spark writes.
        self.on_object_created: list[Callable[[str, str, int, str], None]] = []
        self.has_principal = has_principal
        self._clock = clock
        self._store = buckets
        self._buckets: dict[str, Bucket] = {}

    def start(self) -> None:
        """Load the buckets and finish the writes that a kill interrupted."""
        self.files.prepare()
        self.histories.prepare()
        self._buckets = self._store.load()
        for name in self._buckets:
            self.files.add_bucket(name)

    def stop(self) -> None:
        """Do nothing: every change is already stored."""

    # --- buckets ------------------------------------------------------------------------------

    def bucket(self, name: str) -> Bucket:
        """Return a bucket. Raises BucketNotFound."""
        bucket = self._buckets.get(name)
        if bucket is None:
            raise BucketNotFound(name)
        return bucket

    def buckets(self) -> dict[str, Bucket]:
        """Return a dictionary of all buckets, by name."""
        return dict(self._buckets)

    def has_bucket(self, name: str) -> bool:
        """Whether a bucket with this name exists."""
        return name in self._buckets

    def save_bucket(self, name: str, bucket: Bucket) -> None:
        """Store a new or changed bucket. If this fails, take the change back."""
        with self.lock:
            self.files.add_bucket(name)
            try:
                self._store.put(name, bucket)
            except BaseException:
                stored = self._store.get(name)
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
            self._store.delete(name)
            self._buckets.pop(name, None)

    # --- objects ------------------------------------------------------------------------------

    def object(self, bucket: str, key: str, version_id: str | None = None) -> StoredObject:
        """Return an object, or one of its versions.

        Raises BucketNotFound, ObjectNotFound, and AwsError NoSuchKey, NoSuchVersion, MethodNotAllowed, InvalidArgument.
        """
        holder = self.bucket(bucket)
        if version_id is not None:
            return self._version(holder, bucket, key, version_id)
        stored = self.files.find(bucket, key)
        if stored is None:
            marker = self.histories.latest_marker(bucket, key) if holder.versioning else None
            raise ObjectNotFound(key) if marker is None else build_marker_error(marker)
        return self.histories.add_known(bucket, holder, stored) if holder.versioning else stored

    def _version(self, holder: Bucket, bucket: str, key: str, version_id: str) -> StoredObject:
        check_version_id(version_id)
        version = self.histories.find(bucket, key, version_id)
        if version is None and not holder.versioning and version_id == NULL_VERSION:
            raise ObjectNotFound(key)
        if version is None:
            raise no_such_version(key, version_id)
        if isinstance(version, Marker):
            raise is_marker(version)
        return version

    def write(
        self,
        bucket: str,
        key: str,
        body: Body,
        params: Mapping[str, Any],
        *,
        event: str = CREATED_PUT,
    ) -> StoredObject:
        """Write an object with PutObject's `params`, and move or delete `body.file`.

        `check_key` must have accepted `key`. Raises AwsError, BucketNotFound.
        """
        temporary = body.file
        try:
            holder = self.bucket(bucket)
            size_bytes = _check_size(body)
            verified = verify(body, params)
            kept = verified.checksums or {DEFAULT: compute(DEFAULT, body)}
            described = build_object_fields(holder, params, self.keys, self._clock.now_ms())
            if temporary is None:
                temporary = self.files.write_temporary(body.data)
            stored = StoredObject(
                bucket=bucket,
                key=key,
                path=temporary,
                size_bytes=size_bytes,
                etag=verified.etag,
                last_modified_ms=self._clock.now_ms(),
                mtime_ns=0,
                checksums=kept,
                checksum_type=FULL_OBJECT,
                **described,
            )
            return self.publish(temporary, stored, params, event=event)
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)

    def write_part(
        self, upload: Upload, number: int, body: Body, params: Mapping[str, Any]
    ) -> tuple[str, dict[str, str]]:
        """Store a part, and return its ETag and the checksums for the response. Raises AwsError."""
        encryption.check_part(upload.encryption, params)
        verified = verify(body, params, is_part=True)
        shown = checksums.read_part_checksum(upload, verified.checksums, body)
        temporary = body.file or self.files.write_temporary(body.data)
        kept = shown if upload.checksum else {}
        self.uploads.add_part(upload, number, temporary, verified.etag, kept)
        return verified.etag, shown

    def expire(self, stored: StoredObject) -> None:
        """Remove an object because a lifecycle rule says so, unless it has changed since the caller looked at it."""
        with self.files.lock:
            if self.files.find(stored.bucket, stored.key) == stored:
                self.remove(stored.bucket, stored.key, event=EXPIRED)

    def expire_version(self, bucket: str, key: str, version_id: str) -> None:
        """Remove a version or a delete marker because a lifecycle rule says so."""
        with self.files.lock:
            self._remove_for_good(self.bucket(bucket), bucket, key, version_id, EXPIRED)

    def publish(
        self,
        temporary: Path,
        stored: StoredObject,
        params: Mapping[str, Any],
        *,
        event: str,
        disturbed: bool = False,
    ) -> StoredObject:
        """Publish a new object if If-Match and If-None-Match allow it. The check and the write are one atomic step.

        Args:
            temporary: the file with the object's bytes.
            stored: the object's description.
            params: the request's parameters.
            event: the name of the event for the bucket's notifications.
            disturbed: for a multipart upload, whether the object was written or deleted since the upload started.
        """
        with self.files.lock:
            bucket = self.bucket(stored.bucket)  # it may have been deleted meanwhile
            if params.get("IfNoneMatch") is not None or params.get("IfMatch") is not None:
                present = self.files.find(stored.bucket, stored.key)
                check_conditions(stored.key, present, params, disturbed=disturbed)
            self.uploads.mark_changed(stored.bucket, stored.key)
            if bucket.versioning:
                overwrites_null = bucket.versioning != "Enabled"
                stored = self.histories.publish(
                    bucket, temporary, stored, overwrites_null=overwrites_null
                )
            else:
                stored = self.files.publish(temporary, stored)
            if notification_rules.NAME in bucket.configurations:
                self.notifications.keep(ObjectEvent.of(event, stored, bucket), bucket)
        for listener in self.on_object_created:
            listener(stored.bucket, stored.key, stored.size_bytes, stored.etag)
        return stored

    def remove(self, bucket: str, key: str, *, event: str = REMOVED) -> Marker | None:
        """Remove an object, if it exists, and notify. In a bucket with versioning, return the new delete marker."""
        with self.files.lock:
            holder = self.bucket(bucket)
            self.uploads.mark_changed(bucket, key)
            if not holder.versioning:
                self.files.remove(bucket, key)
                self.notifications.keep(ObjectEvent(event, bucket, key), holder)
                return None
            marker = self.histories.mark_deleted(bucket, holder, key, self._clock.now_ms())
            version_id = marker.version_id
            name = MARKED if event == REMOVED else EXPIRED_MARKED
            self.notifications.keep(ObjectEvent(name, bucket, key, version_id=version_id), holder)
            return marker

    def remove_version(
        self, bucket: str, key: str, version_id: str, *, bypass: bool = False
    ) -> Version | None:
        """Permanently remove a version, if it exists, and notify. Return the removed version.

        Raises AwsError AccessDenied when the version is locked. `bypass` allows the removal despite a GOVERNANCE lock.
        """
        with self.files.lock:
            holder = self.bucket(bucket)
            if not holder.versioning:
                current = self.files.find(bucket, key)
                self.remove(bucket, key)
                return current
            locked = self.histories.find(bucket, key, version_id)
            if isinstance(locked, StoredObject):
                locks.check_deletion(locked, holder, self._clock.now_ms(), bypass=bypass)
            return self._remove_for_good(holder, bucket, key, version_id, REMOVED)

    def _remove_for_good(
        self, holder: Bucket, bucket: str, key: str, version_id: str, event: str
    ) -> Version | None:
        """Remove a version, and notify. The caller holds the files' lock."""
        removed = self.histories.remove(bucket, holder, key, version_id)
        self.notifications.keep(ObjectEvent(event, bucket, key, version_id=version_id), holder)
        return removed

    def notify(self, name: str, stored: StoredObject) -> None:
        """Notify of an event that neither writes nor removes the object."""
        holder = self.bucket(stored.bucket)
        self.notifications.keep(ObjectEvent.of(name, stored, holder), holder)

    def update(self, stored: StoredObject) -> None:
        """Store a changed description of an object or version; its bytes stay. The caller holds the files' lock."""
        self.histories.update(stored)

    def read(
        self,
        bucket: str,
        key: str,
        part: Callable[[StoredObject], tuple[int, int]] | None = None,
        version_id: str | None = None,
    ) -> tuple[StoredObject, bytes]:
        """Return an object and its bytes, or only the bytes in the (offset, length) that `part` returns.

        Description and bytes belong to the same write, even when another write replaces the object during the read.
        Raises BucketNotFound, ObjectNotFound, AwsError SlowDown, and the errors of `part`.
        """
        for _ in range(_MOST_LOOKS):
            stored = self.object(bucket, key, version_id)
            offset, length = (0, stored.size_bytes) if part is None else part(stored)
            with contextlib.suppress(FileNotFoundError), stored.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_size, status.st_mtime_ns) == (stored.size_bytes, stored.mtime_ns):
                    file.seek(offset)
                    return stored, file.read(length)
        # In every attempt, the object was replaced or deleted between the lookup and the read.
        raise AwsError("SlowDown", "Please reduce your request rate.", 503)


def _check_size(body: Body) -> int:
    """Return the body's size in bytes. Raises AwsError EntityTooLarge."""
    size_bytes = body.size_bytes
    if size_bytes > errors.PUT_BYTES:
        raise AwsError(
            "EntityTooLarge",
            "Your proposed upload exceeds the maximum allowed size",
            400,
            {"ProposedSize": str(size_bytes), "MaxSizeAllowed": str(errors.PUT_BYTES)},
        )
    return size_bytes


class S3Objects:
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
        kms_key: str = "",
        storage_class: str = "",
    ) -> str:
        """See `ObjectStore.put`."""
        self._s3.bucket(bucket)
        check_key(key)
        params: dict[str, Any] = {"ContentType": content_type, "Metadata": dict(metadata or {})}
        if content_encoding:
            params["ContentEncoding"] = content_encoding
        if kms_key:
            params |= {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key}
        if storage_class:
            params["StorageClass"] = storage_class
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
        try:
            return self._s3.write(bucket, key, whole, params).etag
        except AwsError as error:
            if error.code.startswith("KMS."):
                raise KeyRefused(error.code, error.message) from error
            raise

    def home(self, bucket: str) -> tuple[str, str]:
        """See `ObjectStore.home`."""
        location = self._s3.bucket(bucket)
        return location.account, location.region

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


class TableStorage:
    """The buckets that hold the files of S3 Tables' tables: see `headrace.moto.current_cloud.TableStorage`."""

    def __init__(self, s3: S3, clock: Clock) -> None:
        self._s3 = s3
        self._clock = clock

    def create(self, name: str, *, account: str, region: str) -> None:
        """See `TableStorage.create`."""
        self._s3.save_bucket(name, Bucket(account, region, self._clock.now_ms()))

    def remove(self, name: str) -> None:
        """See `TableStorage.remove`."""
        if self._s3.has_bucket(name):
            self._s3.delete_bucket(name)
