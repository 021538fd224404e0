"""The operations whose bodies are objects, by hand: PutObject, UploadPart, GetObject, HeadObject.

Everything else of S3 goes the generic way (moto's codecs). Host-style requests are made path-style here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from headrace.aws.errors import AwsError
from headrace.aws.http import FileSlice, HttpRequest, HttpResponse
from headrace.services.s3 import chunked, reads
from headrace.services.s3.errors import invalid_argument, translate
from headrace.services.s3.files import StoredObject, md5_of_file
from headrace.services.s3.writes import Body, check_checksums, write_object

if TYPE_CHECKING:
    from headrace.services.s3.service import S3

_PARAM_OF_HEADER = {
    "content-type": "ContentType",
    "cache-control": "CacheControl",
    "content-disposition": "ContentDisposition",
    "content-encoding": "ContentEncoding",
    "content-language": "ContentLanguage",
    "content-md5": "ContentMD5",
    "expires": "Expires",
    "if-match": "IfMatch",
    "if-none-match": "IfNoneMatch",
    "x-amz-tagging": "Tagging",
    "x-amz-website-redirect-location": "WebsiteRedirectLocation",
    **{header: name for name, header in reads.CHECKSUM_HEADER.items()},
}
# Sub-resources of an object: their GET and PUT are not the object's.
_SUBRESOURCES = (
    "acl",
    "attributes",
    "legal-hold",
    "retention",
    "select",
    "tagging",
    "torrent",
    "restore",
    "uploads",
)
MAX_PART_NUMBER = 10_000


class RawBodies:
    """The `raw` hook of the service. Thread-safe."""

    def __init__(self, s3: S3) -> None:
        self._s3 = s3

    def handle(self, request: HttpRequest) -> HttpResponse | None:
        """Answer an object's own GET, HEAD and PUT; None for the generic way."""
        _to_path_style(request)
        bucket, _, key = unquote(request.path[1:], errors="surrogateescape").partition("/")
        query = request.query_params()
        if not key or any(name in query for name in _SUBRESOURCES):
            return None
        uploading = "uploadId" in query
        try:
            if request.method == "GET" and not uploading:
                return self._get(bucket, key, request, query)
            if request.method == "HEAD":
                return self._head(bucket, key, request, query)
            if request.method == "PUT" and "x-amz-copy-source" not in request.headers:
                if uploading:
                    return self._upload_part(bucket, key, request, query)
                return self._put(bucket, key, request)
        except Exception as error:
            aws_error = error if isinstance(error, AwsError) else translate(error)
            if aws_error is None or request.method != "HEAD":
                raise
            # An answer to HEAD has no body to say why.
            code = "NotFound" if aws_error.status == 404 else aws_error.code  # noqa: PLR2004
            return HttpResponse(aws_error.status, [("x-amz-error-code", code)])
        return None

    # --- PUT ----------------------------------------------------------------------------------

    def _put(self, bucket: str, key: str, request: HttpRequest) -> HttpResponse:
        self._s3.bucket(bucket)
        body, params = self._body(request)
        stored = write_object(self._s3, bucket, key, body, params)
        return HttpResponse(200, _written_headers(stored.etag, stored.checksums))

    def _upload_part(
        self, bucket: str, key: str, request: HttpRequest, query: Mapping[str, str]
    ) -> HttpResponse:
        self._s3.bucket(bucket)
        upload = self._s3.uploads.find(bucket, key, query["uploadId"])
        number = query.get("partNumber", "")
        if not number.isdigit() or not 1 <= int(number) <= MAX_PART_NUMBER:
            raise invalid_argument(
                "Part number must be an integer between 1 and 10000, inclusive",
                "partNumber",
                number,
            )
        body, params = self._body(request)
        checksums = check_checksums(body, params)
        temporary = body.file or self._s3.files.write_temporary(body.data)
        etag = md5_of_file(temporary)
        self._s3.uploads.add_part(upload, int(number), temporary, etag, checksums)
        return HttpResponse(200, _written_headers(etag, checksums))

    def _body(self, request: HttpRequest) -> tuple[Body, dict[str, Any]]:
        """Return the bare body and the parameters that headers and trailers carry."""
        headers = dict(request.headers)
        body = Body(request.body, self._adopt(request))
        if chunked.is_chunked(headers):
            wrapped = body.file
            body, trailers = chunked.unwrap(body, self._s3.files.temporary())
            if wrapped is not None:
                wrapped.unlink(missing_ok=True)
            headers.update(trailers)
            encodings = [e.strip() for e in headers.get("content-encoding", "").split(",")]
            headers["content-encoding"] = ",".join(e for e in encodings if e and e != "aws-chunked")
        else:
            _check_content_sha256(headers.get("x-amz-content-sha256", ""), body)
        params: dict[str, Any] = {
            name: headers[header]
            for header, name in _PARAM_OF_HEADER.items()
            if headers.get(header)
        }
        prefix = "x-amz-meta-"
        params["Metadata"] = {
            name.removeprefix(prefix): value
            for name, value in headers.items()
            if name.startswith(prefix)
        }
        return body, params

    def _adopt(self, request: HttpRequest) -> Any:
        """Take a spooled body over, so that the server does not remove it."""
        if request.body_file is None:
            return None
        temporary = self._s3.files.temporary()
        return request.body_file.replace(temporary)

    # --- GET and HEAD -------------------------------------------------------------------------

    def _get(
        self, bucket: str, key: str, request: HttpRequest, query: Mapping[str, str]
    ) -> HttpResponse:
        stored = self._s3.object(bucket, key)
        if reads.is_not_modified(stored, request.headers):
            return HttpResponse(304, [("ETag", f'"{stored.etag}"')])
        headers = _answer_headers(stored, request, query)
        part = reads.range_of(request.headers.get("range"), stored.size_bytes)
        if part is None:
            return HttpResponse(200, headers, FileSlice(stored.path, 0, stored.size_bytes))
        first, length = part
        headers.append(("Content-Range", f"bytes {first}-{first + length - 1}/{stored.size_bytes}"))
        return HttpResponse(206, headers, FileSlice(stored.path, first, length))

    def _head(
        self, bucket: str, key: str, request: HttpRequest, query: Mapping[str, str]
    ) -> HttpResponse:
        answer = self._get(bucket, key, request, query)
        if isinstance(answer.body, FileSlice):
            answer.headers.append(("Content-Length", str(answer.body.length_bytes)))
            answer.body = b""
        return answer


def _answer_headers(
    stored: StoredObject, request: HttpRequest, query: Mapping[str, str]
) -> list[tuple[str, str]]:
    with_checksums = (
        request.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED"
        and "range" not in request.headers
    )
    headers = reads.object_headers(stored, with_checksums=with_checksums)
    for name, header in reads.OVERRIDES.items():
        if name in query:
            headers = [(h, v) for h, v in headers if h != header]
            headers.append((header, query[name].replace("\r", "").replace("\n", "")))
    return headers


def _written_headers(etag: str, checksums: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        ("ETag", f'"{etag}"'),
        ("x-amz-server-side-encryption", "AES256"),
        *((reads.CHECKSUM_HEADER[name], value) for name, value in checksums.items()),
    ]


def _check_content_sha256(given: str, body: Body) -> None:
    if len(given) != 64:  # noqa: PLR2004 - UNSIGNED-PAYLOAD, or not signed
        return
    if body.file is None:
        computed = hashlib.sha256(body.data).hexdigest()
    else:
        with body.file.open("rb") as file:
            computed = hashlib.file_digest(file, "sha256").hexdigest()
    if computed != given.lower():
        raise AwsError(
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        )


def _to_path_style(request: HttpRequest) -> None:
    """Turn `bucket.s3.region.amazonaws.com/key` and `bucket.localhost/key` into `/bucket/key`."""
    host = request.headers.get("host", "").partition(":")[0].lower()
    for marker in (".s3.", ".s3-", ".localhost"):
        bucket, found, _ = host.partition(marker)
        if found and bucket and not host.startswith("s3"):
            request.path = f"/{quote(bucket)}{request.path}"
            # So that the generic way does not do it again.
            request.headers["host"] = "localhost"
            return
