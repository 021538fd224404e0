"""Buckets' CORS rules: preflights, the headers of actual answers, and what a configuration may say.

Whole answers are AWS's to LocalStack's tests/aws/services/s3/test_s3_cors.py, recorded 2023 to 2025 (observed).
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpResponse
from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, header

HOME = "https://localhost:4200"
VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"
RULE = {"AllowedOrigins": [HOME], "AllowedMethods": ["GET", "PUT"], "MaxAgeSeconds": 3000}
NOT_ALLOWED = (
    "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method"
    " / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS"
    " spec."
)


def put(s3: Any, *rules: dict[str, Any]) -> None:
    s3.put_object(Bucket=BUCKET, Key="key", Body=b"test-cors")
    s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": list(rules)})


def ask(
    lab: S3Lab, origin: str | None, method: str | None = None, headers: str = "", path: str = "/key"
) -> HttpResponse:
    given = {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": headers or None,
    }
    named = {name: value for name, value in given.items() if value is not None}
    return lab.request("OPTIONS", f"/{BUCKET}{path}", headers=named)


def of_cors(answer: HttpResponse) -> dict[str, str]:
    return {n: v for n, v in answer.headers if n == "Vary" or n.startswith("Access-Control-")}


def error(answer: HttpResponse) -> tuple[int, dict[str, str | None]]:
    assert isinstance(answer.body, bytes)
    members = {element.tag: element.text for element in ElementTree.fromstring(answer.body)}
    for name in ("RequestId", "HostId"):
        assert members.pop(name)
    return answer.status, members


def forbidden(message: str, method: str, kind: str) -> tuple[int, dict[str, str]]:
    members = {"Code": "AccessForbidden", "Message": message, "Method": method}
    return 403, {**members, "ResourceType": kind}


# --- preflights ---------------------------------------------------------------------------------


def test_without_a_configuration(lab: S3Lab, s3: Any):
    no_origin = "Insufficient information. Origin request header needed."
    assert error(ask(lab, None)) == (400, {"Code": "BadRequest", "Message": no_origin})
    not_enabled = "CORSResponse: CORS is not enabled for this bucket."
    asked = ask(lab, HOME, "PUT", path="")
    assert error(asked) == forbidden(not_enabled, "PUT", "BUCKET")
    assert error(ask(lab, HOME, path="")) == forbidden(not_enabled, "OPTIONS", "BUCKET")


def test_of_a_bucket_that_is_not_there(lab: S3Lab):
    answer = lab.request("OPTIONS", "/nowhere", headers={"origin": HOME})
    assert error(answer) == forbidden("CORSResponse: Bucket not found", "OPTIONS", "BUCKET")


def test_the_origin_must_be_one_of_a_rules(lab: S3Lab, s3: Any):
    put(s3, RULE)
    expected = {
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Methods": "GET, PUT",
        "Access-Control-Allow-Origin": HOME,
        "Access-Control-Max-Age": "3000",
        "Vary": VARY,
    }
    answer = ask(lab, HOME, "PUT")
    assert (answer.status, answer.body, of_cors(answer)) == (200, b"", expected)
    wrong = ask(lab, "https://wrong", "PUT")
    assert error(wrong) == forbidden(NOT_ALLOWED, "PUT", "OBJECT")
    assert of_cors(wrong) == {}


def test_a_star_lets_in_every_origin_without_credentials(lab: S3Lab, s3: Any):
    put(s3, {**RULE, "AllowedOrigins": ["*"]})
    for origin in ("https://random.example", "null"):
        assert of_cors(ask(lab, origin, "PUT")) == {
            "Access-Control-Allow-Methods": "GET, PUT",
            "Access-Control-Allow-Origin": "*",
            "Access-Control-Max-Age": "3000",
            "Vary": VARY,
        }


@pytest.mark.parametrize(
    ("pattern", "origin", "allowed"),
    [
        ("http://*.origin.com", "http://test.origin.com", True),
        ("http://*.origin.com", "http://origin.com", False),
        ("http://*.origin.com", "http://a.origin.com.evil.example", False),
        ("https://*.origin.com", "http://test.origin.com", False),
        ("http://test*", "http://test.origin.com", True),
        ("http://ab*ba.com", "http://aba.com", False),
        ("http://exact.com", "http://exact.com:80", False),
        ("", "http://exact.com", False),
    ],
)
def test_one_star_stands_for_any_characters(
    lab: S3Lab, s3: Any, pattern: str, origin: str, allowed: bool
):
    put(s3, {**RULE, "AllowedOrigins": [pattern]})
    assert (ask(lab, origin, "GET").status == 200) is allowed


def test_the_method_must_be_one_of_the_rules(lab: S3Lab, s3: Any):
    put(s3, {**RULE, "AllowedMethods": ["GET"]})
    assert ask(lab, HOME, "GET").status == 200
    assert error(ask(lab, HOME, "PUT")) == forbidden(NOT_ALLOWED, "PUT", "OBJECT")


def test_every_header_that_is_asked_for_must_be_allowed(lab: S3Lab, s3: Any):
    allowed = ["x-amz-expected-bucket-owner", "x-AMZ-server-SIDE-encryption", "x-mine-*"]
    put(s3, {**RULE, "AllowedHeaders": allowed})
    for asked, told in (
        ("x-amz-expected-bucket-owner", "x-amz-expected-bucket-owner"),
        ("X-Amz-Server-Side-Encryption,x-mine-1", "x-amz-server-side-encryption, x-mine-1"),
    ):
        assert of_cors(ask(lab, HOME, "GET", asked))["Access-Control-Allow-Headers"] == told
    for asked in ("x-other", "x-mine-1, x-other"):
        refusal = ask(lab, HOME, "GET", asked)
        assert error(refusal) == forbidden(NOT_ALLOWED, "GET", "OBJECT")


def test_the_first_rule_that_fits_is_taken_whole(lab: S3Lab, s3: Any):
    put(
        s3,
        {"AllowedOrigins": [HOME], "AllowedMethods": ["PUT"], "AllowedHeaders": ["x-a"]},
        {**RULE, "AllowedHeaders": ["*"], "ExposeHeaders": ["x-amz-id-2", "etag"]},
    )
    assert of_cors(ask(lab, HOME, "PUT", "x-a"))["Access-Control-Allow-Methods"] == "PUT"
    second = of_cors(ask(lab, HOME, "PUT", "x-b"))
    assert second["Access-Control-Expose-Headers"] == "x-amz-id-2, etag"
    assert second["Access-Control-Allow-Methods"] == "GET, PUT"


def test_a_preflight_says_which_method(lab: S3Lab, s3: Any):
    put(s3, RULE)
    message = "Invalid Access-Control-Request-Method: null"
    assert error(ask(lab, HOME)) == (400, {"Code": "BadRequest", "Message": message})


# --- actual answers -----------------------------------------------------------------------------


def test_answers_to_a_page_carry_the_headers_of_its_rule(lab: S3Lab, s3: Any):
    put(s3, {**RULE, "AllowedMethods": ["GET"], "ExposeHeaders": ["x-amz-request-id"]})
    answer = lab.request("GET", f"/{BUCKET}/key", headers={"origin": HOME})
    assert (answer.status, answer.body) == (200, b"test-cors")
    expected = {
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Methods": "GET",
        "Access-Control-Allow-Origin": HOME,
        "Access-Control-Expose-Headers": "x-amz-request-id",
        "Access-Control-Max-Age": "3000",
        "Vary": VARY,
    }
    assert of_cors(answer) == expected
    missing = lab.request("GET", f"/{BUCKET}/nothing", headers={"origin": HOME})
    assert (missing.status, of_cors(missing)) == (404, expected)
    put_answer = lab.request("PUT", f"/{BUCKET}/key", headers={"origin": HOME})
    assert (put_answer.status, of_cors(put_answer)) == (200, {})
    wrong = lab.request("GET", f"/{BUCKET}/key", headers={"origin": "https://wrong"})
    assert of_cors(wrong) == {}
    assert of_cors(lab.request("GET", f"/{BUCKET}/key")) == {}
    assert header(answer, "x-amz-request-id")


# --- configurations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "code", "message"),
    [
        (
            {**RULE, "AllowedMethods": ["MYMETHOD"]},
            "InvalidRequest",
            "Found unsupported HTTP method in CORS config. Unsupported method is MYMETHOD",
        ),
        (
            {**RULE, "AllowedOrigins": ["http://*.*.com"]},
            "InvalidRequest",
            'AllowedOrigin "http://*.*.com" can not have more than one wildcard.',
        ),
        (
            {**RULE, "AllowedHeaders": ["x-*-*"]},
            "InvalidRequest",
            'AllowedHeader "x-*-*" can not have more than one wildcard.',
        ),
        (
            {**RULE, "ExposeHeaders": ["x-*"]},
            "InvalidRequest",
            'ExposeHeader "x-*" contains wildcard. We currently do not support wildcard for ExposeHeader.',
        ),
    ],
)
def test_what_no_rule_may_say(s3: Any, rule: dict[str, Any], code: str, message: str):
    with pytest.raises(ClientError) as raised:
        s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": [rule]})
    found = raised.value.response["Error"]
    assert (found["Code"], found["Message"]) == (code, message)


@pytest.mark.parametrize("count", [0, 101])
def test_how_many_rules_there_may_be(s3: Any, count: int):
    with pytest.raises(ClientError) as raised:
        s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": [RULE] * count})
    assert raised.value.response["Error"]["Code"] == "MalformedXML"
