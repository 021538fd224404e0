"""S3's old signatures (Version 2), which boto3 still makes for presigned URLs in the older regions.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html (documented).
tests/security/test_sigv4.py compares the results with botocore's signers.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, unquote_plus

from botocore.auth import HmacV1Auth

from headrace.aws.calls.http import HttpRequest
from headrace.aws.signatures.sigv4 import wire_bytes

# Botocore's list of the query parameters that are signed with the path.
_SUBRESOURCES = frozenset(HmacV1Auth.QSAOfInterest)


@dataclass(frozen=True, slots=True)
class OldClaim:
    """The signature of a request, as the request states it.

    Attributes:
        access_key: the id of the key.
        signature: in base64.
        expires_s: when a presigned URL expires, in seconds since 1970; None for a header.
        token: the session token of temporary credentials.
    """

    access_key: str
    signature: str
    expires_s: int | None = None
    token: str | None = None


def strings_to_sign(request: HttpRequest, claim: OldClaim) -> Iterator[str]:
    """Yield the possible strings to sign: a bucket that is named by the host belongs to the path."""
    headers = dict(request.headers)
    if claim.expires_s is not None:
        # Values that are signed as headers are in the query of a presigned URL.
        named = {name.lower(): value for name, value in _parameters(request)}
        headers = {n: v for n, v in named.items() if _is_signed(n)} | headers
        date = str(claim.expires_s)
    else:
        date = "" if "x-amz-date" in headers else headers.get("date", "")
    amazon = "".join(
        f"{name}:{headers[name].strip()}\n" for name in sorted(headers) if name.startswith("x-amz-")
    )
    start = "\n".join(
        (request.method, headers.get("content-md5", ""), headers.get("content-type", ""), date)
    )
    for resource in _resources(request):
        yield f"{start}\n{amazon}{resource}"


def signatures(text: str, secret: str) -> Iterator[str]:
    """Yield the correct signatures of the strings to sign."""
    for signed in wire_bytes(text):
        yield base64.b64encode(hmac.digest(secret.encode(), signed, "sha1")).decode()


def _is_signed(name: str) -> bool:
    return name.startswith("x-amz-") or name in ("content-md5", "content-type")


def _parameters(request: HttpRequest) -> list[tuple[str, str]]:
    parts = (part.partition("=") for part in request.query.split("&") if part)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in parts]


def _resources(request: HttpRequest) -> Iterator[str]:
    named = sorted(
        (name, equals + unquote(value))
        for name, equals, value in (part.partition("=") for part in request.query.split("&"))
        if name in _SUBRESOURCES
    )
    query = "&".join(name + value for name, value in named)
    query = f"?{query}" if query else ""
    path = request.path
    yield path + query
    labels = request.headers.get("host", "").partition(":")[0].split(".")
    for count in range(1, len(labels)):
        yield f"/{'.'.join(labels[:count])}{path}{query}"
