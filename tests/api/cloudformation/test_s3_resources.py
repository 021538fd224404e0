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
    bridge = {"EventBridgeEnabled": True}
    wanted = {"QueueConfigurations": [one], "EventBridgeConfiguration": bridge}
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


def test_lifecycle_rules_have_the_apis_form(cloud: InProcessCloud, cfn: Any):
    rules = [
        {
            "Id": "all",
            "Status": "Enabled",
            "Prefix": "p/",
            "TagFilters": [{"Key": "k", "Value": "v"}],
            "ExpirationInDays": "30",
            "Transitions": [{"StorageClass": "GLACIER", "TransitionInDays": 10}],
            "NoncurrentVersionTransitions": [{"StorageClass": "GLACIER", "TransitionInDays": 90}],
            "NoncurrentVersionExpiration": {"NoncurrentDays": 100, "NewerNoncurrentVersions": "3"},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": "7"},
        },
        # What the AWS Solutions Constructs give every bucket.
        {
            "Status": "Enabled",
            "NoncurrentVersionTransitions": [{"StorageClass": "GLACIER", "TransitionInDays": 90}],
        },
    ]
    properties = {"BucketName": "aged", "LifecycleConfiguration": {"Rules": rules}}
    made = create(cfn, template(B={"Type": "AWS::S3::Bucket", "Properties": properties}))
    assert made == "CREATE_COMPLETE"
    found = cloud.client("s3").get_bucket_lifecycle_configuration(Bucket="aged")["Rules"]
    assert found[0] == {
        "ID": "all",
        "Status": "Enabled",
        "Filter": {"And": {"Prefix": "p/", "Tags": [{"Key": "k", "Value": "v"}]}},
        "Expiration": {"Days": 30},
        "Transitions": [{"Days": 10, "StorageClass": "GLACIER"}],
        "NoncurrentVersionTransitions": [{"NoncurrentDays": 90, "StorageClass": "GLACIER"}],
        "NoncurrentVersionExpiration": {"NoncurrentDays": 100, "NewerNoncurrentVersions": 3},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
    }
    assert found[1]["NoncurrentVersionTransitions"] == [
        {"NoncurrentDays": 90, "StorageClass": "GLACIER"}
    ]


def test_a_buckets_other_settings_are_kept_where_the_api_shows_them(
    cloud: InProcessCloud, cfn: Any
):
    properties = {
        "BucketName": "set",
        "OwnershipControls": {"Rules": [{"ObjectOwnership": "ObjectWriter"}]},
        "AccessControl": "LogDeliveryWrite",
        "LoggingConfiguration": {"LogFilePrefix": "log/"},
        "WebsiteConfiguration": {"IndexDocument": "index.html", "ErrorDocument": "error.html"},
        "AccelerateConfiguration": {"AccelerationStatus": "Enabled"},
        "MetricsConfigurations": [{"Id": "m", "Prefix": "p"}],
        "ObjectLockEnabled": "true",
        "ObjectLockConfiguration": {
            "ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": "1"}},
        },
    }
    made = create(cfn, template(B={"Type": "AWS::S3::Bucket", "Properties": properties}))
    assert made == "CREATE_COMPLETE"
    s3 = cloud.client("s3")
    assert s3.get_bucket_logging(Bucket="set")["LoggingEnabled"] == {
        "TargetBucket": "set",
        "TargetPrefix": "log/",
    }
    assert s3.get_bucket_website(Bucket="set")["IndexDocument"] == {"Suffix": "index.html"}
    assert s3.get_bucket_accelerate_configuration(Bucket="set")["Status"] == "Enabled"
    metrics = s3.get_bucket_metrics_configuration(Bucket="set", Id="m")["MetricsConfiguration"]
    assert metrics == {"Id": "m", "Filter": {"Prefix": "p"}}
    locked = s3.get_object_lock_configuration(Bucket="set")["ObjectLockConfiguration"]
    assert locked["Rule"] == {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    assert len(s3.get_bucket_acl(Bucket="set")["Grants"]) == 3
