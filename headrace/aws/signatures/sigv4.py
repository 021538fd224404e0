"""Computes Signature Version 4 of a request from its secret. It keeps no keys and decides nothing.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html, for chunks
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html (documented). tests/security/test_sigv4.py compares
the results with botocore's signers.

S3's old signatures (Version 2), which boto3 still makes for presigned URLs in the older regions.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html (documented).
tests/security/test_sigv4.py compares the results with botocore's signers.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from botocore.auth import HmacV1Auth
from botocore.utils import normalize_url_path

from headrace.aws.calls.http import HttpRequest
from headrace.aws.signatures.bucket_hosts import parse_bucket_host
from headrace.aws.signatures.credential_scopes import SIGV4

UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = hashlib.sha256().hexdigest()
AUTHORITY = ":authority"
SIGNATURE_PARAMETER = "X-Amz-Signature"
_BLANKS = re.compile(r"[ \t]+")


@dataclass(frozen=True, slots=True)
class Claim:
    """The signature of a request, as the request states it.

    Attributes:
        access_key: the id of the key.
        date: the day of the credential's scope, YYYYMMDD.
        region: the region of the scope.
        service: the service of the scope, such as `elasticmapreduce`.
        signed_headers: by lower-case name.
        signature: in hexadecimal.
        timestamp: when it was signed, YYYYMMDDTHHMMSSZ.
        is_query: the signature is in the query (a presigned URL), not in the Authorization header.
        expires_s: for how long a presigned URL is valid.
        token: the session token of temporary credentials.
    """

    access_key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str
    is_query: bool = False
    expires_s: int | None = None
    token: str | None = None

    @property
    def scope(self) -> str:
        """The credential's scope, without the key."""
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


@dataclass(frozen=True, slots=True)
class Signed:
    """A computed signature, and the text from which it was computed: S3's error shows both."""

    signature: str
    canonical_request: bytes
    string_to_sign: str


@functools.lru_cache(maxsize=256)
def derive_signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """Return the key that signs the requests of a day, a region and a service."""
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def sign(key: bytes, text: str) -> str:
    """Return the signature of a string to sign."""
    return hmac.digest(key, text.encode("utf-8", "surrogateescape"), "sha256").hex()


def signatures(
    request: HttpRequest, claim: Claim, secret: str, payload_hash: str
) -> Iterator[Signed]:
    """Yield the correct signatures of a request.

    Usually there is one. When a path, query or header can be written in two ways, clients sign the form that they send
    or the form that the documentation prescribes; both prove that they have the secret.
    """
    key = derive_signing_key(secret, claim.date, claim.region, claim.service)
    seen: set[bytes] = set()
    for canonical in _canonical_requests(request, claim, payload_hash):
        if canonical in seen:
            continue
        seen.add(canonical)
        digest = hashlib.sha256(canonical).hexdigest()
        text = f"{SIGV4}\n{claim.timestamp}\n{claim.scope}\n{digest}"
        yield Signed(sign(key, text), canonical, text)


def _canonical_requests(request: HttpRequest, claim: Claim, payload_hash: str) -> Iterator[bytes]:
    headers = "".join(
        f"{name}:{_BLANKS.sub(' ', _header(request, name)).strip(' ')}\n"
        for name in claim.signed_headers
    )
    names = ";".join(claim.signed_headers)
    for path, query in _resources(request, claim):
        text = f"{request.method}\n{path}\n{query}\n{headers}\n{names}\n{payload_hash}"
        yield from wire_bytes(text)


def _header(request: HttpRequest, name: str) -> str:
    # The SDK for JavaScript signs `:authority`, HTTP/2's name for the host.
    return request.headers.get("host" if name == AUTHORITY else name, "")


def wire_bytes(text: str) -> Iterator[bytes]:
    """Yield the bytes that a header may have had: HTTP/1.1's were decoded as Latin-1, HTTP/2's as UTF-8."""
    with contextlib.suppress(UnicodeEncodeError):
        yield text.encode("latin-1")
    if not text.isascii():
        yield text.encode("utf-8", "surrogateescape")


def _resources(request: HttpRequest, claim: Claim) -> Iterator[tuple[str, str]]:
    pairs = [
        (name, value)
        for name, _, value in (part.partition("=") for part in request.query.split("&") if part)
        if not (claim.is_query and name == SIGNATURE_PARAMETER)
    ]
    as_sent = "&".join(f"{name}={value}" for name, value in sorted(pairs))
    encoded = sorted((_encode(name), _encode(value)) for name, value in pairs)
    prescribed = "&".join(f"{name}={value}" for name, value in encoded)
    path = request.path or "/"
    if claim.service in ("s3", "s3express"):
        # S3's keys are encoded once, and their paths are never normalized.
        yield path, as_sent
        yield (
            quote(unquote(path, errors="surrogateescape"), safe="/-_.~", errors="surrogateescape"),
            prescribed,
        )
        return
    tidy = quote(normalize_url_path(path), safe="/-_.~")
    yield tidy, as_sent
    yield tidy, prescribed


def _encode(text: str) -> str:
    plain = unquote(text, errors="surrogateescape")
    return quote(plain, safe="-_.~", errors="surrogateescape")


class SigV4Chunks:
    """Implements headrace.aws.calls.http.ChunkSignatures by Signature Version 4."""

    def __init__(self, claim: Claim, secret: str) -> None:
        self._claim = claim
        self._key = derive_signing_key(secret, claim.date, claim.region, claim.service)
        self._previous = claim.signature

    def is_right(self, sha256: str, signature: str) -> bool:
        """Whether the next chunk, whose SHA-256 is given in hexadecimal, has this signature."""
        return self._follows(f"{SIGV4}-PAYLOAD", f"{EMPTY_SHA256}\n{sha256}", signature)

    def is_right_trailer(self, trailers: bytes, signature: str) -> bool:
        """Whether the trailers, `name:value` and a line feed each, have this signature."""
        digest = hashlib.sha256(trailers).hexdigest()
        return self._follows(f"{SIGV4}-TRAILER", digest, signature)

    def _follows(self, kind: str, what: str, signature: str) -> bool:
        claim = self._claim
        text = f"{kind}\n{claim.timestamp}\n{claim.scope}\n{self._previous}\n{what}"
        expected = sign(self._key, text)
        self._previous = expected
        return is_same(expected, signature)


def is_same(expected: str, actual: str) -> bool:
    """Compare two signatures in a time that tells nothing about where they differ."""
    return hmac.compare_digest(expected.encode(), actual.encode("utf-8", "surrogateescape"))


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
    """Yield the possible strings to sign: botocore signs a slash after a bucket alone."""
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
    path, query = _resource_v2(request)
    yield f"{start}\n{amazon}{path}{query}"
    if path.count("/") == 1:
        yield f"{start}\n{amazon}{path}/{query}"


def signatures_v2(text: str, secret: str) -> Iterator[str]:
    """Yield the correct signatures of a string to sign."""
    for signed in wire_bytes(text):
        yield base64.b64encode(hmac.digest(secret.encode(), signed, "sha1")).decode()


def _is_signed(name: str) -> bool:
    return name.startswith("x-amz-") or name in ("content-md5", "content-type")


def _parameters(request: HttpRequest) -> list[tuple[str, str]]:
    parts = (part.partition("=") for part in request.query.split("&") if part)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in parts]


def _resource_v2(request: HttpRequest) -> tuple[str, str]:
    """Return the path, with the bucket that the host names, and the query.

    A signature is good in one bucket alone, however a request with it is written.
    """
    named = sorted(
        (name, equals + unquote(value))
        for name, equals, value in (part.partition("=") for part in request.query.split("&"))
        if name in _SUBRESOURCES
    )
    query = "&".join(name + value for name, value in named)
    query = f"?{query}" if query else ""
    bucket = parse_bucket_host(request.headers.get("host", ""))
    return (f"/{bucket}" if bucket else "") + request.path, query
