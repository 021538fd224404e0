"""Presigned URLs: of S3 and of others, by both signatures; those that expired are refused by every cloud."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from botocore.auth import S3SigV4QueryAuth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from urllib3.filepost import encode_multipart_formdata

from headrace.core.values import iso_seconds_of
from tests.security.auth_lab import Guarded
from tests.security.conftest import text
from tests.support.clients import ENDPOINT_URL

Later = Callable[[float], None]


# --- presigned URLs -------------------------------------------------------------------------------

KEY_PATH = "/bucket/a%20key/with%20%2B%25%20%C3%A9"


def presigned(guarded: Guarded, expires: int = 60, path: str = KEY_PATH, query: str = "") -> str:
    request = AWSRequest("GET", f"{ENDPOINT_URL}{path}{query}")
    S3SigV4QueryAuth(guarded.credentials(), "s3", "us-east-1", expires=expires).add_auth(request)
    return request.url.removeprefix(ENDPOINT_URL)


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_boto3s_presigned_urls_work_until_they_expire(guarded: Guarded, later: Later, version: str):
    s3 = guarded.client("s3", signature_version=version)
    params = {"Bucket": "bucket", "Key": "a key/with +% é"}
    url = s3.generate_presigned_url("get_object", Params=params, ExpiresIn=60)
    path = url.removeprefix(ENDPOINT_URL)
    assert guarded.ask("GET", path).body == b"hello"
    assert guarded.ask("HEAD", path).status == 403  # signed for another method
    wrong = guarded.ask("GET", path.replace("Signature=", "Signature=0"))
    assert "<Code>SignatureDoesNotMatch</Code>" in text(wrong)
    later(62)
    before = iso_seconds_of(guarded.clock.now_ms())
    expired = text(guarded.ask("GET", path))
    assert "<Code>AccessDenied</Code><Message>Request has expired</Message>" in expired
    told = expired.partition("<ServerTime>")[2].partition("<")[0]
    assert before <= told <= iso_seconds_of(guarded.clock.now_ms())
    assert "<Expires>" in expired
    assert ("<X-Amz-Expires>60</X-Amz-Expires>" in expired) is (version == "s3v4")


@pytest.mark.parametrize(
    ("host", "path", "status"),
    [
        ("127.0.0.1:4566", "/aaa/bbb/secret", 200),
        ("aaa.localhost:4566", "/bbb/secret", 200),
        ("aaa.127.0.0.1:4566", "/bbb/secret", 200),
        # The same text to sign, with another bucket or key in what is asked for.
        ("bbb.localhost:4566", "/aaa/bbb/secret", 403),
    ],
)
def test_an_old_url_is_good_in_one_bucket_alone(
    guarded: Guarded, host: str, path: str, status: int
):
    s3 = guarded.client("s3", signature_version="s3")
    for bucket in ("aaa", "bbb"):
        with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
            s3.create_bucket(Bucket=bucket)
    for bucket, key in (("aaa", "bbb/secret"), ("bbb", "secret"), ("bbb", "aaa/bbb/secret")):
        s3.put_object(Bucket=bucket, Key=key, Body=f"of {bucket}".encode())
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "aaa", "Key": "bbb/secret"})
    answer = guarded.ask("GET", f"{path}?{url.partition('?')[2]}", {"host": host})
    assert answer.status == status
    assert status == 403 or answer.body == b"of aaa"


def test_an_upload_by_a_presigned_url(guarded: Guarded):
    s3 = guarded.client("s3", signature_version="s3v4")
    params = {"Bucket": "bucket", "Key": "up", "ContentType": "text/plain"}
    path = s3.generate_presigned_url("put_object", Params=params).removeprefix(ENDPOINT_URL)
    plain = {"content-type": "text/plain"}
    assert guarded.ask("PUT", path, plain, b"whatever").status == 200
    assert guarded.ask("PUT", path, {"content-type": "text/html"}, b"x").status == 403
    loose = text(guarded.ask("PUT", path, {**plain, "x-amz-acl": "public-read"}, b"x"))
    assert (
        "<Message>There were headers present in the request which were not signed</Message>"
        in loose
    )
    assert "<HeadersNotSigned>x-amz-acl</HeadersNotSigned>" in loose
    assert s3.get_object(Bucket="bucket", Key="up")["Body"].read() == b"whatever"


def test_presigned_urls_of_other_services(guarded: Guarded, later: Later):
    """STS keeps them for a quarter of an hour, whatever they say."""
    request = AWSRequest("GET", f"{ENDPOINT_URL}/?Action=GetCallerIdentity&Version=2011-06-15")
    SigV4QueryAuth(guarded.credentials(), "sts", "us-east-1", expires=60).add_auth(request)
    path = request.url.removeprefix(ENDPOINT_URL)
    assert "<Arn>" in text(guarded.ask("GET", path))
    later(14 * 60)
    assert "<Arn>" in text(guarded.ask("GET", path))
    later(2 * 60)
    answer = guarded.ask("GET", path)
    assert answer.status == 403
    assert "<Code>SignatureDoesNotMatch</Code><Message>Signature expired: " in text(answer)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X-Amz-Expires": "604801"}, ("X-Amz-Expires must be less than a week (in seconds); that is, the given"
         " X-Amz-Expires must be less than 604800 seconds")),
        ({"X-Amz-Expires": "-1"}, "X-Amz-Expires must be non-negative"),
        ({"X-Amz-Expires": "0"}, "X-Amz-Expires must be non-negative"),
        ({"X-Amz-Expires": "soon"}, "X-Amz-Expires should be a number"),
        ({"X-Amz-Expires": "6_0"}, "X-Amz-Expires should be a number"),
        ({"X-Amz-Expires": "%D9%A6"}, "X-Amz-Expires should be a number"),
        ({"X-Amz-Expires": None}, ("Query-string authentication version 4 requires the X-Amz-Algorithm,"
         " X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.")),
        ({"X-Amz-Signature": None}, "Query-string authentication version 4 requires"),
        ({"X-Amz-Date": "yesterday"}, "X-Amz-Date must be in the ISO8601 Long Format"),
        ({"X-Amz-Algorithm": "MD5"}, 'X-Amz-Algorithm only supports "AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256"'),
        ({"X-Amz-Credential": "a/b"}, ("Error parsing the X-Amz-Credential parameter; the Credential is mal-formed;"
         ' expecting "&lt;YOUR-AKID&gt;/YYYYMMDD/REGION/SERVICE/aws4_request".')),
    ],
)  # fmt: skip
@pytest.mark.parametrize("auth", [True, False])
def test_a_presigned_urls_parameters_have_a_form(
    guarded: Guarded, open_cloud: Guarded, changed: dict[str, str | None], message: str, auth: bool
):
    there = guarded if auth else open_cloud
    path, _, query = presigned(guarded).partition("?")
    parts = dict(part.split("=") for part in query.split("&"))
    (name, value), = changed.items()  # fmt: skip
    if value is None:
        del parts[name]
    else:
        parts[name] = value
    answer = there.ask("GET", f"{path}?{'&'.join(f'{n}={v}' for n, v in parts.items())}")
    assert answer.status == 400
    assert f"<Code>AuthorizationQueryParametersError</Code><Message>{message}" in text(
        answer
    ).replace("&quot;", '"')


def test_two_signatures_are_one_too_many(guarded: Guarded):
    answer = guarded.ask("GET", presigned(guarded), {"authorization": "AWS4-HMAC-SHA256 x"})
    assert "Only one auth mechanism allowed" in text(answer)


# --- without --auth -------------------------------------------------------------------------------


def test_a_url_that_has_expired_is_refused_by_every_cloud(guarded: Guarded, open_cloud: Guarded):
    path = presigned(guarded, 60, "/bucket/k")
    assert open_cloud.ask("GET", path).body == b"hello"
    tampered = path.replace("X-Amz-Signature=", "X-Amz-Signature=0")
    assert open_cloud.ask("GET", tampered).body == b"hello"  # whose it is, nobody asks
    open_cloud.clock.advance(61)
    answer = open_cloud.ask("GET", path)
    assert answer.status == 403
    assert "<Message>Request has expired</Message><X-Amz-Expires>60</X-Amz-Expires>" in text(answer)
    open_cloud.clock.advance(-61 - 20 * 60)
    early = open_cloud.ask("GET", path)
    assert (early.status, "Request is not valid yet" in text(early)) == (403, True)
    open_cloud.clock.advance(20 * 60)


def test_a_form_of_a_session_that_has_expired_is_refused(open_cloud: Guarded):
    trust = {"Effect": "Allow", "Principal": {"AWS": "000000000000"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    arn = open_cloud.cloud.client("iam").create_role(
        RoleName="f", AssumeRolePolicyDocument=document
    )["Role"]["Arn"]
    keys = open_cloud.cloud.client("sts").assume_role(RoleArn=arn, RoleSessionName="s1")[
        "Credentials"
    ]
    s3 = open_cloud.client("s3", keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    made = s3.generate_presigned_post("bucket", "form", ExpiresIn=10**6)

    def post(**changed: str) -> str:
        fields = {**made["fields"], **changed, "file": ("f", b"x")}
        body, kind = encode_multipart_formdata(fields)
        answer = open_cloud.ask("POST", "/bucket", {"content-type": kind}, body)
        return "" if answer.status == 204 else text(answer)

    assert post() == ""
    open_cloud.clock.advance(7200)
    assert "<Code>ExpiredToken</Code>" in post()
    open_cloud.clock.advance(-7200)


def test_old_urls_expire_too_and_are_whole_or_none(open_cloud: Guarded):
    until = open_cloud.clock.now_ms() // 1000 + 60
    path = f"/bucket/k?AWSAccessKeyId=x&Signature=y&Expires={until}"
    assert open_cloud.ask("GET", path).body == b"hello"
    open_cloud.clock.advance(62)
    assert "Request has expired" in text(open_cloud.ask("GET", path))
    open_cloud.clock.advance(-62)
    for missing in ("/bucket/k?AWSAccessKeyId=x&Signature=y", "/bucket/k?Signature=y&Expires=1"):
        answer = open_cloud.ask("GET", missing)
        assert answer.status == 403
        sentence = "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters"
        assert sentence in text(answer)
