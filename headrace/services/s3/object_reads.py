"""GetObject and HeadObject over HTTP: the headers of an object, and its bytes or a part or range of them."""

from __future__ import annotations

import contextlib
import os

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import FileSlice, HttpRequest, HttpResponse, NeedsThread
from headrace.services.s3 import encryption, lifecycle, object_headers
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_argument
from headrace.services.s3.object_headers import read_customer_key_params
from headrace.services.s3.routing import Target, parse_part_number
from headrace.services.s3.state import StoredObject

_CUSTOMER_KEY = "x-amz-server-side-encryption-customer-algorithm"
# An object up to this size is read into memory; the server sends a larger one from its file.
READ_WHOLE_BELOW_BYTES = 1024 * 1024
# What is read on the event loop's thread, which no other request passes meanwhile.
AT_ONCE_BYTES = 64 * 1024
_AT_ONCE_QUERIES = ("", "x-id=GetObject")


def may_be_quick(request: HttpRequest) -> bool:
    """Whether a request may be a GetObject in the plain form; see `read_at_once`."""
    return (
        request.method == "GET"
        and request.query in _AT_ONCE_QUERIES
        and request.path.count("/") > 1
        and "s3-website" not in request.headers.get("host", "")
    )


def read_at_once(s3: S3, target: Target) -> tuple[StoredObject, bytes]:
    """Return a small object and its bytes. Raises NeedsThread when that may wait, or when there is no such object.

    A key of KMS is asked for, a version is looked up, and a file that Spark wrote is hashed.
    """
    known = None
    if target.key and s3.has_bucket(target.bucket) and not s3.bucket(target.bucket).versioning:
        with contextlib.suppress(BlockingIOError):
            known = s3.files.read_known(target.bucket, target.key, AT_ONCE_BYTES)
    if known is None or _CUSTOMER_KEY in target.headers or _needs_key(known[0]):
        raise NeedsThread
    return known


def _needs_key(stored: StoredObject) -> bool:
    return "key" in stored.encryption or "customer_md5" in stored.encryption


def answer_read(
    s3: S3, request: HttpRequest, target: Target, stored: StoredObject, data: bytes
) -> HttpResponse:
    """Answer GetObject, as `get_object` does, with an object that is read. Raises AwsError."""
    object_headers.check_readable(stored)
    if object_headers.is_not_modified(stored, target.headers, _read_now_ms(request)):
        return HttpResponse(304, _build_identity_headers(stored))
    first, length = _find_slice(stored, target)
    return _build_response(s3, stored, target, data[first : first + length])


def get_object(s3: S3, request: HttpRequest, target: Target) -> HttpResponse:
    """Answer GetObject. Raises AwsError, BucketNotFound, ObjectNotFound."""
    stored = _find_object(s3, target)
    object_headers.check_readable(stored)
    _check_key(s3, stored)
    if object_headers.is_not_modified(stored, target.headers, _read_now_ms(request)):
        return HttpResponse(304, _build_identity_headers(stored))
    _, length = _find_slice(stored, target)
    if length >= READ_WHOLE_BELOW_BYTES:
        file = stored.path.open("rb")
        if os.fstat(file.fileno()).st_mtime_ns != stored.mtime_ns:
            # Another write replaced the object. Start again, so that headers and bytes belong to one write.
            file.close()
            return get_object(s3, request, target)
        body = FileSlice(stored.path, *_find_slice(stored, target), file)
        return _build_response(s3, stored, target, body)
    stored, data = s3.read(
        target.bucket,
        target.key,
        lambda latest: _find_slice(latest, target),
        target.query.get("versionId"),
    )
    if object_headers.is_not_modified(stored, target.headers, _read_now_ms(request)):
        return HttpResponse(304, _build_identity_headers(stored))
    return _build_response(s3, stored, target, data)


def head_object(s3: S3, request: HttpRequest, target: Target) -> HttpResponse:
    """Answer HeadObject. Raises AwsError, BucketNotFound, ObjectNotFound."""
    stored = _find_object(s3, target)
    if object_headers.is_not_modified(stored, target.headers, _read_now_ms(request)):
        return HttpResponse(304, _build_identity_headers(stored))
    answer = _build_response(s3, stored, target, b"")
    answer.headers.append(("Content-Length", str(_find_slice(stored, target)[1])))
    return answer


def _find_object(s3: S3, target: Target) -> StoredObject:
    version_id = target.query.get("versionId")
    if version_id == "":
        raise invalid_argument("Version id cannot be the empty string", "versionId", "")
    stored = s3.object(target.bucket, target.key, version_id)
    if "customer_md5" in stored.encryption or _CUSTOMER_KEY in target.headers:
        encryption.check_read(stored, read_customer_key_params(target.headers))
    return stored


def _check_key(s3: S3, stored: StoredObject) -> None:
    """Refuse to read an object whose KMS key cannot be used. Raises AwsError."""
    if "key" in stored.encryption:
        holder = s3.bucket(stored.bucket)
        s3.keys.usable(stored.encryption["key"], holder.account, holder.region)


def _build_response(
    s3: S3, stored: StoredObject, target: Target, body: bytes | FileSlice
) -> HttpResponse:
    first, length = _find_slice(stored, target)
    headers = _answer_headers(stored, target, is_whole=length == stored.size_bytes)
    holder = s3.bucket(target.bucket)
    if "versionId" not in target.query and lifecycle.NAME in holder.configurations:
        headers += lifecycle.expiration_header(stored, holder)
    if holder.versioning:
        headers.append(("x-amz-version-id", stored.version_id))
    whole = "partNumber" not in target.query and _find_range(stored, target) is None
    if "partNumber" in target.query and stored.parts:
        headers.append(("x-amz-mp-parts-count", str(stored.parts)))
    if whole or not stored.size_bytes:
        return HttpResponse(200, headers, body)
    headers.append(("Content-Range", f"bytes {first}-{first + length - 1}/{stored.size_bytes}"))
    return HttpResponse(206, headers, body)


def _find_slice(stored: StoredObject, target: Target) -> tuple[int, int]:
    """Return (first byte, length) of the requested part or range. Raises AwsError."""
    number = target.query.get("partNumber")
    if number is None:
        return _find_range(stored, target) or (0, stored.size_bytes)
    if "range" in target.headers:
        raise AwsError(
            "InvalidRequest", "Cannot specify both Range header and partNumber query parameter"
        )
    return object_headers.find_part(stored, parse_part_number(number))


def _find_range(stored: StoredObject, target: Target) -> tuple[int, int] | None:
    if target.headers.get("if-range", f'"{stored.etag}"').strip('"') != stored.etag:
        return None
    return object_headers.parse_range(target.headers.get("range"), stored.size_bytes)


def _read_now_ms(request: HttpRequest) -> int:
    assert request.call is not None
    return request.call.now_ms


def _build_identity_headers(stored: StoredObject) -> list[tuple[str, str]]:
    return [
        ("ETag", f'"{stored.etag}"'),
        ("Last-Modified", object_headers.format_http_date(stored.last_modified_ms)),
    ]


def _answer_headers(
    stored: StoredObject, target: Target, *, is_whole: bool
) -> list[tuple[str, str]]:
    headers = object_headers.build_object_headers(stored)
    asks_checksum = target.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED"
    # A part has a checksum too. A range has none, unless it is the whole object.
    if asks_checksum and (is_whole or "range" not in target.headers):
        number = target.query.get("partNumber")
        headers += object_headers.build_checksum_headers(
            stored, None if number is None else int(number)
        )
    for name, header in object_headers.OVERRIDES.items():
        if name in target.query:
            headers = [(h, v) for h, v in headers if h != header]
            headers.append((header, target.query[name].replace("\r", "").replace("\n", "")))
    return headers
