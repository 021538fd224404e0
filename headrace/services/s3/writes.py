"""Writing an object: body, checksums, conditions, and the headers that come back with it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from headrace.aws.errors import AwsError
from headrace.services.s3.errors import bad_digest, key_too_long, no_such_key, precondition_failed
from headrace.services.s3.files import DEFAULT_CONTENT_TYPE, StoredObject, md5_of_file
from headrace.services.s3.names import MAX_KEY_BYTES

if TYPE_CHECKING:
    from headrace.services.s3.service import S3

# Parameters that an object keeps and GetObject gives back as headers.
KEPT_HEADERS = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "Expires",
    "WebsiteRedirectLocation",
)
CHECKSUMS = (
    "ChecksumCRC32",
    "ChecksumCRC32C",
    "ChecksumCRC64NVME",
    "ChecksumSHA1",
    "ChecksumSHA256",
)
MAX_METADATA_BYTES = 2048
_CHUNK_BYTES = 1024 * 1024


@dataclass(slots=True)
class Body:
    """An object's bytes: in memory, or a temporary file that the write takes over."""

    data: bytes = b""
    file: Path | None = None

    @property
    def size_bytes(self) -> int:
        """The number of bytes."""
        return len(self.data) if self.file is None else self.file.stat().st_size


def write_object(
    s3: S3, bucket: str, key: str, body: Body, params: Mapping[str, Any]
) -> StoredObject:
    """Write an object as PutObject's `params` say. Raises AwsError, BucketNotFound."""
    s3.bucket(bucket)
    check_key(key)
    metadata = dict(params.get("Metadata") or {})
    _check_metadata(metadata)
    etag = _md5(body)
    given_md5 = params.get("ContentMD5")
    if given_md5 is not None and _decoded(given_md5, "InvalidDigest") != bytes.fromhex(etag):
        raise AwsError("BadDigest", "The Content-MD5 you specified did not match what we received.")
    checksums = check_checksums(body, params)
    temporary = body.file if body.file is not None else s3.files.write_temporary(body.data)
    size_bytes = temporary.stat().st_size
    stored = StoredObject(
        bucket=bucket,
        key=key,
        path=temporary,
        size_bytes=size_bytes,
        etag=etag,
        last_modified_ms=s3.clock.now_ms(),
        mtime_ns=0,
        content_type=params.get("ContentType") or DEFAULT_CONTENT_TYPE,
        headers={name: str(params[name]) for name in KEPT_HEADERS if params.get(name)},
        metadata=metadata,
        checksums=checksums,
        tags=dict(parse_qsl(params.get("Tagging") or "", keep_blank_values=True)),
    )
    return publish_if(s3, temporary, stored, params)


def publish_if(
    s3: S3, temporary: Path, stored: StoredObject, params: Mapping[str, Any]
) -> StoredObject:
    """Publish when If-Match and If-None-Match allow; the check and the write are one step."""
    try:
        with s3.files.lock:
            check_write_conditions(s3, stored.bucket, stored.key, params)
            return s3.files.publish(temporary, stored)
    finally:
        temporary.unlink(missing_ok=True)


def check_write_conditions(s3: S3, bucket: str, key: str, params: Mapping[str, Any]) -> None:
    """Raise PreconditionFailed, or NoSuchKey, when a conditional write may not be done."""
    none_match, match = params.get("IfNoneMatch"), params.get("IfMatch")
    if none_match is None and match is None:
        return
    present = s3.files.find(bucket, key)
    if none_match is not None:
        if none_match != "*":
            raise AwsError(
                "NotImplemented",
                "A header you provided implies functionality that is not implemented",
                501,
                {"Header": "If-None-Match"},
            )
        if present is not None:
            raise precondition_failed("If-None-Match")
    if match is not None:
        if present is None:
            raise no_such_key(key)
        if match.strip('"') != present.etag:
            raise precondition_failed("If-Match")


def check_key(key: str) -> None:
    """Raise KeyTooLongError, or InvalidArgument for a key that is not text."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise AwsError("InvalidURI", "Couldn't parse the specified URI.") from error
    if size > MAX_KEY_BYTES:
        raise key_too_long(key)


def _check_metadata(metadata: Mapping[str, str]) -> None:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
    if size > MAX_METADATA_BYTES:
        raise AwsError(
            "MetadataTooLarge",
            "Your metadata headers exceed the maximum allowed metadata size",
            400,
            {"Size": str(size), "MaxSizeAllowed": str(MAX_METADATA_BYTES)},
        )


def _md5(body: Body) -> str:
    if body.file is not None:
        return md5_of_file(body.file)
    return hashlib.md5(body.data, usedforsecurity=False).hexdigest()


def _decoded(text: str, code: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AwsError(code, "The Content-MD5 you specified is not valid.") from error


def check_checksums(body: Body, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksums to keep; verifies CRC32, SHA1 and SHA256. Raises BadDigest."""
    kept: dict[str, str] = {}
    for name in CHECKSUMS:
        given = params.get(name)
        if given is None:
            continue
        computed = _checksum(name, body)
        if computed is not None and computed != given:
            raise bad_digest(name.removeprefix("Checksum"))
        kept[name] = given
    return kept


def _checksum(name: str, body: Body) -> str | None:
    if name == "ChecksumCRC32":
        return base64.b64encode(_crc32(body).to_bytes(4, "big")).decode()
    algorithm = {"ChecksumSHA1": "sha1", "ChecksumSHA256": "sha256"}.get(name)
    if algorithm is None:
        return None  # CRC32C and CRC64NVME: kept as given; see fidelity.py
    if body.file is None:
        digest = hashlib.new(algorithm, body.data, usedforsecurity=False).digest()
    else:
        with body.file.open("rb") as file:
            digest = hashlib.file_digest(file, algorithm).digest()
    return base64.b64encode(digest).decode()


def _crc32(body: Body) -> int:
    if body.file is None:
        return zlib.crc32(body.data)
    value = 0
    with body.file.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            value = zlib.crc32(chunk, value)
    return value


def copy_file(source: Path, target: Path, offset: int, length: int) -> None:
    """Append `length` bytes of `source` from `offset` to `target`."""
    with source.open("rb") as reader, target.open("ab") as writer:
        reader.seek(offset)
        left = length
        while left > 0:
            chunk = reader.read(min(left, _CHUNK_BYTES))
            if not chunk:
                return
            writer.write(chunk)
            left -= len(chunk)
