"""Checks presigned URLs: the form of their parameters, and whether they have expired. Needs no key.

It is checked without `--auth` too: a URL that has expired on AWS must not work here.
Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html (documented), and for S3's
sentences the recordings that `headrace.aws.signatures.auth_errors` names (observed).

Refuses requests with incomplete signatures, as AWS does before it looks up the key; also without `--auth`.

Without `--auth`, local clients need not sign: a request may have no Authorization header, or one that only names a
Credential (account, region and service). A date is required with `--auth` only. Source: kinesalite's
test/connection.js, whose author compared it with Kinesis (observed).
"""

from __future__ import annotations

import re
from calendar import timegm
from datetime import datetime

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, Scope
from headrace.aws.signatures.auth_errors import MOST_EXPIRES_S, S3, SKEW_MINUTES, Wording
from headrace.aws.signatures.credential_scopes import (
    SIGV2,
    SIGV4,
    SIGV4A,
    NoPair,
    components_of,
    parameters_of,
    scope_of,
)
from headrace.aws.signatures.sigv4 import Claim, OldClaim

_SKEW_MS = SKEW_MINUTES * 60_000
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_REQUIRED = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
    "X-Amz-Date",
    "X-Amz-Expires",
)


def claim_of(params: dict[str, str], scope: Scope, wording: Wording) -> Claim | None:
    """Return the signature parameters of a presigned URL; None when the URL is not presigned. Raises AwsError."""
    is_s3 = wording is S3
    # For services other than S3, a request without an algorithm is not signed (observed by kinesalite).
    if "X-Amz-Algorithm" not in params and not (is_s3 and "X-Amz-Signature" in params):
        return None
    check_present(params, wording)
    algorithm = params["X-Amz-Algorithm"]
    if algorithm == SIGV4A:
        raise wording.sigv4a()
    if algorithm != SIGV4:
        raise (
            S3.query_parameters(f'X-Amz-Algorithm only supports "{SIGV4} and {SIGV4A}"')
            if is_s3
            else wording.algorithm(algorithm)
        )
    if not scope.access_key:
        raise S3.query_credential() if is_s3 else wording.credential(scope.credential)
    _parse_signed_ms(params["X-Amz-Date"], wording)
    return Claim(
        scope.access_key,
        scope.date,
        scope.region,
        scope.service,
        signed_headers=tuple(params["X-Amz-SignedHeaders"].lower().split(";")),
        signature=params["X-Amz-Signature"],
        timestamp=params["X-Amz-Date"],
        is_query=True,
        expires_s=_expires_s(params.get("X-Amz-Expires"), wording),
        token=scope.token or None,
    )


def check_present(params: dict[str, str], wording: Wording) -> None:
    """Refuse a presigned URL that lacks a parameter. Raises AwsError."""
    if wording is S3:
        if not all(params.get(name) for name in _REQUIRED):
            raise S3.query_parameters(
                "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential,"
                " X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters."
            )
        return
    # Other services do not require a time limit.
    missing = [name for name in _REQUIRED[:-1] if not params.get(name)]
    if missing:
        sentences = "".join(
            f"AWS query-string parameters must include '{name}'. " for name in missing
        )
        raise wording.incomplete(f"{sentences}Re-examine the query-string parameters.")


def _expires_s(text: str | None, wording: Wording) -> int | None:
    if wording is not S3:
        return int(text) if text is not None and text.isascii() and text.isdigit() else None
    if not _NUMBER.fullmatch(text or ""):
        raise S3.query_parameters("X-Amz-Expires should be a number")
    expires_s = int(text or "")
    if expires_s < 1:  # for 0 the sentence is assumed
        raise S3.query_parameters("X-Amz-Expires must be non-negative")
    if expires_s > MOST_EXPIRES_S:
        raise S3.query_parameters(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than"
            f" {MOST_EXPIRES_S} seconds"
        )
    return expires_s


def _parse_signed_ms(text: str, wording: Wording) -> int:
    try:
        return time_ms(text)
    except ValueError:
        if wording is S3:
            raise S3.query_parameters(
                "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""
            ) from None
        raise wording.incomplete(
            f"Date must be in ISO-8601 'basic format'. Got '{text}'. See http://en.wikipedia.org/wiki/ISO_8601"
        ) from None


def time_ms(timestamp: str) -> int:
    """Return the time of a signature's date, YYYYMMDDTHHMMSSZ. Raises ValueError."""
    if len(timestamp) != 16:
        raise ValueError(timestamp)
    return timegm(datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").timetuple()) * 1000  # noqa: DTZ007 - Z is UTC


def check_time(claim: Claim, wording: Wording, now_ms: int) -> None:
    """Refuse a presigned URL that has expired, or is not valid yet. Raises AwsError."""
    signed_ms = time_ms(claim.timestamp)
    if wording is S3:
        expires_s = claim.expires_s or 0
        if signed_ms > now_ms + _SKEW_MS:
            raise S3.not_yet()
        expires_ms = signed_ms + expires_s * 1000
        if now_ms > expires_ms:
            raise S3.expired(expires_ms, now_ms, str(expires_s))
        return
    # As STS does: a URL is valid for at least 15 minutes, whatever it says (observed by others).
    minutes = max(SKEW_MINUTES, -(-(claim.expires_s or 0) // 60))
    if signed_ms > now_ms + _SKEW_MS:
        raise wording.skewed(claim.timestamp, signed_ms, now_ms, SKEW_MINUTES)
    if now_ms > signed_ms + minutes * 60_000:
        raise wording.skewed(claim.timestamp, signed_ms, now_ms, minutes)


def old_claim_of(params: dict[str, str], scope: Scope) -> OldClaim:
    """Return the parameters of a URL presigned with S3's old signature. Raises AwsError."""
    names = ("Signature", "Expires", "AWSAccessKeyId")
    if not all(params.get(name) for name in names):
        sentence = "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters"
        raise AwsError("AccessDenied", sentence, 403)
    expires = params["Expires"]
    if not (expires.isascii() and expires.isdigit() and len(expires) < 12):
        # assumed
        sentence = f"Invalid date (should be seconds since epoch): {expires}"
        raise AwsError("AccessDenied", sentence, 403)
    return OldClaim(
        access_key=scope.access_key,
        signature=params["Signature"],
        expires_s=int(expires),
        token=scope.token or None,
    )


def check_old_time(claim: OldClaim, now_ms: int) -> None:
    """Refuse a URL with S3's old signature that has expired. Raises AwsError."""
    if claim.expires_s is not None and now_ms > claim.expires_s * 1000:
        raise S3.expired(claim.expires_s * 1000, now_ms, None)


def check(request: HttpRequest, wording: Wording, now_ms: int) -> None:
    """Refuse a presigned URL that is malformed or not valid now. Its signature is not verified. Raises AwsError."""
    scope = scope_of(request)
    if not scope.is_query:
        return
    params = parameters_of(request)
    if wording is S3 and scope.algorithm == SIGV2:
        check_old_time(old_claim_of(params, scope), now_ms)
    elif wording is S3 or "X-Amz-Expires" in params:
        claim = claim_of(params, scope, wording)
        if claim is not None:
            check_time(claim, wording, now_ms)


_COMPONENTS = ("Credential", "Signature", "SignedHeaders")


def header_components(authorization: str, wording: Wording, *, has_time: bool) -> dict[str, str]:
    """Return the components of a Version 4 Authorization header, by name. Raises AwsError when it is malformed."""
    rest = authorization.partition(" ")[2]
    if wording is S3:
        _check_of_s3(rest)
    try:
        components = components_of(rest)
    except NoPair as error:
        raise wording.no_pair(str(error), authorization) from None
    missing = "".join(
        f"Authorization header requires '{name}' parameter. "
        for name in _COMPONENTS
        if not components.get(name)
    )
    if not has_time:
        missing += (
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
        )
    if missing:
        raise wording.incomplete(f"{missing}Authorization={authorization}")
    return components


def _check_of_s3(rest: str) -> None:
    """Refuse what is not exactly three components. Raises AwsError.

    Source of both sentences: S3's answers in ex-aws/ex_aws#537, TTLabs/EvaporateJS#353 and zendesk/apt-s3#10 (observed
    by others).
    """
    components = rest.split(",")
    for component in components:
        name, _, value = component.strip().partition("=")
        if name in _COMPONENTS and (not value or "=" in value or " " in value):
            raise S3.component(component)
    names = sorted(component.strip().partition("=")[0] for component in components)
    if names != sorted(_COMPONENTS):
        raise S3.three_components()


def is_incomplete(request: HttpRequest) -> bool:
    """Whether a request with a target claims to be signed, and may lack parts. Fast: it runs for every request."""
    headers = request.headers
    if "x-amz-target" not in headers:
        return False
    if not headers.get("authorization"):
        return "X-Amz-Algorithm" in request.query
    scope = scope_of(request)
    return not (scope.algorithm and scope.is_whole) or "X-Amz-Algorithm" in request.query


def check_completeness(request: HttpRequest, wording: Wording) -> None:
    """Refuse a half-signed request, as far as that applies without `--auth`. Raises AwsError."""
    headers = request.headers
    authorization = headers.get("authorization", "")
    parameters = parameters_of(request)
    if authorization and "X-Amz-Algorithm" in parameters:
        raise wording.both()
    if "X-Amz-Algorithm" in parameters:
        check_present(parameters, wording)
    elif authorization:
        try:
            components = components_of(authorization.partition(" ")[2])
        except NoPair as error:
            raise wording.no_pair(str(error), authorization) from None
        if list(components) == ["Credential"] or all(components.get(n) for n in _COMPONENTS):
            return
        has_time = "x-amz-date" in headers or "date" in headers
        header_components(authorization, wording, has_time=has_time)
