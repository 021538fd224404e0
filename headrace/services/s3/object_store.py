"""S3's objects as headrace's other services use them, without a request: `headrace.core.ports.ObjectStore`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.clock import Clock
from headrace.core.ports import KeyRefused, ObjectInfo
from headrace.services.s3.backend import S3
from headrace.services.s3.checksums import Body
from headrace.services.s3.files import copy_file
from headrace.services.s3.names import check_key
from headrace.services.s3.state import Bucket


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
