"""AWS::S3::Bucket: what its properties make of the bucket."""

from __future__ import annotations

from typing import Any

from tests.api.cloudformation.test_stacks import create, template, update
from tests.support.cloud import InProcessCloud


def test_versioning_acts_and_is_suspended_when_it_leaves_the_template(
    cloud: InProcessCloud, cfn: Any
):
    s3 = cloud.client("s3")
    properties = {"BucketName": "kept", "VersioningConfiguration": {"Status": "Enabled"}}
    made = create(cfn, template(B={"Type": "AWS::S3::Bucket", "Properties": properties}))
    assert made == "CREATE_COMPLETE"
    first = s3.put_object(Bucket="kept", Key="k", Body=b"one")["VersionId"]
    s3.put_object(Bucket="kept", Key="k", Body=b"two")
    assert s3.get_object(Bucket="kept", Key="k", VersionId=first)["Body"].read() == b"one"
    bare = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "kept"}}
    assert update(cfn, template(B=bare)) == "UPDATE_COMPLETE"
    assert s3.get_bucket_versioning(Bucket="kept")["Status"] == "Suspended"
