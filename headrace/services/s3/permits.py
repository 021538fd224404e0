"""Checks that a caller may make a request to S3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.operation import Call
from headrace.core.arn import bucket_arn
from headrace.services.s3.backend import S3
from headrace.services.s3.routing import Target, parse_target

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
