"""Refuses requests with incomplete signatures, as AWS does before it looks at a key; also without `--auth`.

Without `--auth` nothing is asked of local clients that do not sign: neither of those without an Authorization header,
nor of those whose header only names a Credential (account, region and service). A date is asked for with `--auth` only.
Source: kinesalite's test/connection.js, whose author compared it with Kinesis (observed).
"""

from __future__ import annotations

import re

from headrace.aws import presigned
from headrace.aws.auth_errors import Wording
from headrace.aws.http import HttpRequest

_PARTS = re.compile(r"([A-Za-z]+)=([^,\s]*)")


def parts_of(authorization: str) -> dict[str, str]:
    """Return the parts of an Authorization header; of one that is there twice the first, which the gateway goes by."""
    return dict(reversed(_PARTS.findall(authorization.partition(" ")[2])))


def missing_of(authorization: str, *, has_time: bool) -> str:
    """Return AWS's sentences about what an Authorization header lacks; empty when it lacks nothing."""
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
    """Whether a request with a target says that it is signed, and may lack something. Quick: every request is asked."""
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
    """Refuse a request that is half signed, as far as that is done without `--auth`. Raises AwsError."""
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
