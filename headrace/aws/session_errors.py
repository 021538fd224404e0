"""What AWS says to temporary credentials that have expired, or whose token is not theirs.

Sources: https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html and
https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html (documented); that JSON services answer 400 and
add `Exception` to the code is what their SDKs' issues show (observed by others).
"""

from __future__ import annotations

from botocore.exceptions import UnknownServiceError

from headrace.aws.errors import AwsError
from headrace.aws.http import HttpRequest
from headrace.aws.model import service_model

_EXPIRED = "The security token included in the request is expired"
_INVALID = "The security token included in the request is invalid."


def token_of(request: HttpRequest) -> str:
    """Return the session token of a request, empty without one."""
    token = request.headers.get("x-amz-security-token")
    if token is None and "X-Amz-Security-Token" in request.query:
        token = request.query_params().get("X-Amz-Security-Token")
    return token or ""


def protocol_of(service: str) -> str:
    """Return the protocol that a service's errors are written in; that of JSON services when it is unknown."""
    try:
        return str(service_model(service).metadata["protocol"])
    except UnknownServiceError:
        return "json"


def session_error(service: str, protocol: str, *, is_known: bool) -> AwsError:
    """Return the error of an expired session (`is_known`), or of a token that does not belong to its key."""
    if service == "s3":
        if is_known:
            return AwsError("ExpiredToken", "The provided token has expired.", 400)
        return AwsError(
            "InvalidToken", "The provided token is malformed or otherwise invalid.", 400
        )
    status = 400 if protocol == "json" else 403
    if is_known:
        code = "ExpiredToken" if protocol == "query" else "ExpiredTokenException"
        return AwsError(code, _EXPIRED, status)
    code = "InvalidClientTokenId" if protocol == "query" else "UnrecognizedClientException"
    return AwsError(code, _INVALID, status)
