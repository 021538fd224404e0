"""Dataclasses for buckets, objects, delete markers, multipart uploads and their parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

DEFAULT_CONTENT_TYPE = "binary/octet-stream"
STANDARD = "STANDARD"
# The id of a version that was written while its bucket's versioning was not enabled.
NULL_VERSION = "null"


class EmptyAnswer(dict[str, object]):
    """An empty output that is sent with the HTTP status `status`."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


@dataclass(slots=True)
class Bucket:
    """A bucket.

    Attributes:
        configurations: the value of each configuration, by its name, such as `BucketPolicy`.
        versioned_since_ms: when versioning was first enabled; 0 for never.
    """

    account: str
    region: str
    created_ms: int
    configurations: dict[str, Any] = field(default_factory=dict[str, Any])
    versioned_since_ms: int = 0

    @property
    def versioning(self) -> str:
        """The versioning status: `Enabled`, `Suspended`, or "" if versioning was never enabled."""
        kept: dict[str, str] = self.configurations.get("BucketVersioning") or {}
        return kept.get("Status", "")

    @property
    def has_bucket_key(self) -> bool:
        """Whether objects are encrypted with one S3 Bucket Key."""
        return any(
            str(rule.get("BucketKeyEnabled")).lower() == "true" for rule in self._encryption_rules
        )

    @property
    def default_key(self) -> str:
        """The KMS key of the default encryption; empty for S3 managed keys and without encryption."""
        for rule in self._encryption_rules:
            default: dict[str, str] = rule.get("ApplyServerSideEncryptionByDefault") or {}
            if str(default.get("SSEAlgorithm", "")).startswith("aws:kms"):
                return str(default.get("KMSMasterKeyID") or "")
        return ""

    @property
    def _encryption_rules(self) -> list[dict[str, Any]]:
        configuration: dict[str, Any] = self.configurations.get("BucketEncryption") or {}
        return configuration.get("Rules") or []


class NamesBucket(TypedDict):
    """The member by which every request names its bucket."""

    Bucket: str


class NamesConfiguration(NamesBucket):
    """The members by which a request names one of a bucket's many configurations of a kind."""

    Id: str


class ObjectFields(TypedDict):
    """The fields of a StoredObject that a write's parameters give."""

    storage_class: str
    content_type: str
    headers: dict[str, str]
    metadata: dict[str, str]
    tags: dict[str, str]


class EncryptionMembers(TypedDict, total=False):
    """The members of several answers that name an object's encryption."""

    ServerSideEncryption: str
    SSEKMSKeyId: str
    BucketKeyEnabled: bool
    SSECustomerAlgorithm: str
    SSECustomerKeyMD5: str


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object, or a version of one: its file, and its description in the index.

    Attributes:
        etag: the ETag without quotes.
        version_id: `null` if the object was written while versioning was not enabled.
        version_file: the file's name in the folder of versions; "" when the object is in no history.
        checksum_type: FULL_OBJECT, or COMPOSITE for a checksum of the parts' checksums.
        part_checksums: the parts' checksums, for an object with a COMPOSITE checksum.
        encryption: see `headrace.services.s3.encryption`; empty for AES256.
        retention: `Mode` and `RetainUntilDate` (ISO 8601).
        legal_hold: `ON`, `OFF` or "".
        grants: the access control list; empty when only the owner has a grant (full control).
        restored_until: when the restored copy of an archived object expires, in the date format of HTTP.
    """

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
    part_sizes: tuple[int, ...] = ()
    version_id: str = NULL_VERSION
    version_file: str = ""
    storage_class: str = STANDARD
    checksum_type: str = ""
    part_checksums: tuple[str, ...] = ()
    encryption: dict[str, str] = field(default_factory=dict[str, str])
    retention: dict[str, str] = field(default_factory=dict[str, str])
    legal_hold: str = ""
    grants: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    restored_until: str = ""


@dataclass(frozen=True, slots=True)
class Marker:
    """A delete marker: a version without an object. If it is the latest version, the object counts as deleted."""

    bucket: str
    key: str
    version_id: str
    last_modified_ms: int


@dataclass(frozen=True, slots=True)
class Part:
    """One uploaded part."""

    number: int
    etag: str
    size_bytes: int
    uploaded_ms: int
    path: Path
    checksums: dict[str, str]


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that is neither completed nor aborted."""

    upload_id: str
    bucket: str
    key: str
    initiated_ms: int
    params: dict[str, Any]

    @property
    def checksum(self) -> str:
        """The checksum that CreateMultipartUpload asked for, such as `ChecksumCRC32`, or ""."""
        algorithm = self.params.get("ChecksumAlgorithm")
        return f"Checksum{algorithm}" if algorithm else ""

    @property
    def encryption(self) -> dict[str, str]:
        """See `headrace.services.s3.encryption`."""
        return self.params.get("described", {}).get("encryption", {})
