"""The port through which services read and write S3 objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class BucketNotFound(Exception):
    """No such bucket."""


class ObjectNotFound(Exception):
    """No such object."""


class KeyRefused(Exception):
    """The KMS key that is to encrypt an object is missing, or cannot be used.

    Attributes:
        code: S3's code, such as `KMS.NotFoundException`.
        message: S3's sentence.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object in a listing."""

    key: str
    size_bytes: int
    etag: str
    last_modified_ms: int


class ObjectStore(Protocol):
    """S3 without the wire. When `put` returns, the object is as durable as `Config.durability` says."""

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
        """Write an object whole or not at all; return its ETag. A `Path` body is copied.

        `kms_key` names the KMS key that encrypts the object; with "" the bucket's default encryption applies. With
        `storage_class` "" it is S3's default. Raises BucketNotFound, KeyRefused.
        """
        ...

    def home(self, bucket: str) -> tuple[str, str]:
        """Return the account that owns a bucket, and its Region. Raises BucketNotFound."""
        ...

    def get(self, bucket: str, key: str) -> bytes:
        """Return an object's bytes. Raises BucketNotFound, ObjectNotFound."""
        ...

    def delete(self, bucket: str, key: str) -> None:
        """Remove an object; a missing one is no error."""
        ...

    def list(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose keys start with `prefix`, in key order."""
        ...

    def file(self, bucket: str, key: str) -> Path:
        """Return the plain file that holds the object, for reading only."""
        ...

    def buckets(self) -> Mapping[str, Path]:
        """Return every bucket with the directory that holds its objects as plain files."""
        ...
