"""Writing an object: body, conditions, and what is kept beside the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from headrace.aws.errors import AwsError
from headrace.services.s3 import checksums, limits
from headrace.services.s3.checksums import Body
from headrace.services.s3.errors import key_too_long, no_such_key, precondition_failed
from headrace.services.s3.files import DEFAULT_CONTENT_TYPE, StoredObject
from headrace.services.s3.notifications import CREATED_PUT, Happening

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
_CHUNK_BYTES = 1024 * 1024


def write_object(
    s3: S3,
    bucket: str,
    key: str,
    body: Body,
    params: Mapping[str, Any],
    *,
    event: str = CREATED_PUT,
) -> StoredObject:
    """Write an object as PutObject's `params` say; takes `body.file` over. Raises AwsError, BucketNotFound."""
    temporary = body.file
    try:
        s3.bucket(bucket)
        check_key(key)
        _check_size(body.size_bytes)
        kept = checksums.verify(body, params)
        described = described_by(params)
        if temporary is None:
            temporary = s3.files.write_temporary(body.data)
        stored = StoredObject(
            bucket=bucket,
            key=key,
            path=temporary,
            size_bytes=body.size_bytes,
            etag=body.digest("md5").hex(),
            last_modified_ms=s3.clock.now_ms(),
            mtime_ns=0,
            checksums=kept,
            **described,
        )
        return publish_if(s3, temporary, stored, params, event=event)
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _check_size(size_bytes: int) -> None:
    if size_bytes > limits.PUT_BYTES:
        raise AwsError(
            "EntityTooLarge",
            "Your proposed upload exceeds the maximum allowed size",
            400,
            {"ProposedSize": str(size_bytes), "MaxSizeAllowed": str(limits.PUT_BYTES)},
        )


def described_by(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a StoredObject that a write's headers give. Raises AwsError."""
    given: dict[str, str] = params.get("Metadata") or {}
    metadata = {name.lower(): value for name, value in given.items()}
    _check_metadata(metadata)
    pairs = parse_qsl(params.get("Tagging") or "", keep_blank_values=True)
    return {
        "content_type": params.get("ContentType") or DEFAULT_CONTENT_TYPE,
        "headers": {name: _header(params[name]) for name in KEPT_HEADERS if params.get(name)},
        "metadata": metadata,
        "tags": checked_tags(pairs),
    }


def _header(value: Any) -> str:
    return format_datetime(value, usegmt=True) if isinstance(value, datetime) else str(value)


def publish_if(
    s3: S3, temporary: Path, stored: StoredObject, params: Mapping[str, Any], *, event: str
) -> StoredObject:
    """Publish when If-Match and If-None-Match allow; the check and the write are one step.

    Args:
        s3: where.
        temporary: the object's bytes.
        stored: what is kept beside them.
        params: the request's.
        event: how it was written, for the bucket's notifications.
    """
    with s3.files.lock:
        s3.bucket(stored.bucket)  # it may have been deleted while the body came in
        check_write_conditions(s3, stored.bucket, stored.key, params)
        stored = s3.files.publish(temporary, stored)
        s3.notifications.note(
            Happening(event, stored.bucket, stored.key, stored.size_bytes, stored.etag)
        )
    for listener in s3.on_object_created:
        listener(stored.bucket, stored.key, stored.size_bytes, stored.etag)
    return stored


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
    """Raise KeyTooLongError, or InvalidURI for a key that is not text."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise AwsError("InvalidURI", "Couldn't parse the specified URI.") from error
    if size > limits.KEY_BYTES:
        raise key_too_long(key)


def checked_tags(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Return an object's tags by key. Raises BadRequest, InvalidTag. Source: S3's object tagging rules."""
    if len(pairs) > limits.TAGS_PER_OBJECT:
        raise AwsError("BadRequest", f"Object tags cannot be greater than {limits.TAGS_PER_OBJECT}")
    tags: dict[str, str] = {}
    for key, value in pairs:
        if not key or len(key) > limits.TAG_KEY_CHARS:
            raise AwsError("InvalidTag", "The TagKey you have provided is invalid")
        if len(value) > limits.TAG_VALUE_CHARS:
            raise AwsError("InvalidTag", "The TagValue you have provided is invalid")
        if key in tags:
            raise AwsError("InvalidTag", "Cannot provide multiple Tags with the same key")
        tags[key] = value
    return tags


def _check_metadata(metadata: Mapping[str, str]) -> None:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
    if size > limits.METADATA_BYTES:
        raise AwsError(
            "MetadataTooLarge",
            "Your metadata headers exceed the maximum allowed metadata size",
            400,
            {"Size": str(size), "MaxSizeAllowed": str(limits.METADATA_BYTES)},
        )


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
