"""CreateBucket, HeadBucket, DeleteBucket, ListBuckets, GetBucketLocation."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab, error_of

# --- serialization ------------------------------------------------------------------------------


def test_location_is_empty_in_us_east_1_and_the_region_elsewhere(lab: S3Lab, s3: Any):
    ireland = lab.client(region="eu-west-1")
    ireland.create_bucket(
        Bucket="in-ireland", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    assert s3.get_bucket_location(Bucket=BUCKET)["LocationConstraint"] is None
    assert s3.get_bucket_location(Bucket="in-ireland")["LocationConstraint"] == "eu-west-1"
    assert s3.head_bucket(Bucket="in-ireland")["BucketRegion"] == "eu-west-1"


def test_list_buckets_is_sorted_and_paged(s3: Any):
    for name in ("zebra", "aardvark"):
        s3.create_bucket(Bucket=name)
    first = s3.list_buckets(MaxBuckets=2)
    assert [bucket["Name"] for bucket in first["Buckets"]] == ["aardvark", BUCKET]
    second = s3.list_buckets(ContinuationToken=first["ContinuationToken"])
    assert [bucket["Name"] for bucket in second["Buckets"]] == ["zebra"]
    assert "ContinuationToken" not in second


# --- validation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["ab", "a" * 64, "Upper", "under_score", "-dash", "dash-", "a..b", "a.-b", "10.0.0.1", "xn--a"],
)
def test_names_that_s3_refuses_are_invalid(s3: Any, name: str):
    with pytest.raises(ClientError) as raised:
        s3.create_bucket(Bucket=name)
    assert error_of(raised) == ("InvalidBucketName", 400)


def test_a_region_that_is_none_is_answered_with_the_right_one(lab: S3Lab, s3: Any):
    """s3cmd signs the creation of a bucket with `US`; it and botocore sign again with the region of the answer."""
    lab.client(region="US").create_bucket(Bucket="of-s3cmd")
    assert s3.head_bucket(Bucket="of-s3cmd")["BucketRegion"] == "us-east-1"


def test_a_constraint_must_fit_the_endpoint(lab: S3Lab):
    for region, constraint in (("eu-west-1", "eu-central-1"), ("eu-west-1", None)):
        given = {"CreateBucketConfiguration": {"LocationConstraint": constraint}}
        with pytest.raises(ClientError) as raised:
            lab.client(region=region).create_bucket(Bucket="any", **(given if constraint else {}))
        assert error_of(raised) == ("IllegalLocationConstraintException", 400)
    with pytest.raises(ClientError) as raised:
        lab.client().create_bucket(
            Bucket="any", CreateBucketConfiguration={"LocationConstraint": "us-east-1"}
        )
    assert error_of(raised) == ("InvalidLocationConstraint", 400)


@pytest.mark.parametrize(
    "operation", ["list_objects_v2", "list_objects", "get_bucket_location", "delete_bucket"]
)
def test_a_missing_bucket_is_no_such_bucket(s3: Any, operation: str):
    with pytest.raises(ClientError) as raised:
        getattr(s3, operation)(Bucket="nowhere")
    assert error_of(raised) == ("NoSuchBucket", 404)


def test_head_of_a_missing_bucket_is_a_bare_404(lab: S3Lab, s3: Any):
    with pytest.raises(ClientError) as raised:
        s3.head_bucket(Bucket="nowhere")
    assert error_of(raised) == ("404", 404)
    assert lab.request("HEAD", "/nowhere").body == b""


# --- behaviour ----------------------------------------------------------------------------------


def test_making_ones_own_bucket_again_is_no_error_in_us_east_1_only(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="kept", Body=b"1")
    s3.create_bucket(Bucket=BUCKET)
    assert s3.get_object(Bucket=BUCKET, Key="kept")["Body"].read() == b"1"
    ireland = lab.client(region="eu-west-1")
    configuration = {"LocationConstraint": "eu-west-1"}
    ireland.create_bucket(Bucket="in-ireland", CreateBucketConfiguration=configuration)
    with pytest.raises(ClientError) as raised:
        ireland.create_bucket(Bucket="in-ireland", CreateBucketConfiguration=configuration)
    assert error_of(raised) == ("BucketAlreadyOwnedByYou", 409)


def test_names_are_global_to_all_accounts(lab: S3Lab, s3: Any):
    other = lab.client(account="111111111111")
    with pytest.raises(ClientError) as raised:
        other.create_bucket(Bucket=BUCKET)
    assert error_of(raised) == ("BucketAlreadyExists", 409)
    assert other.list_buckets()["Buckets"] == []


def test_a_bucket_with_objects_is_not_deleted(s3: Any):
    s3.put_object(Bucket=BUCKET, Key="a/b", Body=b"")
    with pytest.raises(ClientError) as raised:
        s3.delete_bucket(Bucket=BUCKET)
    assert error_of(raised) == ("BucketNotEmpty", 409)
    s3.delete_object(Bucket=BUCKET, Key="a/b")
    s3.delete_bucket(Bucket=BUCKET)
    assert s3.list_buckets()["Buckets"] == []


def test_nothing_of_a_deleted_bucket_comes_back(lab: S3Lab, s3: Any):
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="big")
    (lab.folder(BUCKET) / "left-by-spark").mkdir()
    s3.delete_bucket(Bucket=BUCKET)
    lab.restart()
    s3.create_bucket(Bucket=BUCKET)
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)
    with pytest.raises(ClientError) as raised:
        s3.list_parts(Bucket=BUCKET, Key="big", UploadId=upload["UploadId"])
    assert error_of(raised) == ("NoSuchUpload", 404)


def test_buckets_survive_a_restart(lab: S3Lab, s3: Any):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", Metadata={"m": "v"}, ContentType="text/plain")
    lab.restart()
    got = s3.get_object(Bucket=BUCKET, Key="k")
    assert (got["Metadata"], got["ContentType"]) == ({"m": "v"}, "text/plain")
    assert s3.list_buckets()["Buckets"][0]["Name"] == BUCKET


@pytest.mark.parametrize("count", [0, -(2**63), 10_001])
def test_a_count_of_buckets_out_of_range_is_refused(lab: S3Lab, count: int):
    with pytest.raises(ClientError) as raised:
        lab.client().list_buckets(MaxBuckets=count)
    assert error_of(raised) == ("InvalidArgument", 400)


def test_a_default_encryption_of_no_algorithm_is_refused(s3: Any):
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "rot13"}}
    with pytest.raises(ClientError) as raised:
        s3.put_bucket_encryption(Bucket=BUCKET, ServerSideEncryptionConfiguration={"Rules": [rule]})
    assert error_of(raised) == ("MalformedXML", 400)
    s3.put_object(Bucket=BUCKET, Key="k")
