"""Signatures are verified as botocore makes them: each of its signers, over random requests; and no other passes."""

from __future__ import annotations

import hashlib
import time
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import (
    HmacV1Auth,
    HmacV1QueryAuth,
    S3SigV4Auth,
    S3SigV4QueryAuth,
    SigV4Auth,
    SigV4QueryAuth,
)
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.signatures.access_keys import (
    AccessKey,
    KeyRing,
    RoleSession,
    RoleSessions,
    Secrets,
)
from headrace.aws.signatures.authentication import Authentication
from headrace.aws.signatures.credential_scopes import scope_of
from headrace.testing.in_process import http_request_of

KEY, SECRET, TOKEN = (
    "AKIAEXAMPLEEXAMPLE00",
    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "a token/+=",
)
SESSION = AccessKey("ASIAEXAMPLE", SECRET, TOKEN)


def others(key_id: str) -> AccessKey | None:
    return SESSION if key_id == SESSION.id else None


RING = KeyRing(
    Secrets("HRKAX", "unused", "internal", "page"),
    listed=[AccessKey(KEY, SECRET)],
    others=others,
    has_others=lambda: True,
)
VERIFIER = Authentication(RING)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def sent(request: AWSRequest) -> HttpRequest:
    """Return a request as a server gets it: with a Host, its header's bytes a character each."""
    arrived = http_request_of(request.prepare())
    arrived.headers.setdefault("host", urlsplit(request.url).netloc)
    arrived.headers = {
        name: value.encode().decode("latin-1") for name, value in arrived.headers.items()
    }
    return arrived


def refusal(request: HttpRequest, service: str, at_ms: int | None = None) -> AwsError:
    with pytest.raises(AwsError) as caught:
        VERIFIER.verify(request, service, at_ms if at_ms is not None else now_ms())
    return caught.value


TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12
)
SEGMENTS = st.lists(TEXT | st.sampled_from([".", "..", "a b", "%", "+", "~", "="]), max_size=4)
QUERY = st.dictionaries(TEXT, TEXT | st.just(""), max_size=4)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["content-type", "x-amz-meta-a", "x-amz-meta-b", "x-amz-target", "content-md5"]
    ),
    st.text("abcXYZ019 ,;=/é", min_size=1, max_size=12).filter(lambda text: text.strip() == text),
    max_size=3,
)
BODIES = st.binary(max_size=64)
HOSTS = st.sampled_from(["127.0.0.1:4566", "localhost", "bucket.s3.localhost:4566"])
CREDENTIALS = st.sampled_from([Credentials(KEY, SECRET), Credentials(SESSION.id, SECRET, TOKEN)])


@st.composite
def requests(draw: st.DrawFn) -> AWSRequest:
    segments = draw(SEGMENTS)
    path = "/".join(quote(segment, safe="~") for segment in segments)
    query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
        for name, value in draw(QUERY).items()
    )
    url = f"http://{draw(HOSTS)}/{path}" + (f"?{query}" if query else "")
    method = draw(st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]))
    body = draw(BODIES) if method in ("PUT", "POST") else b""
    return AWSRequest(method=method, url=url, headers=draw(HEADERS), data=body)


@given(requests(), CREDENTIALS, st.sampled_from(["kinesis", "iam", "lambda", "elasticmapreduce"]))
def test_headers_are_signed_as_botocore_signs_them(
    request: AWSRequest, credentials: Credentials, service: str
):
    SigV4Auth(credentials, service, "eu-west-1").add_auth(request)
    arrived = sent(request)
    assert VERIFIER.verify(arrived, service, now_ms()).id == credentials.access_key
    VERIFIER.verify_head(arrived, service, now_ms())
    arrived.body += b"x"
    assert refusal(arrived, service).code in ("InvalidSignatureException", "SignatureDoesNotMatch")


@given(requests(), CREDENTIALS)
def test_s3s_headers(request: AWSRequest, credentials: Credentials):
    S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
    arrived = sent(request)
    assert VERIFIER.verify(arrived, "s3", now_ms()).id == credentials.access_key
    VERIFIER.verify_head(arrived, "s3", now_ms())
    arrived.body += b"x"
    assert refusal(arrived, "s3").code == "XAmzContentSHA256Mismatch"
    arrived.headers["x-amz-content-sha256"] = hashlib.sha256(arrived.body).hexdigest()
    assert refusal(arrived, "s3").code == "SignatureDoesNotMatch"


@given(requests(), CREDENTIALS, st.sampled_from(["sts", "sqs"]))
def test_presigned_urls(request: AWSRequest, credentials: Credentials, service: str):
    request.data = b""
    SigV4QueryAuth(credentials, service, "us-east-1", expires=900).add_auth(request)
    arrived = sent(request)
    assert VERIFIER.verify(arrived, service, now_ms()).id == credentials.access_key
    arrived.query += "&Action=DeleteQueue"
    assert refusal(arrived, service).status in (400, 403)


@given(requests(), CREDENTIALS, BODIES)
def test_presigned_urls_of_s3(request: AWSRequest, credentials: Credentials, body: bytes):
    request.data = b""
    S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=900).add_auth(request)
    arrived = sent(request)
    arrived.body = body  # nobody could know it
    assert VERIFIER.verify(arrived, "s3", now_ms()).id == credentials.access_key
    arrived.method = "PATCH"
    assert refusal(arrived, "s3").code == "SignatureDoesNotMatch"


def _name_bucket(request: AWSRequest) -> None:
    """Let an old signature name the bucket of the host, as botocore's clients do."""
    parts = urlsplit(request.url)
    if parts.netloc.startswith("bucket."):
        request.auth_path = f"/bucket{parts.path}"


@given(requests(), CREDENTIALS)
def test_old_signatures_of_s3(request: AWSRequest, credentials: Credentials):
    _name_bucket(request)
    HmacV1Auth(credentials).add_auth(request)
    arrived = sent(request)
    assert VERIFIER.verify(arrived, "s3", now_ms()).id == credentials.access_key
    arrived.path += "x"
    assert refusal(arrived, "s3").code == "SignatureDoesNotMatch"


@given(requests(), CREDENTIALS)
def test_old_presigned_urls_of_s3(request: AWSRequest, credentials: Credentials):
    request.data = b""
    # A query's value and a header's may not differ in how they are encoded: botocore's own signer loses them.
    for name, value in list(request.headers.items()):
        if not value.isascii():
            del request.headers[name]
    _name_bucket(request)
    HmacV1QueryAuth(credentials, expires=900).add_auth(request)
    arrived = sent(request)
    assert VERIFIER.verify(arrived, "s3", now_ms()).id == credentials.access_key
    arrived.path += "x"
    assert refusal(arrived, "s3").code == "SignatureDoesNotMatch"


@given(requests(), st.integers(0, 63), st.sampled_from("0123456789abcdef"))
def test_no_other_signature_passes(request: AWSRequest, at: int, digit: str):
    S3SigV4Auth(Credentials(KEY, SECRET), "s3", "us-east-1").add_auth(request)
    head, mark, signature = request.headers["Authorization"].partition("Signature=")
    other = signature[:at] + digit + signature[at + 1 :]
    request.headers.replace_header("Authorization", head + mark + other)
    arrived = sent(request)
    if other == signature:
        VERIFIER.verify(arrived, "s3", now_ms())
    else:
        assert refusal(arrived, "s3").code == "SignatureDoesNotMatch"


def signed(service: str = "kinesis", **headers: str) -> HttpRequest:
    signer: Any = S3SigV4Auth if service == "s3" else SigV4Auth
    request = AWSRequest("POST", "http://127.0.0.1:4566/", headers=headers, data=b"{}")
    signer(Credentials(KEY, SECRET), service, "us-east-1").add_auth(request)
    return sent(request)


def test_a_name_that_is_there_twice_deceives_nobody():
    """All go by the last credential, as AWS does; S3 refuses the header."""
    request = signed("iam")
    one = request.headers["authorization"]
    other = "Credential=x/1/r/iam/aws4_request"
    request.headers["authorization"] = one.replace("Credential=", f"{other}, Credential=")
    assert VERIFIER.verify(request, "iam", now_ms()).id == scope_of(request).access_key == KEY
    request = signed("iam")
    request.headers["authorization"] = f"{one}, {other}"
    assert refusal(request, "iam").code == "InvalidClientTokenId"
    request = signed("s3")
    request.headers["authorization"] += f", {other}"
    assert refusal(request, "s3").message == (
        "The authorization header is malformed; the authorization header requires three components: Credential,"
        " SignedHeaders, and Signature."
    )


def test_sessions_that_are_nowhere_kept_are_known_by_their_token():
    def nobody(key_id: str) -> AccessKey | None:
        raise AssertionError("moto is not asked")

    sessions = RoleSessions(bytes(32))
    end_ms = now_ms() + 60_000
    key = sessions.issue(RoleSession("111111111111", "worker", "f", end_ms))
    own, right = key.session_token, key.secret_access_key
    ring = KeyRing(
        Secrets("HRKAX", "unused", "internal", "page"), listed=[], others=nobody,
        has_others=lambda: False, sessions=sessions,
    )  # fmt: skip
    verifier = Authentication(ring)
    assert verifier.is_quick(key.access_key_id)
    assert not verifier.is_quick("ASIAOTHER")

    def verified(secret: str, token: str | None, *, at_ms: int) -> str | None:
        request = AWSRequest("POST", "http://127.0.0.1:4566/", data=b"{}")
        signer = Credentials(key.access_key_id, secret, token)
        SigV4Auth(signer, "kinesis", "us-east-1").add_auth(request)
        return verifier.verify(sent(request), "kinesis", at_ms).account

    assert verified(right, own, at_ms=end_ms - 1) == "111111111111"
    for secret, token in (("", "another"), (right, None), ("", None), ("other", own)):
        with pytest.raises(AwsError):
            verified(secret, token, at_ms=end_ms - 1)
    with pytest.raises(AwsError) as expired:
        verified(right, own, at_ms=end_ms)
    assert expired.value.code == "ExpiredTokenException"
    # In a query a token can be anything.
    for token in ("\n", "", "another"):
        request = AWSRequest("GET", "http://127.0.0.1:4566/bucket/key")
        signer = S3SigV4QueryAuth(Credentials(key.access_key_id, "", token), "s3", "us-east-1")
        signer.add_auth(request)
        with pytest.raises(AwsError) as caught:
            verifier.verify(sent(request), "s3", now_ms())
        assert caught.value.code == "InvalidToken"


def test_what_says_nothing_is_not_let_in_by_its_form():
    for authorization in (
        "",
        "Bearer x",
        "Basic eDp5",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 x",
        "AWS x:y",
    ):
        request = HttpRequest("POST", "/", "", {"host": "h", "authorization": authorization})
        for service in ("kinesis", "iam", "lambda", "s3", "nonsense"):
            assert refusal(request, service).status in (400, 403)
