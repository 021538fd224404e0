"""S3's old signatures (Version 2), which boto3 still makes for presigned URLs in the older regions.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html (documented). Held against botocore's
own signers by tests/security/test_sigv4.py.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, unquote_plus

from botocore.auth import HmacV1Auth

from headrace.aws.http import HttpRequest
from headrace.aws.sigv4 import wire_bytes

# The one service that still takes them.
SERVICE = "s3"
# Botocore's list of the query parameters that are signed with the path.
_SUBRESOURCES = frozenset(HmacV1Auth.QSAOfInterest)


@dataclass(frozen=True, slots=True)
class OldClaim:
    """What a request says of its signature.

    Attributes:
        access_key: the id of the key.
        signature: in base64.
        expires_s: the second of the epoch until which a presigned URL is good; None for a header.
        token: of temporary credentials.
    """

    access_key: str
    signature: str
    expires_s: int | None = None
    token: str | None = None


def strings_to_sign(request: HttpRequest, claim: OldClaim) -> Iterator[str]:
    """Yield what may have been signed: the bucket, of which the host may be the name, belongs to the path."""
    headers = dict(request.headers)
    if claim.expires_s is not None:
        # What was signed as a header stands in the query of a presigned URL.
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
    """Yield the signatures that are right for a string to sign."""
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
