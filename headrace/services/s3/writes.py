"""The parameters of a write: the headers, metadata and tags to store, and the conditions. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qsl

from headrace.aws.errors import AwsError
from headrace.services.s3 import limits
from headrace.services.s3.errors import no_such_key, precondition_failed
from headrace.services.s3.state import DEFAULT_CONTENT_TYPE, StoredObject

# Parameters that are stored with an object, and that GetObject returns as headers.
KEPT_HEADERS = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "Expires",
    "WebsiteRedirectLocation",
)


def described_by(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a StoredObject that a write's parameters give. Raises AwsError."""
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


def check_conditions(key: str, present: StoredObject | None, params: Mapping[str, Any]) -> None:
    """Refuse a conditional write that may not replace `present`. Raises PreconditionFailed, NoSuchKey."""
    none_match, match = params.get("IfNoneMatch"), params.get("IfMatch")
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
