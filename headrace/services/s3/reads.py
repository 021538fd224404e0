"""The conditions and ranges of a read over HTTP, and the headers of its response. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from headrace.aws.calls.errors import AwsError
from headrace.services.s3 import encryption, locks
from headrace.services.s3.checksums import CHECKSUM_HEADER, COMPOSITE, DEFAULT, FULL_OBJECT
from headrace.services.s3.errors import invalid_argument, invalid_request, precondition_failed
from headrace.services.s3.state import STANDARD, StoredObject
from headrace.services.s3.writes import ARCHIVES

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
