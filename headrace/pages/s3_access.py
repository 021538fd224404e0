"""Answers a Spark job that asks whether its role may read or write a file in S3: `/_headrace/iam/s3`.

The job's FileSystem asks (`headrace/spark_submit/java/S3OfRole.java`) with a line for each S3 request that it would
make: the operation, the bucket and the key, quoted. A header holds the role's session token, which identifies the job.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import json_response
from headrace.permissions.decisions.decisions import Decisions

PATH = "/_headrace/iam/s3"
_OPERATIONS = frozenset({"GetObject", "PutObject", "DeleteObject", "ListObjectsV2"})


def answer(decisions: Decisions, request: HttpRequest, __: list[str]) -> HttpResponse:
    """Record the accesses. Answer 204 if allowed, 403 with AWS's sentence if denied, 400 for a malformed request."""
    key = request.headers.get("x-headrace-key", "")
    token = request.headers.get("x-headrace-token", "")
    if decisions.mode == "off":
        return HttpResponse(204, [])
    # Nothing else proves who asks: a key alone is no secret.
    is_session = decisions.is_session(key, token)
    permit = decisions.permit_of(key, token, decisions.account) if is_session else None
    if permit is None:
        return json_response({"message": "Give the key and the token of a role's session."}, 400)
    region = request.headers.get("x-headrace-region", "") or decisions.region
    acting = permit.acting
    account = decisions.account if acting is None else acting.arn.split(":")[4]
    for line in request.body.decode(errors="replace").splitlines():
        operation, _, target = line.partition(" ")
        bucket, _, quoted = target.partition(" ")
        if operation not in _OPERATIONS:
            return json_response({"message": f"{line} is not an access to S3."}, 400)
        params = _params(operation, bucket, unquote_plus(quoted))
        try:
            permit.ask("s3", operation, params, account=account, region=region)
        except AwsError as refusal:
            return HttpResponse(
                403, [("Content-Type", "text/plain; charset=utf-8")], refusal.message.encode()
            )
    return HttpResponse(204, [])


def _params(operation: str, bucket: str, key: str) -> dict[str, Any]:
    if operation == "ListObjectsV2":
        # As S3A lists: the prefix is the folder; for the bucket's root it is empty.
        return {"Bucket": bucket, "Prefix": f"{key}/" if key else "", "Delimiter": "/"}
    return {"Bucket": bucket, "Key": key}
