"""Streams, stream consumers and their policies in stacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.cloudformation.test_stacks import create, physical, stream, template, update
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

ARN = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/flights"


@pytest.fixture
def kinesis(cloud: InProcessCloud) -> Any:
    return cloud.client("kinesis")


def consumer(name: str = "radar", **properties: Any) -> dict[str, Any]:
    arn = {"Fn::GetAtt": ["Stream", "Arn"]}
    return {
        "Type": "AWS::Kinesis::StreamConsumer",
        "Properties": {"ConsumerName": name, "StreamARN": arn, **properties},
    }


def policy(resource: Any, action: str) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": "111122223333"},
        "Action": action,
        "Resource": resource,
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return {
        "Type": "AWS::Kinesis::ResourcePolicy",
        "Properties": {"ResourceArn": resource, "ResourcePolicy": document},
    }


def users_tags(kinesis: Any, arn: str) -> list[dict[str, str]]:
    found = kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"]
    return [tag for tag in found if not tag["Key"].startswith("aws:")]


def test_a_consumer_is_made_changed_replaced_and_deleted(cfn: Any, kinesis: Any):
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    body = template(Stream=stream("flights"), Consumer=consumer(Tags=tags))
    body["Outputs"] = {
        name: {"Value": {"Fn::GetAtt": ["Consumer", name]}}
        for name in (
            "ConsumerARN",
            "ConsumerName",
            "ConsumerStatus",
            "ConsumerCreationTimestamp",
            "StreamARN",
        )
    }
    assert create(cfn, body) == "CREATE_COMPLETE"
    arn = physical(cfn, "Consumer")
    found = {
        output["OutputKey"]: output["OutputValue"]
        for output in cfn.describe_stacks(StackName="s")["Stacks"][0]["Outputs"]
    }
    created = arn.rpartition(":")[2]
    assert found == {
        "ConsumerARN": arn,
        "ConsumerName": "radar",
        "ConsumerStatus": "ACTIVE",
        "ConsumerCreationTimestamp": created,
        "StreamARN": ARN,
    }
    assert users_tags(kinesis, arn) == tags

    changed = template(Stream=stream("flights"), Consumer=consumer(Tags=tags[:1]))
    assert update(cfn, changed) == "UPDATE_COMPLETE"
    assert physical(cfn, "Consumer") == arn
    assert users_tags(kinesis, arn) == tags[:1]

    replaced = template(Stream=stream("flights"), Consumer=consumer("sonar"))
    assert update(cfn, replaced) == "UPDATE_COMPLETE"
    listed = kinesis.list_stream_consumers(StreamARN=ARN)["Consumers"]
    assert [found["ConsumerName"] for found in listed] == ["sonar"]

    assert update(cfn, template(Stream=stream("flights"))) == "UPDATE_COMPLETE"
    assert kinesis.list_stream_consumers(StreamARN=ARN)["Consumers"] == []


def test_a_consumer_that_is_gone_already_is_no_obstacle(cfn: Any, kinesis: Any):
    body = template(Stream=stream("flights"), Consumer=consumer())
    assert create(cfn, body) == "CREATE_COMPLETE"
    kinesis.deregister_stream_consumer(ConsumerARN=physical(cfn, "Consumer"))
    assert update(cfn, template(Stream=stream("flights"))) == "UPDATE_COMPLETE"


def test_a_stack_waits_until_its_consumer_is_active(cfn: Any, cloud: InProcessCloud):
    cloud.cloud.kinesis.consumers.creating_ms = 300
    body = template(
        Stream=stream("flights"),
        Consumer=consumer(),
        Policy=policy({"Ref": "Consumer"}, "kinesis:SubscribeToShard"),
    )
    assert create(cfn, body) == "CREATE_COMPLETE"


def test_policies_of_a_stream_and_of_its_consumer(cfn: Any, kinesis: Any):
    resources = {
        "Stream": stream("flights"),
        "Consumer": consumer(),
        "StreamPolicy": policy({"Fn::GetAtt": ["Stream", "Arn"]}, "kinesis:GetRecords"),
        "ConsumerPolicy": policy({"Ref": "Consumer"}, "kinesis:SubscribeToShard"),
    }
    assert create(cfn, template(**resources)) == "CREATE_COMPLETE"
    arn = physical(cfn, "Consumer")
    assert physical(cfn, "ConsumerPolicy") == arn
    for resource, action in ((ARN, "kinesis:GetRecords"), (arn, "kinesis:SubscribeToShard")):
        text = kinesis.get_resource_policy(ResourceARN=resource)["Policy"]
        assert json.loads(text)["Statement"][0]["Action"] == action

    resources["StreamPolicy"] = policy({"Fn::GetAtt": ["Stream", "Arn"]}, "kinesis:PutRecords")
    del resources["ConsumerPolicy"]
    assert update(cfn, template(**resources)) == "UPDATE_COMPLETE"
    text = kinesis.get_resource_policy(ResourceARN=ARN)["Policy"]
    assert json.loads(text)["Statement"][0]["Action"] == "kinesis:PutRecords"
    # What a consumer without a policy is answered with.
    assert kinesis.get_resource_policy(ResourceARN=arn)["Policy"] == "{}"


def test_a_bad_policy_fails_the_stack_and_leaves_nothing(cfn: Any, kinesis: Any):
    resources = {"Stream": stream("flights"), "Policy": policy("x", "s3:GetObject")}
    resources["Policy"]["Properties"]["ResourceArn"] = {"Fn::GetAtt": ["Stream", "Arn"]}
    assert create(cfn, template(**resources)) == "ROLLBACK_COMPLETE"
    assert kinesis.list_streams()["StreamNames"] == []


def test_a_stream_takes_larger_records_after_an_update(cfn: Any, kinesis: Any):
    def size() -> int:
        summary = kinesis.describe_stream_summary(StreamName="flights")
        return int(summary["StreamDescriptionSummary"]["MaxRecordSizeInKiB"])

    assert create(cfn, template(Stream=stream("flights"))) == "CREATE_COMPLETE"
    larger = template(Stream=stream("flights", MaxRecordSizeInKiB=4096))
    assert update(cfn, larger) == "UPDATE_COMPLETE"
    assert size() == 4096
    assert update(cfn, template(Stream=stream("flights"))) == "UPDATE_COMPLETE"
    assert size() == 1024


def test_a_stream_has_a_warm_throughput(cfn: Any, kinesis: Any):
    kinesis.update_account_settings(MinimumThroughputBillingCommitment={"Status": "ENABLED"})

    def warm(mibps: int) -> dict[str, Any]:
        properties = {
            "Name": "flights",
            "StreamModeDetails": {"StreamMode": "ON_DEMAND"},
            "WarmThroughputMiBps": mibps,
        }
        return template(Stream={"Type": "AWS::Kinesis::Stream", "Properties": properties})

    def target() -> int:
        summary = kinesis.describe_stream_summary(StreamName="flights")
        return int(summary["StreamDescriptionSummary"]["WarmThroughput"]["TargetMiBps"])

    assert create(cfn, warm(5)) == "CREATE_COMPLETE"
    assert target() == 5
    assert update(cfn, warm(6)) == "UPDATE_COMPLETE"
    assert target() == 6


def test_a_stream_spreads_its_records_in_the_mode_that_may(cfn: Any, kinesis: Any):
    def body(mode: str, **more: Any) -> dict[str, Any]:
        properties = {"Name": "flights", "StreamModeDetails": {"StreamMode": mode}, **more}
        return template(Stream={"Type": "AWS::Kinesis::Stream", "Properties": properties})

    def strategy() -> str:
        summary = kinesis.describe_stream_summary(StreamName="flights")
        return str(summary["StreamDescriptionSummary"].get("RecordDistributionStrategy"))

    spread = {"RecordDistributionStrategy": "AUTO"}
    assert create(cfn, body("ON_DEMAND", **spread)) == "CREATE_COMPLETE"
    assert strategy() == "AUTO"
    assert update(cfn, body("PROVISIONED", ShardCount=4)) == "UPDATE_COMPLETE"
    assert strategy() != "AUTO"
    assert update(cfn, body("ON_DEMAND", **spread)) == "UPDATE_COMPLETE"
    assert strategy() == "AUTO"
    refused = body("PROVISIONED", ShardCount=1, **spread)
    refused["Resources"]["Stream"]["Properties"]["Name"] = "other"
    assert create(cfn, refused, "other") == "ROLLBACK_COMPLETE"


def test_a_stack_waits_for_streams_that_take_their_time(data_dir: Path):
    settings = {"RetentionPeriodHours": 48, "DesiredShardLevelMetrics": ["IncomingBytes"]}
    key = {"StreamEncryption": {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}}
    with InProcessCloud(data_dir, state_delay_ms=200) as cloud:
        cfn, kinesis = cloud.client("cloudformation"), cloud.client("kinesis")
        body = template(Stream=stream("flights", **settings, **key), Consumer=consumer())
        assert create(cfn, body) == "CREATE_COMPLETE"
        changed = stream("flights", MaxRecordSizeInKiB=2048, RetentionPeriodHours=24)
        changed["Properties"]["ShardCount"] = 2
        body = template(Stream=changed, Consumer=consumer())
        assert update(cfn, body) == "UPDATE_COMPLETE"
        summary = kinesis.describe_stream_summary(StreamName="flights")["StreamDescriptionSummary"]
        assert summary["OpenShardCount"] == 2
        assert summary["RetentionPeriodHours"] == 24
        assert (summary["MaxRecordSizeInKiB"], summary["EncryptionType"]) == (2048, "NONE")
        cfn.delete_stack(StackName="s")
        wait_until(lambda: not kinesis.list_streams()["StreamNames"], what="the deletion")


def test_a_throughput_that_a_provisioned_stream_cannot_have_is_taken_back(cfn: Any):
    assert create(cfn, template(S=stream("cool")), "cool") == "CREATE_COMPLETE"
    warm = template(S=stream("cool", WarmThroughputMiBps=1))
    assert update(cfn, warm, "cool") == "UPDATE_ROLLBACK_COMPLETE"


def queue(name: str = "jobs", **properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::Kinesis::Queue",
        "Properties": {
            "QueueName": name,
            "StreamConfigurationList": [
                {
                    "StreamARN": {"Fn::GetAtt": ["Stream", "Arn"]},
                    "StartingPosition": {"Type": "AT_TIMESTAMP", "Timestamp": "1600000000"},
                }
            ],
            **properties,
        },
    }


def on_demand() -> dict[str, Any]:
    mode = {"StreamModeDetails": {"StreamMode": "ON_DEMAND"}}
    return {"Type": "AWS::Kinesis::Stream", "Properties": {"Name": "flights", **mode}}


def test_a_queue_is_made_changed_replaced_and_deleted(cfn: Any, kinesis: Any):
    attributes = {
        "VisibilityTimeoutSeconds": "5",
        "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": "2"},
    }
    tags = [{"Key": "a", "Value": "1"}]
    body = template(Stream=on_demand(), Queue=queue(QueueAttributes=attributes, Tags=tags))
    body["Outputs"] = {
        "Ref": {"Value": {"Ref": "Queue"}},
        "Arn": {"Value": {"Fn::GetAtt": ["Queue", "QueueARN"]}},
    }
    assert create(cfn, body) == "CREATE_COMPLETE"
    arn = physical(cfn, "Queue")
    outputs = cfn.describe_stacks(StackName="s")["Stacks"][0]["Outputs"]
    assert {output["OutputValue"] for output in outputs} == {arn}
    found = kinesis.describe_queue(QueueARN=arn)["QueueDescription"]
    (configuration,) = found["StreamConfigurationList"]
    assert configuration["StartingPosition"]["Type"] == "AT_TIMESTAMP"
    assert found["QueueAttributes"] == {
        "VisibilityTimeoutSeconds": 5,
        "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 2},
    }
    assert users_tags(kinesis, arn) == [{"Key": "a", "Value": "1"}]
    body["Resources"]["Queue"] = queue(Tags=[{"Key": "b", "Value": "2"}])
    assert update(cfn, body) == "UPDATE_COMPLETE"
    assert physical(cfn, "Queue") == arn
    found = kinesis.describe_queue(QueueARN=arn)["QueueDescription"]
    assert found["QueueAttributes"] == {
        "VisibilityTimeoutSeconds": 30,
        "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 6},
    }
    assert users_tags(kinesis, arn) == [{"Key": "b", "Value": "2"}]
    body["Resources"]["Queue"] = queue("other")
    assert update(cfn, body) == "UPDATE_COMPLETE"
    assert physical(cfn, "Queue") != arn
    cfn.delete_stack(StackName="s")
    wait_until(lambda: not kinesis.list_streams()["StreamNames"])
    assert kinesis.list_queues()["QueueSummaries"] == []


def channel(
    name: str = "archive", freshness: int | str = "600", **properties: Any
) -> dict[str, Any]:
    storage = {
        "BucketARN": {"Fn::GetAtt": ["Lake", "Arn"]},
        "ExpectedBucketOwner": {"Ref": "AWS::AccountId"},
        "CompressionType": properties.pop("compression", "GZIP"),
    }
    return {
        "Type": "AWS::Kinesis::Channel",
        "Properties": {
            "ChannelName": name,
            "ServiceExecutionRoleARN": "arn:aws:iam::000000000000:role/delivery",
            "StreamConfigurationList": [
                {
                    "StreamARN": {"Fn::GetAtt": ["Stream", "Arn"]},
                    "RecordConfiguration": {"RecordFormatType": "STRING"},
                }
            ],
            "S3DestinationConfiguration": {
                "DataFreshnessInSeconds": freshness,
                "StorageConfiguration": storage,
            },
            **properties,
        },
    }


def test_a_channel_is_made_changed_replaced_and_deleted(cfn: Any, kinesis: Any):
    lake = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "lake"}}
    tags = [{"Key": "a", "Value": "1"}]
    body = template(Stream=on_demand(), Lake=lake, Channel=channel(Tags=tags))
    body["Outputs"] = {
        "Ref": {"Value": {"Ref": "Channel"}},
        "Arn": {"Value": {"Fn::GetAtt": ["Channel", "ChannelARN"]}},
    }
    assert create(cfn, body) == "CREATE_COMPLETE"
    arn = physical(cfn, "Channel")
    outputs = cfn.describe_stacks(StackName="s")["Stacks"][0]["Outputs"]
    assert {output["OutputValue"] for output in outputs} == {arn}

    def described() -> dict[str, Any]:
        return kinesis.describe_channel(ChannelARN=physical(cfn, "Channel"))["ChannelDescription"]

    assert described()["S3DestinationConfiguration"]["DataFreshnessInSeconds"] == 600
    assert users_tags(kinesis, arn) == tags
    logs = {"CloudWatchLogs": {"Enabled": "true", "LogGroupName": "g"}}
    body["Resources"]["Channel"] = channel(freshness=300, LoggingConfiguration=logs)
    assert update(cfn, body) == "UPDATE_COMPLETE"
    assert physical(cfn, "Channel") == arn
    assert described()["S3DestinationConfiguration"]["DataFreshnessInSeconds"] == 300
    assert described()["LoggingConfiguration"]["CloudWatchLogs"]["LogGroupName"] == "g"
    assert users_tags(kinesis, arn) == []
    # A stream has one channel to a bucket: the replacement needs another stream.
    body["Resources"]["Other"] = {**on_demand()}
    body["Resources"]["Other"]["Properties"] = {
        **body["Resources"]["Other"]["Properties"],
        "Name": "others",
    }
    moved = channel("moved", freshness=300, compression="ZSTD")
    moved["Properties"]["StreamConfigurationList"][0]["StreamARN"] = {
        "Fn::GetAtt": ["Other", "Arn"]
    }
    body["Resources"]["Channel"] = moved
    assert update(cfn, body) == "UPDATE_COMPLETE"
    assert physical(cfn, "Channel") != arn
    cfn.delete_stack(StackName="s")
    wait_until(lambda: not kinesis.list_streams()["StreamNames"])
    assert kinesis.list_channels()["ChannelSummaries"] == []


def test_a_channel_without_its_bucket_fails_the_stack_with_the_reason(cfn: Any):
    broken = channel()
    storage = broken["Properties"]["S3DestinationConfiguration"]["StorageConfiguration"]
    storage["BucketARN"] = "arn:aws:s3:::nowhere"
    body = template(Stream=on_demand(), Channel=broken)
    assert create(cfn, body) == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    reasons = " ".join(event.get("ResourceStatusReason", "") for event in events)
    assert "The bucket nowhere does not exist." in reasons
