"""The conditions and ranges of a read over HTTP, and the headers of its answer. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from headrace.aws.errors import AwsError
from headrace.services.s3.checksums import CHECKSUM_HEADER
from headrace.services.s3.errors import precondition_failed
from headrace.services.s3.state import StoredObject

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


def http_date(timestamp_ms: int) -> str:
    """Return a time as HTTP headers carry it."""
    return format_datetime(datetime.fromtimestamp(timestamp_ms // 1000, UTC), usegmt=True)


def is_not_modified(stored: StoredObject, headers: Mapping[str, str]) -> bool:
    """Whether the conditional headers ask for a 304. Raises PreconditionFailed. Source: RFC 9110, 13.2.2."""
    modified_s = stored.last_modified_ms // 1000
    match = headers.get("if-match")
    if match is not None:
        if not _lists(match, stored.etag):
            raise precondition_failed("If-Match")
    elif _seconds(headers.get("if-unmodified-since"), modified_s) < modified_s:
        raise precondition_failed("If-Unmodified-Since")
    none_match = headers.get("if-none-match")
    if none_match is not None:
        return _lists(none_match, stored.etag)
    since = headers.get("if-modified-since")
    return since is not None and _seconds(since, -1) >= modified_s


def _lists(header: str, etag: str) -> bool:
    return header.strip() == "*" or etag in (part.strip().strip('"') for part in header.split(","))


def _seconds(header: str | None, default: int) -> int:
    if header is None:
        return default
    try:
        return int(parsedate_to_datetime(header).timestamp())
    except (ValueError, TypeError):
        return default


def range_of(header: str | None, size_bytes: int) -> tuple[int, int] | None:
    """Return (first byte, length), or None for the whole. Raises InvalidRange."""
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


def part_of(stored: StoredObject, number: int) -> tuple[int, int]:
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


def object_headers(stored: StoredObject, *, with_checksums: bool) -> list[tuple[str, str]]:
    """Return the headers of GetObject's and HeadObject's answer, except Content-Length."""
    headers = [
        ("Content-Type", stored.content_type),
        ("ETag", f'"{stored.etag}"'),
        ("Last-Modified", http_date(stored.last_modified_ms)),
        ("Accept-Ranges", "bytes"),
        ("x-amz-server-side-encryption", "AES256"),
    ]
    headers += [(HEADER_OF[name], value) for name, value in stored.headers.items()]
    headers += [(f"x-amz-meta-{name}", value) for name, value in stored.metadata.items()]
    if with_checksums:
        for name, value in stored.checksums.items():
            kind = "COMPOSITE" if "-" in value else "FULL_OBJECT"
            headers += [(CHECKSUM_HEADER[name], value), ("x-amz-checksum-type", kind)]
    if stored.tags:
        headers.append(("x-amz-tagging-count", str(len(stored.tags))))
    return headers
