"""The headers of reads and writes of objects: conditions, ranges, metadata, tags. Pure functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any, cast
from urllib.parse import parse_qsl

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import operation_model
from headrace.services.s3 import acls, checksums, encryption, errors, locks
from headrace.services.s3.checksums import CHECKSUM_HEADER, COMPOSITE, DEFAULT, FULL_OBJECT
from headrace.services.s3.encryption import Keys
from headrace.services.s3.errors import (
    conflict,
    invalid_argument,
    invalid_request,
    no_such_key,
    not_implemented,
    precondition_failed,
)
from headrace.services.s3.state import (
    DEFAULT_CONTENT_TYPE,
    STANDARD,
    Bucket,
    ObjectFields,
    StoredObject,
)

_METADATA_PREFIX = "x-amz-meta-"


def read_params(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return PutObject's parameters from headers, whose names are in lower case. Raises AwsError."""
    names = _list_params_by_header()
    params: dict[str, Any] = {
        names[header]: value for header, value in headers.items() if value and header in names
    }
    params["Metadata"] = {
        name.removeprefix(_METADATA_PREFIX): value
        for name, value in headers.items()
        if name.startswith(_METADATA_PREFIX)
    }
    if headers.get("x-amz-sdk-checksum-algorithm") and not any(
        name in params for name in checksums.CHECKSUMS
    ):
        raise invalid_request(
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers"
            " were found."
        )
    return params


def read_customer_key_params(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the customer-provided key in the headers."""
    params_by_header = _list_params_by_header()
    return {
        params_by_header[header]: value
        for header, value in headers.items()
        if params_by_header.get(header, "").startswith("SSECustomer")
    }


@functools.cache
def _list_params_by_header() -> dict[str, str]:
    """Return a dictionary from header names to PutObject's parameters, which include all of UploadPart's."""
    # botocore has no types: its shapes are Any here.
    shape: Any = cast("Any", operation_model("s3", "PutObject")).input_shape
    return {
        member.serialization["name"].lower(): name
        for name, member in shape.members.items()
        if member.serialization.get("location") == "header" and name != "ContentLength"
    }


# Parameters that are stored with an object, and that GetObject returns as headers.
KEPT_HEADERS = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "Expires",
    "WebsiteRedirectLocation",
)


STORAGE_CLASSES = frozenset(
    {
        "STANDARD",
        "REDUCED_REDUNDANCY",
        "STANDARD_IA",
        "ONEZONE_IA",
        "INTELLIGENT_TIERING",
        "GLACIER",
        "DEEP_ARCHIVE",
        "GLACIER_IR",
    }
)
# Their objects are read only after RestoreObject.
ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")


def build_object_fields(
    holder: Bucket, params: Mapping[str, Any], keys: Keys, now_ms: int
) -> dict[str, Any]:
    """Return the fields of a new object from a write's parameters and its bucket. Raises AwsError."""
    return {
        **build_parameter_fields(params),
        "encryption": encryption.read_write_settings(params, holder, keys),
        "grants": acls.list_object_grants(params, holder),
        **locks.build_write_fields(params, holder, now_ms),
    }


def build_parameter_fields(params: Mapping[str, Any]) -> ObjectFields:
    """Return the fields of a new object from a write's parameters alone. Raises AwsError."""
    user_metadata: dict[str, str] = params.get("Metadata") or {}
    metadata = {name.lower(): value for name, value in user_metadata.items()}
    _check_metadata(metadata)
    return {
        "storage_class": check_storage_class(params.get("StorageClass")),
        "content_type": params.get("ContentType") or DEFAULT_CONTENT_TYPE,
        "headers": {
            name: _render_header(params[name]) for name in KEPT_HEADERS if params.get(name)
        },
        "metadata": metadata,
        "tags": parse_tags_header(params["Tagging"]) if params.get("Tagging") else {},
    }


def check_storage_class(value: Any) -> str:
    """Return an object's storage class. Raises AwsError InvalidStorageClass."""
    if not value:
        return STANDARD
    if value not in STORAGE_CLASSES:
        raise AwsError(
            "InvalidStorageClass",
            "The storage class you specified is not valid",
            400,
            {"StorageClassRequested": str(value)},
        )
    return str(value)


def _render_header(value: Any) -> str:
    return format_datetime(value, usegmt=True) if isinstance(value, datetime) else str(value)


def check_conditions(
    key: str, present: StoredObject | None, params: Mapping[str, Any], *, disturbed: bool = False
) -> None:
    """Refuse a write whose conditions do not let it replace the object `present`.

    `disturbed` says that the object was written or deleted since the multipart upload started that is now completed.
    Raises AwsError PreconditionFailed, NoSuchKey, ConditionalRequestConflict, NotImplemented.
    """
    none_match, match = params.get("IfNoneMatch"), params.get("IfMatch")
    if none_match is not None and match is not None:
        raise not_implemented(
            "If-Match,If-None-Match", "Multiple conditional request headers present in the request"
        )
    if none_match is not None:
        if none_match != "*":
            raise not_implemented(
                "If-None-Match",
                "We don't accept the provided value of If-None-Match header for this API",
            )
        if present is not None:
            raise precondition_failed("If-None-Match")
        if disturbed:
            raise conflict("If-None-Match", key)
    if match is not None:
        if match == "*":
            raise not_implemented(
                "If-Match", "We don't accept the provided value of If-Match header for this API"
            )
        if present is None:
            raise no_such_key(key)
        if match.strip('"') != present.etag:
            raise precondition_failed("If-Match")
        if disturbed:
            raise conflict("If-Match", key)


def check_tags(
    pairs: list[tuple[str, str]],
    reserved: str = "Your TagKey cannot be prefixed with aws:",
    most: int = errors.TAGS_PER_OBJECT,
) -> dict[str, str]:
    """Return tags by key. `reserved` is the error message for keys that are reserved for AWS.

    Raises BadRequest, InvalidTag. Source: S3's object tagging rules.
    """
    if len(pairs) > most:
        kind = "Object" if most == errors.TAGS_PER_OBJECT else "Bucket"
        raise AwsError("BadRequest", f"{kind} tags cannot be greater than {most}")
    tags: dict[str, str] = {}
    for key, value in pairs:
        if not key or len(key) > errors.TAG_KEY_CHARS or not _TAG_TEXT.fullmatch(key):
            raise bad_tag("The TagKey you have provided is invalid", key)
        if len(value) > errors.TAG_VALUE_CHARS or not _TAG_TEXT.fullmatch(value):
            raise bad_tag("The TagValue you have provided is invalid", key, TagValue=value)
        if key in tags:
            raise bad_tag("Cannot provide multiple Tags with the same key", key)
        if key.startswith("aws:"):
            raise bad_tag(reserved, key)
        tags[key] = value
    return tags


def parse_tags_header(text: str) -> dict[str, str]:
    """Return the tags of the header x-amz-tagging. Raises AwsError InvalidArgument, InvalidTag."""
    pairs = parse_qsl(text, keep_blank_values=True)
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys) or any("," in key or "," in value for key, value in pairs):
        raise invalid_argument(
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name"
            " duplicates.",
            "x-amz-tagging",
            text,
        )
    return check_tags(pairs)


# The characters that tags may have. Source (documented): object-tagging.html.
_TAG_TEXT = re.compile(r"[\w\s.:/=+\-@]*")


def bad_tag(sentence: str, key: str, **more: str) -> AwsError:
    """Return the error for a tag that S3 refuses."""
    return AwsError("InvalidTag", sentence, 400, {"TagKey": key, **more})


def _check_metadata(metadata: Mapping[str, str]) -> None:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
    if size > errors.METADATA_BYTES:
        raise AwsError(
            "MetadataTooLarge",
            "Your metadata headers exceed the maximum allowed metadata size",
            400,
            {"Size": str(size), "MaxSizeAllowed": str(errors.METADATA_BYTES)},
        )


HEADER_OF = {
    "CacheControl": "Cache-Control",
    "ContentDisposition": "Content-Disposition",
    "ContentEncoding": "Content-Encoding",
    "ContentLanguage": "Content-Language",
    "Expires": "Expires",
    "WebsiteRedirectLocation": "x-amz-website-redirect-location",
}
OVERRIDES = {
    "response-content-type": "Content-Type",
    "response-content-language": "Content-Language",
    "response-expires": "Expires",
    "response-cache-control": "Cache-Control",
    "response-content-disposition": "Content-Disposition",
    "response-content-encoding": "Content-Encoding",
}
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def format_http_date(timestamp_ms: int) -> str:
    """Return a time in the format of HTTP headers."""
    return format_datetime(datetime.fromtimestamp(timestamp_ms // 1000, UTC), usegmt=True)


def is_not_modified(stored: StoredObject, headers: Mapping[str, str], now_ms: int) -> bool:
    """Whether the conditional headers require a 304. Raises PreconditionFailed. Source: RFC 9110, 13.2.2.

    A date in the future is ignored (RFC 9110, 13.1.3; observed in AWS's recorded answers).
    """
    modified_s = stored.last_modified_ms // 1000
    match = headers.get("if-match")
    if match is not None:
        if not _lists(match, stored.etag):
            raise precondition_failed("If-Match")
    elif _parse_seconds(headers.get("if-unmodified-since"), modified_s) < modified_s:
        raise precondition_failed("If-Unmodified-Since")
    none_match = headers.get("if-none-match")
    if none_match is not None:
        return _lists(none_match, stored.etag)
    since = headers.get("if-modified-since")
    return since is not None and modified_s <= _parse_seconds(since, -1) <= now_ms // 1000


def _lists(header: str, etag: str) -> bool:
    return header.strip() == "*" or etag in (part.strip().strip('"') for part in header.split(","))


def _parse_seconds(header: str | None, default: int) -> int:
    if header is None:
        return default
    try:
        return int(parsedate_to_datetime(header).timestamp())
    except (ValueError, TypeError):
        return default


def parse_range(header: str | None, size_bytes: int) -> tuple[int, int] | None:
    """Return (first byte, length) of a range, or None for the whole object. Raises InvalidRange."""
    match = _RANGE.fullmatch(header.strip()) if header is not None else None
    if match is None or match.groups() == ("", ""):
        return None  # several ranges, or not a range: S3 sends the whole
    first_text, last_text = match.groups()
    if first_text == "":
        length = min(int(last_text), size_bytes)
        first, last = size_bytes - length, size_bytes - 1
    else:
        first = int(first_text)
        last = min(int(last_text), size_bytes - 1) if last_text else size_bytes - 1
        if last_text and int(last_text) < first:
            return None
    if first >= size_bytes or last < first:
        raise AwsError(
            "InvalidRange",
            "The requested range is not satisfiable",
            416,
            {"RangeRequested": header, "ActualObjectSize": str(size_bytes)},
        )
    return first, last - first + 1


_COPIED_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


def parse_copied_range(header: str | None, size_bytes: int) -> tuple[int, int]:
    """Return (first byte, length) of the bytes that UploadPartCopy copies. Raises InvalidArgument, InvalidRequest."""
    if not header:
        return 0, size_bytes
    match = _COPIED_RANGE.fullmatch(header)
    name = "x-amz-copy-source-range"
    if match is None or int(match[1]) > int(match[2]):
        raise invalid_argument(
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the"
            " zero-based offsets of the first and last bytes to copy",
            name,
            header,
        )
    first, last = int(match[1]), int(match[2])
    if first >= size_bytes:
        raise invalid_request("The specified copy range is invalid for the source object size")
    if last >= size_bytes:
        sentence = f"Range specified is not valid for source object of size: {size_bytes}"
        raise invalid_argument(sentence, name, header)
    return first, last - first + 1


def find_part(stored: StoredObject, number: int) -> tuple[int, int]:
    """Return (first byte, length) of a part of an object. Raises InvalidPartNumber."""
    sizes = stored.part_sizes or (stored.size_bytes,)
    if not 1 <= number <= len(sizes):
        raise AwsError(
            "InvalidPartNumber",
            "The requested partnumber is not satisfiable",
            416,
            {"PartNumberRequested": str(number), "ActualPartCount": str(len(sizes))},
        )
    return sum(sizes[: number - 1]), sizes[number - 1]


def build_object_headers(stored: StoredObject) -> list[tuple[str, str]]:
    """Return the headers of responses of GetObject and HeadObject, except Content-Length and checksums."""
    headers = [
        ("Content-Type", stored.content_type),
        ("ETag", f'"{stored.etag}"'),
        ("Last-Modified", format_http_date(stored.last_modified_ms)),
        ("Accept-Ranges", "bytes"),
    ]
    headers += encryption.render_headers(stored.encryption)
    headers += locks.render_headers(stored)
    headers += [(HEADER_OF[name], value) for name, value in stored.headers.items()]
    headers += [(f"x-amz-meta-{name}", value) for name, value in stored.metadata.items()]
    if stored.storage_class != STANDARD:
        headers.append(("x-amz-storage-class", stored.storage_class))
    if stored.restored_until:
        restore = f'ongoing-request="false", expiry-date="{stored.restored_until}"'
        headers.append(("x-amz-restore", restore))
    if stored.tags:
        headers.append(("x-amz-tagging-count", str(len(stored.tags))))
    return headers


def build_checksum_headers(stored: StoredObject, part_number: int | None) -> list[tuple[str, str]]:
    """Return the checksum headers of an object or of one of its parts."""
    if not stored.checksums:
        return []
    ((name, value),) = list(stored.checksums.items())[:1]
    if part_number is not None and stored.parts:
        if stored.part_checksums:
            value = stored.part_checksums[part_number - 1]
        elif stored.parts > 1 or name == DEFAULT:
            return []
    return [(CHECKSUM_HEADER[name], value), ("x-amz-checksum-type", find_checksum_type(stored))]


def find_checksum_type(stored: StoredObject) -> str:
    """Return the type of an object's checksum. Old rows do not store it; there the checksum's form shows the type."""
    if stored.checksum_type:
        return stored.checksum_type
    is_composite = any("-" in value for value in stored.checksums.values())
    return COMPOSITE if is_composite else FULL_OBJECT


def check_readable(stored: StoredObject) -> None:
    """Refuse to read an archived object that has not been restored. Raises AwsError InvalidObjectState."""
    if stored.storage_class in ARCHIVES and not stored.restored_until:
        raise AwsError(
            "InvalidObjectState",
            "The operation is not valid for the object's storage class",
            403,
            {"StorageClass": stored.storage_class},
        )
