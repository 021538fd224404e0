"""Refuses requests with incomplete signatures, as AWS does before it looks up the key; also without `--auth`.

Without `--auth`, local clients need not sign: a request may have no Authorization header, or one that only names a
Credential (account, region and service). A date is required with `--auth` only. Source: kinesalite's
test/connection.js, whose author compared it with Kinesis (observed).
"""

from __future__ import annotations

import re

from headrace.aws.calls.http import HttpRequest
from headrace.aws.signatures import presigned
from headrace.aws.signatures.auth_errors import Wording

_PARTS = re.compile(r"([A-Za-z]+)=([^,\s]*)")


def parts_of(authorization: str) -> dict[str, str]:
    """Return the parts of an Authorization header; when a part is there twice, the first, as the gateway does."""
    return dict(reversed(_PARTS.findall(authorization.partition(" ")[2])))


def missing_of(authorization: str, *, has_time: bool) -> str:
    """Return AWS's sentences about the missing parts of an Authorization header; empty when none is missing."""
    parts = parts_of(authorization)
    missing = [
        f"Authorization header requires '{name}' parameter. "
        for name in ("Credential", "Signature", "SignedHeaders")
        if not parts.get(name)
    ]
    if not has_time:
        missing.append(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
        )
    return "".join(missing)


def is_half_signed(request: HttpRequest) -> bool:
    """Whether a request with a target claims to be signed, and may lack parts. Fast: it runs for every request."""
    headers = request.headers
    if "x-amz-target" not in headers:
        return False
    authorization = headers.get("authorization")
    if authorization is None:
        return "X-Amz-Algorithm" in request.query
    return (
        "Signature=" not in authorization
        or "SignedHeaders=" not in authorization
        or "Credential=" not in authorization
        or "X-Amz-Algorithm" in request.query
    )


def check(request: HttpRequest, wording: Wording) -> None:
    """Refuse a half-signed request, as far as that applies without `--auth`. Raises AwsError."""
    headers = request.headers
    authorization = headers.get("authorization", "")
    claim_in_query = "X-Amz-Algorithm" in presigned.parameters_of(request)
    if authorization and claim_in_query:
        raise wording.both()
    if claim_in_query:
        presigned.check_present(presigned.parameters_of(request), wording)
    elif authorization:
        parts = parts_of(authorization)
        if not missing_of(authorization, has_time=True) or list(parts) == ["Credential"]:
            return
        has_time = "x-amz-date" in headers or "date" in headers
        missing = missing_of(authorization, has_time=has_time)
        raise wording.incomplete(f"{missing}Authorization={authorization}")
