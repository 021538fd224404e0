"""S3 over HTTP: sends requests about objects' bytes to `http_put` and `http_get`, all others to their actions."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import FileSlice, HttpRequest, HttpResponse, Scope
from headrace.aws.calls.operation import Action, Call, changes_policies, operation_name
from headrace.aws.protocols import codec_moto
from headrace.aws.protocols.owned_service import Strictness
from headrace.aws.signatures.bucket_hosts import parse_bucket_host, parse_website_host
from headrace.core.arn import bucket_arn, is_account_id
from headrace.moto.without_effect import say_in_header
from headrace.services.s3 import (
    bodies,
    checksums,
    encryption,
    lifecycle,
    object_headers,
    object_reads,
    post_form,
    website,
)
from headrace.services.s3.backend import S3
from headrace.services.s3.bodies import add_root, check_required
from headrace.services.s3.errors import (
    ErrorWithHeaders,
    invalid_argument,
    invalid_request,
    no_such_bucket_or_point,
    not_allowed,
    translate,
)
from headrace.services.s3.routing import (
    Target,
    check_key,
    parse_part_number,
    parse_target,
    parse_target_in,
)
from headrace.services.s3.state import EmptyAnswer

log = logging.getLogger(__name__)


# Checks that a caller may make a request to S3.

# Headers and query parameters of operations on objects that permissions depend on, and the names of the parameters.
_HEADERS = {
    "x-amz-tagging": "Tagging",
    "x-amz-acl": "ACL",
    "x-amz-bypass-governance-retention": "BypassGovernanceRetention",
    "x-amz-object-lock-mode": "ObjectLockMode",
    "x-amz-object-lock-legal-hold": "ObjectLockLegalHoldStatus",
    "x-amz-server-side-encryption": "ServerSideEncryption",
    "x-amz-server-side-encryption-aws-kms-key-id": "SSEKMSKeyId",
    "x-amz-server-side-encryption-customer-algorithm": "SSECustomerAlgorithm",
}
_QUERY = {"versionId": "VersionId", "uploadId": "UploadId"}


def build_params(target: Target) -> dict[str, Any]:
    """Return the parameters of GetObject, HeadObject, PutObject or UploadPart that permissions depend on."""
    params: dict[str, Any] = {"Bucket": target.bucket, "Key": target.key}
    params |= {name: target.headers[h] for h, name in _HEADERS.items() if h in target.headers}
    return params | {name: target.query[q] for q, name in _QUERY.items() if q in target.query}


def ask(s3: S3, call: Call | None, operation: str, params: Mapping[str, Any]) -> None:
    """Record that the caller uses an operation, and check that it may. Raises AwsError."""
    if call is None or call.permit is None:
        return
    bucket = str(params.get("Bucket", ""))
    account = s3.bucket(bucket).account if s3.has_bucket(bucket) else call.account
    call.permit.ask("s3", operation, params, account=account, region=call.region)


def hide_missing(request: HttpRequest, error: AwsError) -> AwsError:
    """Return the error for a missing object: AccessDenied if the caller may not list the bucket.

    Source: docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, "Permissions" (documented).
    """
    call = request.call
    if call is None or call.permit is None or error.code != "NoSuchKey":
        return error
    try:
        call.permit.ask_for(
            "s3", "s3:ListBucket", bucket_arn(call.region, parse_target(request).bucket)
        )
    except AwsError as refusal:
        return refusal
    return error


# PutObject and UploadPart over HTTP: they store the bytes in the body and return the description in headers.


def put_object(s3: S3, request: HttpRequest, target: Target) -> HttpResponse:
    """Answer PutObject. Raises AwsError, BucketNotFound."""
    s3.bucket(target.bucket)
    with bodies.open_object_body(s3.files, request, target) as (body, params):
        stored = s3.write(target.bucket, target.key, body, params)
    headers = _build_written_headers(stored.etag, stored.checksums, stored.encryption)
    headers.append(("x-amz-checksum-type", object_headers.find_checksum_type(stored)))
    holder = s3.bucket(target.bucket)
    headers += lifecycle.expiration_header(stored, holder)
    if holder.versioning == "Enabled":
        headers.append(("x-amz-version-id", stored.version_id))
    return HttpResponse(200, headers)


def upload_part(s3: S3, request: HttpRequest, target: Target) -> HttpResponse:
    """Answer UploadPart. Raises AwsError, BucketNotFound."""
    s3.bucket(target.bucket)
    upload = s3.uploads.find(target.bucket, target.key, target.query["uploadId"])
    number = parse_part_number(target.query.get("partNumber", ""))
    with bodies.open_object_body(s3.files, request, target) as (body, params):
        etag, shown = s3.write_part(upload, number, body, params)
    return HttpResponse(200, _build_written_headers(etag, shown, upload.encryption))


def _build_written_headers(
    etag: str, kept: Mapping[str, str], encrypted: Mapping[str, str]
) -> list[tuple[str, str]]:
    return [
        ("ETag", f'"{etag}"'),
        *encryption.render_headers(encrypted),
        *((checksums.CHECKSUM_HEADER[name], value) for name, value in kept.items()),
    ]


# Query parameters that name a sub-resource: a GET or PUT with one of them is not about the object's bytes.
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
# ListParts ignores these parameters if they are empty (observed in AWS's recorded answers).
_WITHOUT_EMPTY = re.compile(r"\b(?:part-number-marker|max-parts)=(?:&|$)")
# HTTP statuses that are not in botocore's model (observed in AWS's recorded answers).
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
# Notes who signed a request to a service, in `request.signer`; returns a wrong one's refusal.
Admit = Callable[[HttpRequest, str], HttpResponse | None]


class RawRequests:
    """Answers every request to S3. Thread-safe."""

    def __init__(
        self,
        s3: S3,
        actions: Sequence[Action],
        strictness: Strictness | None = None,
        admit: Admit | None = None,
        before_policies_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`admit`, `before_policies_change`: see `s3_api`."""
        self._before_policies_change = before_policies_change
        self._s3 = s3
        self._admit = admit
        self._strictness = strictness
        self._actions = {operation_name(action): action for action in actions}

    def answer_raw(self, request: HttpRequest) -> HttpResponse:
        """Answer a request. Raises only errors that cannot be translated to AWS's; see `ServiceApi.raw`."""
        host = request.headers.get("host", "")
        bucket = parse_bucket_host(host)
        try:
            response = (
                self._answer_website(request, bucket)
                if bucket and parse_website_host(host)
                else self._answer(request, parse_target_in(request, bucket))
            )
        except Exception as error:
            aws_error = error if isinstance(error, AwsError) else translate(error)
            if aws_error is None:
                raise
            aws_error = hide_missing(request, aws_error)
            missing = aws_error.members.get("BucketName")
            if missing and missing == bucket:
                aws_error = no_such_bucket_or_point(missing)
            if isinstance(error, OSError):
                log.exception("%s %s failed", request.method, request.path)
            response = _build_error_answer(request, aws_error)
        if request.call is not None:
            response.headers += [
                ("x-amz-request-id", request.call.request_id),
                ("x-amz-id-2", HOST_ID),
            ]
        if "origin" in request.headers and request.method != "OPTIONS":
            response.headers += website.answer_headers(self._s3, request)
        return response

    def _admit_form(
        self, request: HttpRequest, scope: Scope, params: Mapping[str, object]
    ) -> HttpResponse | None:
        if self._admit is None or request.call is None:
            return None
        request.scope = scope
        refusal = self._admit(request, "s3")
        if refusal is None and request.signer is not None:
            request.call.permit = request.signer.permit
            ask(self._s3, request.call, "PutObject", params)
        return refusal

    def _answer_website(self, request: HttpRequest, bucket: str) -> HttpResponse:
        def get(target: Target) -> HttpResponse:
            check_key(bucket, target.key)
            ask(self._s3, request.call, "GetObject", build_params(target))
            try:
                return object_reads.get_object(self._s3, request, target)
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
        if request.at_once:
            known = object_reads.read_at_once(self._s3, target)
            self._check_owners(target)
            self._begin("GetObject", request, target)
            return object_reads.answer_read(self._s3, request, target, *known)
        if request.method == "OPTIONS":
            return website.answer_options(self._s3, request, target)
        self._check_owners(target)
        if request.method == "POST" and post_form.is_upload(request, target):
            assert request.call is not None
            now_ms = request.call.now_ms
            return post_form.answer(self._s3, request, target, now_ms, self._admit_form)
        if target.key and not any(name in query for name in _SUBRESOURCES):
            uploading = "uploadId" in query
            if request.method == "GET" and not uploading:
                self._begin("GetObject", request, target)
                return object_reads.get_object(self._s3, request, target)
            if request.method == "HEAD":
                self._begin("HeadObject", request, target)
                return object_reads.head_object(self._s3, request, target)
            if request.method == "PUT" and "x-amz-copy-source" not in target.headers:
                self._begin("UploadPart" if uploading else "PutObject", request, target)
                put = upload_part if uploading else put_object
                return put(self._s3, request, target)
        return self._answer_generic(request, target)

    def _begin(self, operation: str, request: HttpRequest, target: Target) -> None:
        """Check for ignored parameters (with --strict), then check the caller's permission. Raises AwsError."""
        self._check_ignored(operation, target)
        ask(self._s3, request.call, operation, build_params(target))

    def _check_ignored(self, operation: str, target: Target) -> None:
        """With --strict, refuse parameters that S3 would ignore. Raises AwsError."""
        if self._strictness is not None:
            self._strictness.check_head(operation, target.headers, target.query)

    def _check_owners(self, target: Target) -> None:
        """Refuse a request if a bucket's owner is not the expected account in the headers. Raises AwsError."""
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

    def _answer_generic(self, request: HttpRequest, target: Target) -> HttpResponse:
        # The checksums in CompleteMultipartUpload are those of the object, not of the request's body.
        is_completion = request.method == "POST" and "uploadId" in target.query
        if request.method == "PUT" and not target.key and "policy" in target.query:
            return self._put_policy(request, target)
        bodies.check_xml(request, {} if is_completion else target.headers)
        assert request.call is not None
        # Give the codec's router a path without the key, since a key may look like a path of another operation.
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
            # The router returns GetObject if a request for a sub-resource lacks a required header.
            raise invalid_request(
                "Missing required header for this request: x-amz-object-attributes"
            )
        if target.key:
            params["Key"] = target.key
        if target.bucket:
            params["Bucket"] = target.bucket
        action = self._actions.get(operation)
        if action is None:
            log.warning("headrace does not implement s3:%s", operation)
            raise _not_implemented(operation)
        check_required(operation, params)
        ask(self._s3, request.call, operation, params)
        if self._strictness is not None:
            self._strictness.check(operation, params)
        output = self._run(action, operation, request.call, params)
        response = codec_moto.serialize_output(
            "s3", operation, output or {}, request.call.request_id
        )
        response.status = _OWN_STATUS.get(operation, response.status)
        if isinstance(output, EmptyAnswer):
            response.status = output.status
        if isinstance(response.body, bytes):
            # Escape carriage returns: XML parsers read a bare one as a line feed.
            response.body = add_root(operation, response.body.replace(b"\r", b"&#13;"))
        response.headers += say_in_header("s3", operation, params)
        return response

    def _put_policy(self, request: HttpRequest, target: Target) -> HttpResponse:
        """Answer PutBucketPolicy: its body is the policy, and is not parsed as XML."""
        assert request.call is not None
        self._check_ignored("PutBucketPolicy", target)
        params = {"Bucket": target.bucket, "Policy": request.body.decode("utf-8", "replace")}
        ask(self._s3, request.call, "PutBucketPolicy", params)
        operation = "PutBucketPolicy"
        self._run(self._actions[operation], operation, request.call, params)
        return HttpResponse(204)

    def _run(
        self, action: Action, operation: str, call: Call, params: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        if changes_policies(operation):
            self._before_policies_change()
        return action(self._s3, msgspec.structs.replace(call, operation=operation), params)


# Closed to new customers since 25 July 2024 (documented: the page of the operation). Their answer: assumed, from what
# users of new accounts report.
_CLOSED = frozenset({"SelectObjectContent"})


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
        return AwsError("MalformedXML", bodies.build_malformed_xml().message)
    return invalid_argument("A query parameter or header is not of the type that it must be")


def _not_implemented(operation: str) -> AwsError:
    if operation in _CLOSED:
        return not_allowed("POST", "OBJECT")
    return AwsError("NotImplemented", f"headrace does not implement s3:{operation}", 501)


def _build_error_answer(request: HttpRequest, error: AwsError) -> HttpResponse:
    headers = error.headers if isinstance(error, ErrorWithHeaders) else []
    if request.method == "HEAD":  # the response to HEAD has no body, so it cannot name the error
        return HttpResponse(error.status, headers)
    assert request.call is not None
    if error.members.get("ResourceType") == "DeleteMarker":
        error.members["Method"] = request.method
    answer = codec_moto.serialize_error("s3", None, error, request.call.request_id)
    answer.headers += headers
    return answer
