"""AWS::S3::Bucket: what its properties make of the bucket."""

from __future__ import annotations

import json
from typing import Any

from tests.api.cloudformation.test_stacks import create, template, update
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until


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


def test_the_notification_configuration_acts_and_goes_with_its_property(
    cloud: InProcessCloud, cfn: Any
):
    s3, sqs = cloud.client("s3"), cloud.client("sqs")
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    one = {
        "Event": "s3:ObjectCreated:*",
        "Queue": "arn:aws:sqs:us-east-1:000000000000:q",
        "Filter": {"S3Key": {"Rules": [{"Name": "prefix", "Value": "in/"}]}},
    }
    wanted = {"QueueConfigurations": [one], "EventBridgeConfiguration": {}}
    properties = {"BucketName": "told", "NotificationConfiguration": wanted}
    made = create(cfn, template(B={"Type": "AWS::S3::Bucket", "Properties": properties}))
    assert made == "CREATE_COMPLETE"
    found = s3.get_bucket_notification_configuration(Bucket="told")
    assert found["EventBridgeConfiguration"] == {}
    for key in ("out/k", "in/k"):
        s3.put_object(Bucket="told", Key=key, Body=b"")
    keys: list[str] = []

    def heard() -> bool:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages", []
        ):
            records = json.loads(message["Body"]).get("Records", [])
            keys.extend(record["s3"]["object"]["key"] for record in records)
        return bool(keys)

    wait_until(heard, what="the event of the object")
    assert keys == ["in/k"]
    bare = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "told"}}
    assert update(cfn, template(B=bare)) == "UPDATE_COMPLETE"
    found = s3.get_bucket_notification_configuration(Bucket="told")
    assert "QueueConfigurations" not in found
