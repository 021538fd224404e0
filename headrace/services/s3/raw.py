"""S3 over HTTP: objects' bytes are read and answered here, all other operations go through the codec."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.aws import codec_moto
from headrace.aws.errors import AwsError
from headrace.aws.http import FileSlice, HttpRequest, HttpResponse
from headrace.aws.operation import Action, operation_name
from headrace.aws.strictness import Strictness
from headrace.core.arn import is_account_id
from headrace.services.s3 import (
    bodies,
    checksums,
    cors,
    encryption,
    lifecycle,
    limits,
    permits,
    post_form,
    reads,
    website,
)
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import (
    ErrorWithHeaders,
    invalid_argument,
    invalid_request,
    translate,
)
from headrace.services.s3.names import check_key
from headrace.services.s3.required import check_required
from headrace.services.s3.routing import Target, target_of, website_of_host
from headrace.services.s3.state import AnsweredWith, StoredObject
from headrace.services.s3.xml_roots import with_root

log = logging.getLogger(__name__)

# Query parameters that name a sub-resource of an object: such a GET or PUT is not about the object's bytes.
_SUBRESOURCES = (
    "acl",
    "annotation",
    "annotations",
    "attributes",
    "encryption",
    "legal-hold",
    "renameObject",
    "restore",
    "retention",
    "select",
    "tagging",
    "torrent",
    "uploads",
)
# Numbers that say nothing (ListParts): as if they were not there. Observed in AWS's recorded answers.
_WITHOUT_EMPTY = re.compile(r"\b(?:part-number-marker|max-parts)=(?:&|$)")
_CUSTOMER_KEY = "x-amz-server-side-encryption-customer-algorithm"
# Statuses that botocore's model does not tell; observed in AWS's recorded answers.
_OWN_STATUS = {
    "PutBucketTagging": 204,
    **dict.fromkeys(
        (
            f"PutBucket{name}Configuration"
            for name in ("Analytics", "IntelligentTiering", "Inventory", "Metrics")
        ),
        204,
    ),
}
_EXPECTED_OWNERS = ("x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner")
HOST_ID = "headrace"
# A smaller object is read into memory; of a larger one the server sends the file.
READ_WHOLE_BELOW_BYTES = 1024 * 1024


class HttpFront:
    """Answers every request to S3. Thread-safe."""

    def __init__(
        self, s3: S3, actions: Sequence[Action], strictness: Strictness | None = None
    ) -> None:
        self._s3 = s3
        self._strictness = strictness
        self._actions = {operation_name(action): action for action in actions}

    def answer_raw(self, request: HttpRequest) -> HttpResponse:
        """Answer a request. Raises errors that neither are AWS's nor can be translated; see `ServiceApi.raw`."""
        site = website_of_host(request.headers.get("host", ""))
        try:
            response = (
                self._website(request, site) if site else self._answer(request, target_of(request))
            )
        except Exception as error:
            aws_error = error if isinstance(error, AwsError) else translate(error)
            if aws_error is None:
                raise
            aws_error = permits.hidden(request, aws_error)
            if not isinstance(error, AwsError) and aws_error.status >= 500:
                log.exception("%s %s failed", request.method, request.path)
            response = _error_answer(request, aws_error)
        if request.call is not None:
            response.headers += [
                ("x-amz-request-id", request.call.request_id),
                ("x-amz-id-2", HOST_ID),
            ]
        if "origin" in request.headers and request.method != "OPTIONS":
            response.headers += cors.answer_headers(self._s3, request)
        return response

    def _website(self, request: HttpRequest, bucket: str) -> HttpResponse:
        def get(target: Target) -> HttpResponse:
            check_key(bucket, target.key)
            try:
                return self._get(request, target)
            except Exception as error:
                raise (translate(error) or error) from error

        response = website.answer(self._s3, request, bucket, get)
        if request.method == "HEAD":
            body = response.body
            length = len(body) if isinstance(body, bytes) else 0
            if isinstance(body, FileSlice):
                length = body.length_bytes
                if body.file is not None:
                    body.file.close()
            response.headers.append(("Content-Length", str(length)))
            response.body = b""
        return response

    def _answer(self, request: HttpRequest, target: Target) -> HttpResponse:
        query = target.query
        if request.method == "OPTIONS":
            return cors.answer_options(self._s3, request, target)
        self._check_owners(target)
        if post_form.is_upload(request, target):
            assert request.call is not None
            return post_form.answer(self._s3, request, target, request.call.now_ms)
        if target.key and not any(name in query for name in _SUBRESOURCES):
            uploading = "uploadId" in query
            if request.method == "GET" and not uploading:
                self._begin("GetObject", request, target)
                return self._get(request, target)
            if request.method == "HEAD":
                self._begin("HeadObject", request, target)
                return self._head(request, target)
            if request.method == "PUT" and "x-amz-copy-source" not in target.headers:
                self._begin("UploadPart" if uploading else "PutObject", request, target)
                return (
                    self._upload_part(request, target) if uploading else self._put(request, target)
                )
        return self._generic(request, target)

    def _begin(self, operation: str, request: HttpRequest, target: Target) -> None:
        """Refuse what would be ignored, and callers who may not. Raises AwsError."""
        self._check_ignored(operation, target)
        permits.ask(self._s3, request.call, operation, permits.params_of(target))

    def _check_ignored(self, operation: str, target: Target) -> None:
        """With --strict, refuse parameters that would be ignored. Raises AwsError."""
        if self._strictness is not None:
            self._strictness.check_head(operation, target.headers, target.query)

    def _check_owners(self, target: Target) -> None:
        """Refuse a request whose buckets are not of the accounts that it expects. Raises AwsError."""
        if target.headers.keys().isdisjoint(_EXPECTED_OWNERS):
            return
        source = target.headers.get("x-amz-copy-source", "").lstrip("/").partition("/")[0]
        for header, name in zip(_EXPECTED_OWNERS, (target.bucket, source), strict=True):
            account = target.headers.get(header)
            if account is None:
                continue
            if not is_account_id(account):
                raise AwsError(
                    "InvalidBucketOwnerAWSAccountID",
                    f"The value of the expected bucket owner parameter must be an AWS Account ID... [{account}]",
                )
            if self._s3.has_bucket(name) and self._s3.bucket(name).account != account:
                raise AwsError("AccessDenied", "Access Denied", 403)

    def _generic(self, request: HttpRequest, target: Target) -> HttpResponse:
        # The checksums of a completion are the whole object's, not those of the request's body.
        is_completion = request.method == "POST" and "uploadId" in target.query
        if request.method == "PUT" and not target.key and "policy" in target.query:
            return self._put_policy(request, target)
        bodies.check_xml(request, {} if is_completion else target.headers)
        assert request.call is not None
        # The codec's router gets a path without the key, since a key may look like another path.
        plain = HttpRequest(
            request.method,
            target.path,
            _WITHOUT_EMPTY.sub("", request.query),
            {**target.headers, "host": "localhost"},
            request.body,
        )
        try:
            operation, params = codec_moto.parse_request("s3", plain)
        except AwsError as error:
            raise _unreadable(error, request) from error
        if operation == "GetObject":
            # The router falls back on it when a sub-resource is asked for without what it requires.
            raise invalid_request(
                "Missing required header for this request: x-amz-object-attributes"
            )
        if target.key:
            params["Key"] = target.key
        if target.bucket:
            params["Bucket"] = target.bucket
        action = self._actions.get(operation)
        if action is None:
            log.warning("s3:%s is not built", operation)
            raise _not_implemented(operation)
        check_required(operation, params)
        permits.ask(self._s3, request.call, operation, params)
        if self._strictness is not None:
            self._strictness.check(operation, params)
        output = action(self._s3, replace(request.call, operation=operation), params)
        response = codec_moto.serialize_output(
            "s3", operation, output or {}, request.call.request_id
        )
        response.status = _OWN_STATUS.get(operation, response.status)
        if isinstance(output, AnsweredWith):
            response.status = output.status
        if isinstance(response.body, bytes):
            # XML parsers read a bare carriage return as a line feed.
            response.body = with_root(operation, response.body.replace(b"\r", b"&#13;"))
        return response

    def _put_policy(self, request: HttpRequest, target: Target) -> HttpResponse:
        """A policy is JSON, or nothing that is told apart from it: no XML is looked for."""
        assert request.call is not None
        self._check_ignored("PutBucketPolicy", target)
        params = {"Bucket": target.bucket, "Policy": request.body.decode("utf-8", "replace")}
        permits.ask(self._s3, request.call, "PutBucketPolicy", params)
        call = replace(request.call, operation="PutBucketPolicy")
        self._actions["PutBucketPolicy"](self._s3, call, params)
        return HttpResponse(204)

    # --- PUT ----------------------------------------------------------------------------------

    def _put(self, request: HttpRequest, target: Target) -> HttpResponse:
        self._s3.bucket(target.bucket)
        with bodies.object_body(self._s3.files, request, target) as (body, params):
            stored = self._s3.write(target.bucket, target.key, body, params)
        headers = _written_headers(stored.etag, stored.checksums, stored.encryption)
        headers.append(("x-amz-checksum-type", reads.type_of(stored)))
        holder = self._s3.bucket(target.bucket)
        headers += lifecycle.expiration_header(stored, holder)
        if holder.versioning == "Enabled":
            headers.append(("x-amz-version-id", stored.version_id))
        return HttpResponse(200, headers)

    def _upload_part(self, request: HttpRequest, target: Target) -> HttpResponse:
        self._s3.bucket(target.bucket)
        upload = self._s3.uploads.find(target.bucket, target.key, target.query["uploadId"])
        number = _part_number(target.query.get("partNumber", ""))
        with bodies.object_body(self._s3.files, request, target) as (body, params):
            etag, shown = self._s3.write_part(upload, number, body, params)
        return HttpResponse(200, _written_headers(etag, shown, upload.encryption))

    # --- GET and HEAD -------------------------------------------------------------------------

    def _get(self, request: HttpRequest, target: Target) -> HttpResponse:
        stored = self._found(target)
        reads.check_readable(stored)
        self._check_key(stored)
        if reads.is_not_modified(stored, target.headers, _now_ms(request)):
            return HttpResponse(304, _identity(stored))
        _, length = _slice(stored, target)
        if length >= READ_WHOLE_BELOW_BYTES:
            file = stored.path.open("rb")
            if os.fstat(file.fileno()).st_mtime_ns != stored.mtime_ns:
                # Another write replaced the object: headers and bytes must be of one object.
                file.close()
                return self._get(request, target)
            body = FileSlice(stored.path, *_slice(stored, target), file)
            return self._described(stored, target, body)
        stored, data = self._s3.read(
            target.bucket,
            target.key,
            lambda latest: _slice(latest, target),
            target.query.get("versionId"),
        )
        if reads.is_not_modified(stored, target.headers, _now_ms(request)):
            return HttpResponse(304, _identity(stored))
        return self._described(stored, target, data)

    def _head(self, request: HttpRequest, target: Target) -> HttpResponse:
        stored = self._found(target)
        if reads.is_not_modified(stored, target.headers, _now_ms(request)):
            return HttpResponse(304, _identity(stored))
        answer = self._described(stored, target, b"")
        answer.headers.append(("Content-Length", str(_slice(stored, target)[1])))
        return answer

    def _found(self, target: Target) -> StoredObject:
        version_id = target.query.get("versionId")
        if version_id == "":
            raise invalid_argument("Version id cannot be the empty string", "versionId", "")
        stored = self._s3.object(target.bucket, target.key, version_id)
        if "customer_md5" in stored.encryption or _CUSTOMER_KEY in target.headers:
            encryption.check_read(stored, bodies.customer_key_params(target.headers))
        return stored

    def _check_key(self, stored: StoredObject) -> None:
        """Refuse to read what a key of KMS protects that cannot be used. Raises AwsError."""
        if "key" in stored.encryption:
            holder = self._s3.bucket(stored.bucket)
            self._s3.keys.usable(stored.encryption["key"], holder.account, holder.region)

    def _described(
        self, stored: StoredObject, target: Target, body: bytes | FileSlice
    ) -> HttpResponse:
        first, length = _slice(stored, target)
        headers = _answer_headers(stored, target, is_whole=length == stored.size_bytes)
        holder = self._s3.bucket(target.bucket)
        if "versionId" not in target.query and lifecycle.NAME in holder.configurations:
            headers += lifecycle.expiration_header(stored, holder)
        if holder.versioning:
            headers.append(("x-amz-version-id", stored.version_id))
        whole = "partNumber" not in target.query and _range(stored, target) is None
        if "partNumber" in target.query and stored.parts:
            headers.append(("x-amz-mp-parts-count", str(stored.parts)))
        if whole or not stored.size_bytes:
            return HttpResponse(200, headers, body)
        headers.append(("Content-Range", f"bytes {first}-{first + length - 1}/{stored.size_bytes}"))
        return HttpResponse(206, headers, body)


def _slice(stored: StoredObject, target: Target) -> tuple[int, int]:
    """Return (first byte, length) of the part or range that is asked for. Raises AwsError."""
    number = target.query.get("partNumber")
    if number is None:
        return _range(stored, target) or (0, stored.size_bytes)
    if "range" in target.headers:
        raise AwsError(
            "InvalidRequest", "Cannot specify both Range header and partNumber query parameter"
        )
    return reads.part_of(stored, _part_number(number))


def _range(stored: StoredObject, target: Target) -> tuple[int, int] | None:
    if target.headers.get("if-range", f'"{stored.etag}"').strip('"') != stored.etag:
        return None
    return reads.range_of(target.headers.get("range"), stored.size_bytes)


def _now_ms(request: HttpRequest) -> int:
    assert request.call is not None
    return request.call.now_ms


def _part_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= limits.PART_NUMBER:
        raise invalid_argument(
            "Part number must be an integer between 1 and 10000, inclusive", "partNumber", text
        )
    return int(text)


def _identity(stored: StoredObject) -> list[tuple[str, str]]:
    return [
        ("ETag", f'"{stored.etag}"'),
        ("Last-Modified", reads.http_date(stored.last_modified_ms)),
    ]


def _answer_headers(
    stored: StoredObject, target: Target, *, is_whole: bool
) -> list[tuple[str, str]]:
    headers = reads.object_headers(stored)
    wanted = target.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED"
    # Of a part too; and of a range that is the whole object, or none.
    if wanted and (is_whole or "range" not in target.headers):
        number = target.query.get("partNumber")
        headers += reads.checksum_headers(stored, None if number is None else int(number))
    for name, header in reads.OVERRIDES.items():
        if name in target.query:
            headers = [(h, v) for h, v in headers if h != header]
            headers.append((header, target.query[name].replace("\r", "").replace("\n", "")))
    return headers


def _written_headers(
    etag: str, kept: Mapping[str, str], encrypted: Mapping[str, str]
) -> list[tuple[str, str]]:
    return [
        ("ETag", f'"{etag}"'),
        *encryption.headers(encrypted),
        *((checksums.CHECKSUM_HEADER[name], value) for name, value in kept.items()),
    ]


def _unreadable(error: AwsError, request: HttpRequest) -> AwsError:
    """Return S3's error for a request that the codec could not read."""
    if error.code == "UnknownOperationException":
        return AwsError(
            "MethodNotAllowed",
            "The specified method is not allowed against this resource.",
            405,
            {"Method": request.method},
        )
    if request.body:
        return AwsError("MalformedXML", bodies.malformed_xml().message)
    return invalid_argument("A query parameter or header is not of the type that it must be")


def _not_implemented(operation: str) -> AwsError:
    return AwsError("NotImplemented", f"headrace does not implement s3:{operation}", 501)


def _error_answer(request: HttpRequest, error: AwsError) -> HttpResponse:
    headers = error.headers if isinstance(error, ErrorWithHeaders) else []
    if request.method == "HEAD":  # an answer to HEAD has no body for the reason
        return HttpResponse(error.status, headers)
    assert request.call is not None
    if error.members.get("ResourceType") == "DeleteMarker":
        error.members["Method"] = request.method
    answer = codec_moto.serialize_error("s3", None, error, request.call.request_id)
    answer.headers += headers
    return answer
