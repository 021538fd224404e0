"""CopyObject."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of, files_under

SOURCE = {"Bucket": BUCKET, "Key": "from here/ü+%"}


@pytest.fixture(autouse=True)
def source(s3: Any) -> Any:
    return s3.put_object(
        **SOURCE, Body=b"data", ContentType="text/csv", Metadata={"m": "1"}, Tagging="t=1"
    )


# --- serialization ------------------------------------------------------------------------------


def test_a_copy_has_bytes_headers_metadata_and_tags_of_its_source(s3: Any, source: Any):
    answer = s3.copy_object(Bucket=BUCKET, Key="to", CopySource=SOURCE)
    assert answer["CopyObjectResult"]["ETag"] == source["ETag"]
    got = s3.get_object(Bucket=BUCKET, Key="to", ChecksumMode="ENABLED")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"], got["TagCount"]) == (
        b"data",
        "text/csv",
        {"m": "1"},
        1,
    )
    assert got["ChecksumCRC32"] == source["ChecksumCRC32"]


def test_a_copy_gets_the_checksum_that_is_asked_for(s3: Any):
    answer = s3.copy_object(Bucket=BUCKET, Key="to", CopySource=SOURCE, ChecksumAlgorithm="SHA256")
    assert answer["CopyObjectResult"]["ChecksumSHA256"]


# --- validation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "code", "status"),
    [
        ({"CopySource": {"Bucket": "nowhere", "Key": "k"}}, "NoSuchBucket", 404),
        ({"CopySource": {"Bucket": BUCKET, "Key": "none"}}, "NoSuchKey", 404),
        ({"CopySource": BUCKET}, "InvalidArgument", 400),
        ({"CopySource": f"{BUCKET}/from%20here/%C3%BC%2B%25?versionId=x"}, "InvalidArgument", 400),
        ({"CopySource": f"{BUCKET}/{'k' * 1025}"}, "KeyTooLongError", 400),
        ({"CopySource": SOURCE, "Key": "k" * 1025}, "KeyTooLongError", 400),
        ({"CopySource": SOURCE, "Bucket": "nowhere"}, "NoSuchBucket", 404),
        ({"CopySource": SOURCE, "Key": SOURCE["Key"]}, "InvalidRequest", 400),
        ({"CopySource": SOURCE, "CopySourceIfMatch": "other"}, "PreconditionFailed", 412),
    ],
)
def test_what_cannot_be_copied_is_refused(lab: S3Lab, s3: Any, given, code: str, status: int):
    before = files_under(lab.data_dir / "s3")
    with pytest.raises(ClientError) as raised:
        s3.copy_object(**{"Bucket": BUCKET, "Key": "to", **given})
    assert error_of(raised) == (code, status)
    assert files_under(lab.data_dir / "s3") == before


# --- behaviour ----------------------------------------------------------------------------------


def test_metadata_and_tags_are_replaced_when_asked(s3: Any):
    s3.copy_object(
        **SOURCE,
        CopySource=SOURCE,
        MetadataDirective="REPLACE",
        Metadata={"n": "2"},
        ContentType="text/plain",
        TaggingDirective="REPLACE",
        Tagging="u=2",
    )
    got = s3.get_object(**SOURCE)
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (
        b"data",
        "text/plain",
        {"n": "2"},
    )
    assert s3.get_object_tagging(**SOURCE)["TagSet"] == [{"Key": "u", "Value": "2"}]


def test_conditions_on_the_source_hold(s3: Any, source: Any):
    etag = source["ETag"]
    modified = s3.head_object(**SOURCE)["LastModified"]
    earlier, later = modified - timedelta(hours=1), modified + timedelta(hours=1)

    def copied(**conditions: Any) -> bool:
        try:
            s3.copy_object(Bucket=BUCKET, Key="to", CopySource=SOURCE, **conditions)
        except ClientError as error:
            assert error.response["Error"]["Code"] == "PreconditionFailed"  # noqa: PT017
            return False
        return True

    assert copied(CopySourceIfMatch=etag)
    assert not copied(CopySourceIfNoneMatch=etag)
    assert copied(CopySourceIfNoneMatch="other")
    assert copied(CopySourceIfModifiedSince=earlier)
    assert not copied(CopySourceIfModifiedSince=modified)
    assert copied(CopySourceIfModifiedSince=later)  # a time to come asks for nothing
    assert copied(CopySourceIfUnmodifiedSince=later)
    assert not copied(CopySourceIfUnmodifiedSince=earlier)
    assert copied(CopySourceIfMatch=etag, CopySourceIfUnmodifiedSince=earlier)


def test_the_target_may_have_to_be_new(s3: Any):
    s3.copy_object(Bucket=BUCKET, Key="to", CopySource=SOURCE, IfNoneMatch="*")
    with pytest.raises(ClientError) as raised:
        s3.copy_object(Bucket=BUCKET, Key="to", CopySource=SOURCE, IfNoneMatch="*")
    assert error_of(raised) == ("PreconditionFailed", 412)
