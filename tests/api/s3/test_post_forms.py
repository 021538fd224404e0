"""Uploads of browsers' forms, as boto3 presigns them. AWS's answers are held by tests/conformance/s3/forms.json."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from urllib3.filepost import encode_multipart_formdata

from headrace.aws.calls.http import HttpRequest
from tests.api.s3.helpers import S3Lab, header

KEY = "folder/${filename}"


@pytest.fixture
def bucket(s3: Any) -> str:
    s3.create_bucket(Bucket="bucket-one")
    return "bucket-one"


def post(lab: S3Lab, fields: dict[str, Any], path: str = "/bucket-one") -> Any:
    body, kind = encode_multipart_formdata(fields)
    headers = {"content-type": kind, "host": "localhost:4566"}
    return lab.handle(HttpRequest("POST", path, "", headers, body))


def far(conditions: list[Any]) -> str:
    policy = {"expiration": "2099-01-01T00:00:00Z", "conditions": conditions}
    return base64.b64encode(json.dumps(policy).encode()).decode()


@pytest.mark.usefixtures("bucket")
class TestForms:
    def test_what_boto3_presigns_is_stored(self, lab: S3Lab, s3: Any):
        conditions = [["starts-with", "$acl", "bucket-owner"], {"x-amz-meta-a": "b"}]
        fields = {"acl": "bucket-owner-full-control", "x-amz-meta-a": "b"}
        made = s3.generate_presigned_post(
            "bucket-one", KEY, Fields=fields, Conditions=conditions, ExpiresIn=10**8
        )
        answer = post(lab, {**made["fields"], "file": ("name.txt", b"bytes")})
        assert answer.status == 204, answer.body
        assert header(answer, "location") == "http://localhost:4566/bucket-one/folder/name.txt"
        got = s3.get_object(Bucket="bucket-one", Key="folder/name.txt")
        assert (got["Body"].read(), got["Metadata"]) == (b"bytes", {"a": "b"})

    def test_a_field_that_no_condition_names(self, lab: S3Lab):
        fields = {"key": "k", "policy": far([{"key": "k"}]), "x-amz-meta-a": "b"}
        signed = {"AWSAccessKeyId": "test", "signature": "x", "x-ignore-a": "b"}
        answer = post(lab, {**fields, **signed, "file": ("f", b"x")})
        assert answer.status == 403
        assert b"Extra input fields: x-amz-meta-a" in answer.body

    def test_a_form_without_a_policy_is_stored_as_it_is(self, lab: S3Lab, s3: Any):
        assert post(lab, {"key": "k", "file": "no name"}).status == 204
        assert s3.get_object(Bucket="bucket-one", Key="k")["Body"].read() == b"no name"

    def test_what_follows_the_file_is_ignored(self, lab: S3Lab, s3: Any):
        post(lab, {"key": "k", "file": ("f", b"x"), "x-amz-meta-a": "b"})
        assert s3.head_object(Bucket="bucket-one", Key="k")["Metadata"] == {}

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"file": ("f", b"x")}, "InvalidArgument"),
            ({"key": "k"}, "InvalidArgument"),
            (
                {"key": "k", "big": "x" * 30_000, "file": ("f", b"x")},
                "MaxPostPreDataLengthExceeded",
            ),
            (
                {"key": "k", **{f"n{n}": "x" * 300 for n in range(100)}, "file": ("f", b"x")},
                "MaxPostPreDataLengthExceeded",
            ),
            ({"key": "x" * 1025, "file": ("f", b"x")}, "KeyTooLongError"),
            (
                {"key": "k", "policy": "!", "signature": "s", "AWSAccessKeyId": "a", "file": "x"},
                "InvalidPolicyDocument",
            ),
        ],
    )
    def test_bad_forms(self, lab: S3Lab, s3: Any, fields: dict[str, Any], code: str):
        answer = post(lab, fields)
        assert answer.status == 400
        assert f"<Code>{code}</Code>".encode() in answer.body
        assert "Contents" not in s3.list_objects_v2(Bucket="bucket-one")
        assert list(lab.s3.files.temporary().parent.iterdir()) == []

    def test_a_size_range_without_an_end(self, lab: S3Lab):
        policy = far([{"key": "k"}, ["content-length-range", 0, float("inf")]])
        signed = {"AWSAccessKeyId": "test", "signature": "x"}
        answer = post(lab, {"key": "k", "policy": policy, **signed, "file": ("f", b"x")})
        assert (answer.status, b"Policy Condition failed" in answer.body) == (403, True)

    def test_a_body_that_is_no_form(self, lab: S3Lab):
        for kind, body in (
            ("multipart/form-data; boundary=b", b"nothing"),
            ("multipart/form-data", b""),
        ):
            answer = lab.request("POST", "/bucket-one", "", body, {"content-type": kind})
            assert answer.status == 400, answer.body


def test_a_bucket_that_is_not_there(lab: S3Lab):
    answer = post(lab, {"key": "k", "file": "x"}, "/no-such-bucket")
    assert (answer.status, b"NoSuchBucket" in answer.body) == (404, True)
