"""GetObject and HeadObject."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of, header

DATA = bytes(range(256))


@pytest.fixture(autouse=True)
def stored(s3: Any) -> Any:
    return s3.put_object(Bucket=BUCKET, Key="k", Body=DATA, ContentType="text/plain")


# --- serialization ------------------------------------------------------------------------------


def test_head_is_get_without_the_bytes(lab: S3Lab, s3: Any):
    got, head = s3.get_object(Bucket=BUCKET, Key="k"), s3.head_object(Bucket=BUCKET, Key="k")
    got.pop("Body")
    for answer in (got, head):
        answer.pop("ResponseMetadata")
    for name in [name for name in got if name.startswith("Checksum")]:
        got.pop(name)  # boto3 asks for it on GET only
    assert got == head
    assert head["ContentLength"] == 256
    assert lab.request("HEAD", f"/{BUCKET}/k").body == b""


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=10-19", 10, 19),
        ("bytes=250-", 250, 255),
        ("bytes=-6", 250, 255),
        ("bytes=-1000", 0, 255),
        ("bytes=200-1000", 200, 255),
    ],
)
def test_a_range_is_answered_with_206(s3: Any, asked: str, first: int, last: int):
    got = s3.get_object(Bucket=BUCKET, Key="k", Range=asked)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["Body"].read() == DATA[first : last + 1]
    assert got["ContentRange"] == f"bytes {first}-{last}/256"
    head = s3.head_object(Bucket=BUCKET, Key="k", Range=asked)
    assert (head["ContentLength"], head["ContentRange"]) == (last - first + 1, got["ContentRange"])


@pytest.mark.parametrize(
    "asked", ["bytes=5-2", "bytes=-", "lines=1-2", "bytes=0-1,4-5", "bytes=x-y"]
)
def test_what_is_not_one_range_is_answered_whole(s3: Any, asked: str):
    got = s3.get_object(Bucket=BUCKET, Key="k", Range=asked)
    assert (got["ResponseMetadata"]["HTTPStatusCode"], got["Body"].read()) == (200, DATA)


def test_the_query_overrides_headers_but_cannot_add_any(lab: S3Lab, s3: Any):
    got = s3.get_object(Bucket=BUCKET, Key="k", ResponseContentType="text/html")
    assert got["ContentType"] == "text/html"
    query = "response-content-disposition=a%0d%0aSet-Cookie:%20x"
    response = lab.request("GET", f"/{BUCKET}/k", query)
    assert header(response, "content-disposition") == "aSet-Cookie: x"


# --- validation ---------------------------------------------------------------------------------


def test_a_missing_key_is_no_such_key_and_for_head_a_bare_404(s3: Any):
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key="none")
    assert error_of(raised) == ("NoSuchKey", 404)
    assert raised.value.response["Error"]["Key"] == "none"
    with pytest.raises(ClientError) as raised:
        s3.head_object(Bucket=BUCKET, Key="none")
    assert error_of(raised) == ("404", 404)


@pytest.mark.parametrize("asked", ["bytes=256-", "bytes=256-300", "bytes=-0"])
def test_a_range_behind_the_end_is_not_satisfiable(s3: Any, asked: str):
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key="k", Range=asked)
    assert error_of(raised) == ("InvalidRange", 416)


def test_there_is_no_version_but_null(s3: Any):
    assert s3.get_object(Bucket=BUCKET, Key="k", VersionId="null")["Body"].read() == DATA
    for operation in (s3.get_object, s3.delete_object):
        with pytest.raises(ClientError) as raised:
            operation(Bucket=BUCKET, Key="k", VersionId="3sL4kqtJlcpXroDTDmJ")
        assert error_of(raised) == ("InvalidArgument", 400)


def test_a_part_that_is_not_there_is_not_satisfiable(s3: Any):
    assert s3.get_object(Bucket=BUCKET, Key="k", PartNumber=1)["Body"].read() == DATA
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key="k", PartNumber=2)
    assert error_of(raised) == ("InvalidPartNumber", 416)


# --- behaviour ----------------------------------------------------------------------------------


def test_conditions_hold_as_rfc_9110_says(s3: Any, stored: Any):
    etag = stored["ETag"]
    modified = s3.head_object(Bucket=BUCKET, Key="k")["LastModified"]
    earlier, later = modified - timedelta(hours=1), modified + timedelta(hours=1)

    def status(**conditions: Any) -> int:
        try:
            answer = s3.get_object(Bucket=BUCKET, Key="k", **conditions)
        except ClientError as error:
            answer = error.response
        return answer["ResponseMetadata"]["HTTPStatusCode"]

    assert status(IfMatch=etag) == 200
    assert status(IfMatch='"other"') == 412
    assert status(IfNoneMatch=etag) == 304
    assert status(IfNoneMatch='"other"') == 200
    assert status(IfModifiedSince=earlier) == 200
    assert status(IfModifiedSince=modified) == 304
    assert status(IfUnmodifiedSince=earlier) == 412
    assert status(IfUnmodifiedSince=later) == 200
    # The ETag decides where both are given.
    assert status(IfMatch=etag, IfUnmodifiedSince=earlier) == 200
    assert status(IfNoneMatch='"other"', IfModifiedSince=later) == 200


def test_not_modified_names_the_object_and_has_no_body(lab: S3Lab, stored: Any):
    response = lab.request("GET", f"/{BUCKET}/k", headers={"if-none-match": stored["ETag"]})
    assert (response.status, response.body, header(response, "etag")) == (304, b"", stored["ETag"])


def test_a_large_object_is_sent_from_its_file(s3: Any):
    data = bytes(range(256)) * 8192  # 2 MiB
    s3.put_object(Bucket=BUCKET, Key="large", Body=data)
    assert s3.get_object(Bucket=BUCKET, Key="large")["Body"].read() == data
    got = s3.get_object(Bucket=BUCKET, Key="large", Range="bytes=1000000-")
    assert got["Body"].read() == data[1000000:]


def test_an_empty_object_has_no_range(s3: Any):
    s3.put_object(Bucket=BUCKET, Key="empty", Body=b"")
    assert s3.get_object(Bucket=BUCKET, Key="empty")["Body"].read() == b""
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key="empty", Range="bytes=0-")
    assert error_of(raised) == ("InvalidRange", 416)


def test_attributes_that_are_asked_for_are_told(s3: Any, stored: Any):
    got = s3.get_object_attributes(
        Bucket=BUCKET, Key="k", ObjectAttributes=["ETag", "ObjectSize", "Checksum"]
    )
    assert (got["ETag"], got["ObjectSize"]) == (stored["ETag"].strip('"'), 256)
    assert got["Checksum"]["ChecksumCRC32"] == stored["ChecksumCRC32"]
    assert "StorageClass" not in got


def test_s3_select_is_answered_as_to_a_new_account(s3: Any):
    with pytest.raises(ClientError) as refused:
        s3.select_object_content(
            Bucket=BUCKET, Key="k", Expression="select * from s3object", ExpressionType="SQL",
            InputSerialization={"CSV": {}}, OutputSerialization={"CSV": {}},
        )  # fmt: skip
    assert error_of(refused) == ("MethodNotAllowed", 405)
    sentence = "The specified method is not allowed against this resource."
    assert refused.value.response["Error"]["Message"] == sentence
