"""Lifecycle rules act when the clock says so. Sources: `headrace.services.s3.lifecycle`."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.s3.lifecycle import Sweeper
from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab

DAY_S = 24 * 3600


def rules(s3: Any, **members: Any) -> None:
    rule = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, **members}
    s3.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [rule]})


def pass_days(lab: S3Lab, days: float) -> None:
    lab.clock.advance(days * DAY_S)
    Sweeper(lab.s3, lab.clock).step()


def versioning(s3: Any) -> None:
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})


def listed(s3: Any) -> tuple[list[str], list[str]]:
    """Return the keys of versions, and of delete markers."""
    found = s3.list_object_versions(Bucket=BUCKET)
    return tuple(  # pyright: ignore[reportReturnType]
        [entry["Key"] for entry in found.get(name, ())] for name in ("Versions", "DeleteMarkers")
    )


@pytest.mark.parametrize(
    ("given", "gone"),
    [
        ({"Prefix": "tmp/"}, {"tmp/a"}),
        ({"Tag": {"Key": "keep", "Value": "no"}}, {"tagged"}),
        ({"ObjectSizeGreaterThan": 5}, {"large"}),
        ({"And": {"Prefix": "tmp/", "ObjectSizeLessThan": 100}}, {"tmp/a"}),
    ],
)
def test_objects_expire_at_the_midnight_after_their_days(
    s3: Any, lab: S3Lab, given: dict[str, Any], gone: set[str]
):
    keys = {"tmp/a", "tagged", "large", "other"}
    for key in sorted(keys):
        tags = "keep=no" if key == "tagged" else ""
        body = b"x" * (10 if key == "large" else 1)
        s3.put_object(Bucket=BUCKET, Key=key, Body=body, Tagging=tags)
    rules(s3, Filter=given, Expiration={"Days": 1})
    pass_days(lab, 0.9)
    assert listed(s3)[0] == sorted(keys)
    pass_days(lab, 1.1)
    assert set(listed(s3)[0]) == keys - gone


def test_answers_tell_when_and_by_which_rule(s3: Any):
    rules(s3, Expiration={"Days": 1})
    put = s3.put_object(Bucket=BUCKET, Key="k", Body=b"x")
    # 2023-11-14 22:13:20 and one day, rounded up to midnight.
    expected = 'expiry-date="Thu, 16 Nov 2023 00:00:00 GMT", rule-id="r"'
    assert put["Expiration"] == s3.head_object(Bucket=BUCKET, Key="k")["Expiration"] == expected


def test_expiration_marks_versions_and_noncurrent_ones_go_with_the_lone_marker(s3: Any, lab: S3Lab):
    versioning(s3)
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"x")
    rules(s3, Expiration={"Days": 1}, NoncurrentVersionExpiration={"NoncurrentDays": 1})
    pass_days(lab, 2)
    assert listed(s3) == (["k"], ["k"])
    pass_days(lab, 3)
    assert listed(s3) == ([], ["k"])
    rules(s3, Expiration={"ExpiredObjectDeleteMarker": True})
    pass_days(lab, 0)
    assert listed(s3) == ([], [])


def test_a_locked_version_does_not_expire(lab: S3Lab):
    s3 = lab.client()
    s3.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
    for _ in range(2):
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"x", ObjectLockLegalHoldStatus="ON")
    rules(s3, NoncurrentVersionExpiration={"NoncurrentDays": 1})
    pass_days(lab, 5)
    assert listed(s3)[0] == ["k", "k"]


def test_unfinished_uploads_are_aborted(s3: Any, lab: S3Lab):
    s3.create_multipart_upload(Bucket=BUCKET, Key="k")
    rules(s3, AbortIncompleteMultipartUpload={"DaysAfterInitiation": 2})
    pass_days(lab, 1)
    assert len(s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]) == 1
    pass_days(lab, 2)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=BUCKET)


def test_a_large_object_changes_its_class_and_is_read_after_a_restoration(s3: Any, lab: S3Lab):
    s3.put_object(Bucket=BUCKET, Key="large", Body=b"x" * 200_000)
    s3.put_object(Bucket=BUCKET, Key="small", Body=b"x")
    rules(s3, Transitions=[{"Days": 1, "StorageClass": "GLACIER"}])
    pass_days(lab, 2)
    assert s3.head_object(Bucket=BUCKET, Key="large")["StorageClass"] == "GLACIER"
    assert "StorageClass" not in s3.head_object(Bucket=BUCKET, Key="small")
    with pytest.raises(s3.exceptions.InvalidObjectState):
        s3.get_object(Bucket=BUCKET, Key="large")
    s3.restore_object(Bucket=BUCKET, Key="large", RestoreRequest={"Days": 1})
    assert s3.get_object(Bucket=BUCKET, Key="large")["Body"].read() == b"x" * 200_000


def test_disabled_rules_do_nothing(s3: Any, lab: S3Lab):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"x")
    rules(s3, Status="Disabled", Expiration={"Days": 1})
    pass_days(lab, 9)
    assert listed(s3)[0] == ["k"]
