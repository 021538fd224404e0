"""CreateChannel, UpdateChannel, DeleteChannel, DescribeChannel, ListChannels: answers, states, quotas and refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headrace.services.kinesis.channel_orders import DEFAULT_TEMPLATE
from headrace.testing.clock import MovableClock
from tests.api.kinesis.channels.lab import ERRORS, ROLE, STREAM, STREAM_ARN, ChannelLab, request
from tests.api.kinesis.streams import arn_of, failure
from tests.support.clock import FakeClock
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

NOWHERE = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:channel/nowhere"


class TestCreation:
    def test_the_answer_says_creating_and_has_all_defaults(self, lab: ChannelLab):
        answer = lab.kinesis.create_channel(**request())["ChannelDescription"]
        channel_id = answer["ChannelId"]
        created = answer.pop("ChannelCreationTimestamp")
        (stream,) = answer.pop("StreamConfigurationList")
        assert answer == {
            "ChannelName": "c",
            "ChannelARN": f"arn:aws:kinesis:{REGION}:{ACCOUNT}:channel/{channel_id}",
            "ChannelId": channel_id,
            "ChannelStatus": "CREATING",
            "ServiceExecutionRoleARN": ROLE,
            "S3DestinationConfiguration": {
                "DataFreshnessInSeconds": 300,
                "DeadLetterQueueS3Configuration": {
                    "BucketARN": "arn:aws:s3:::lake",
                    "ExpectedBucketOwner": ACCOUNT,
                    "ErrorOutputPrefix": f"kinesis-channel/errors/c/{channel_id}/",
                },
                "StorageConfiguration": {
                    "BucketARN": "arn:aws:s3:::lake",
                    "ExpectedBucketOwner": ACCOUNT,
                    "OutputKeyTemplate": DEFAULT_TEMPLATE,
                    "StorageClass": "STANDARD",
                    "CompressionType": "NONE",
                },
            },
            "LoggingConfiguration": {
                "CloudWatchLogs": {
                    "Enabled": False,
                    "LogGroupName": f"/aws/kinesis/c/{channel_id}",
                    "LogStreamName": "DestinationDelivery",
                }
            },
        }
        assert stream.pop("StreamCreationTimestamp") <= created
        assert stream == {
            "StreamARN": STREAM_ARN,
            "RecordConfiguration": {"RecordFormatType": "JSON"},
        }
        shown = lab.described(answer["ChannelARN"])
        assert (shown["ChannelStatus"], shown["ChannelCreationTimestamp"]) == ("ACTIVE", created)

    def test_what_the_request_sets_is_kept(self, lab: ChannelLab):
        key = lab.cloud.client("kms").create_key()["KeyMetadata"]["KeyId"]
        given = request(
            kind="BYTE_ARRAY",
            stored={"StorageClass": "INTELLIGENT_TIERING", "OutputKeyTemplate": "a/!{mm}"},
            destination={
                "DataFreshnessInSeconds": 900,
                "DeadLetterQueueS3Configuration": {
                    "BucketARN": f"arn:aws:s3:::{ERRORS}",
                    "ExpectedBucketOwner": ACCOUNT,
                    "ErrorOutputPrefix": "e/",
                },
            },
            EncryptionConfiguration={"EncryptionType": "KMS", "KeyId": key},
            LoggingConfiguration={
                "CloudWatchLogs": {"Enabled": True, "LogGroupName": "g", "LogStreamName": "s"}
            },
            Tags={"team": "ops"},
        )
        arn = lab.kinesis.create_channel(**given)["ChannelDescription"]["ChannelARN"]
        shown = lab.described(arn)
        for member in (
            "S3DestinationConfiguration",
            "EncryptionConfiguration",
            "LoggingConfiguration",
        ):
            assert shown[member] == given[member]
        assert lab.kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"] == [
            {"Key": "team", "Value": "ops"}
        ]

    @pytest.mark.parametrize(
        ("change", "code", "words"),
        [
            ({"S3DestinationConfiguration": None}, "ValidationException", "but not both"),
            (
                {"destination": {"DataFreshnessInSeconds": 299}},
                "ValidationException",
                "between 300 and 900",
            ),
            (
                {"destination": {"DataFreshnessInSeconds": 901}},
                "ValidationException",
                "between 300 and 900",
            ),
            ({"kind": "GSR_JSON"}, "ValidationException", "streaming tables"),
            (
                {
                    "stored": {
                        "CompressionType": "GZIP",
                        "OutputKeyTemplate": "data/!{channel-name}",
                    }
                },
                "ValidationException",
                "extension placeholder",
            ),
            (
                {
                    "EncryptionConfiguration": {
                        "EncryptionType": "KMS",
                        "KeyId": "alias/aws/kinesis",
                    }
                },
                "ValidationException",
                "customer managed",
            ),
            (
                {"EncryptionConfiguration": {"EncryptionType": "KMS", "KeyId": "no-key"}},
                "KMSNotFoundException",
                "does not exist",
            ),
            ({"Tags": {"aws:a": "b"}}, "InvalidArgumentException", "reserved"),
            ({"ServiceExecutionRoleARN": "role"}, "ValidationException", "serviceExecutionRoleARN"),
        ],
    )
    def test_refusals(self, lab: ChannelLab, change: dict[str, Any], code: str, words: str):
        given = {k: v for k, v in request(**change).items() if v is not None}
        refusal = failure(lab.kinesis.create_channel, **given)
        assert (refusal.code, words in refusal.message) == (code, True), refusal.message
        assert lab.kinesis.list_channels()["ChannelSummaries"] == []

    def test_the_stream_must_be_there_and_on_demand(self, lab: ChannelLab):
        def refusal_for(name: str) -> Any:
            given = request()
            given["StreamConfigurationList"][0]["StreamARN"] = arn_of(name)
            return failure(lab.kinesis.create_channel, **given)

        assert refusal_for("nowhere").code == "ResourceNotFoundException"
        lab.kinesis.create_stream(StreamName="old", ShardCount=1)
        refusal = refusal_for("old")
        assert (refusal.code, "on-demand" in refusal.message) == ("ValidationException", True)
        lab.kinesis.start_stream_encryption(
            StreamName=STREAM, EncryptionType="KMS", KeyId="alias/aws/kinesis"
        )
        refusal = refusal_for(STREAM)
        assert (refusal.code, "aws/kinesis" in refusal.message) == ("ValidationException", True)

    def test_a_name_and_a_stream_have_one_channel(self, lab: ChannelLab):
        lab.channel()
        assert failure(lab.kinesis.create_channel, **request()).code == "ResourceInUseException"
        assert failure(lab.kinesis.create_channel, **request("d")).code == "LimitExceededException"

    @pytest.mark.parametrize(
        ("bucket", "owner", "words"),
        [
            ("nowhere", ACCOUNT, "does not exist"),
            ("lake", "111111111111", "is not owned by"),
            ("far", ACCOUNT, "is in eu-west-1"),
        ],
    )
    def test_a_wrong_bucket_makes_it_failed_for_ever(
        self, lab: ChannelLab, bucket: str, owner: str, words: str
    ):
        far = {"LocationConstraint": "eu-west-1"}
        s3 = lab.cloud.client("s3", region="eu-west-1")
        s3.create_bucket(Bucket="far", CreateBucketConfiguration=far)
        stored = {"BucketARN": f"arn:aws:s3:::{bucket}", "ExpectedBucketOwner": owner}
        arn = lab.channel(stored=stored)
        shown = lab.described(arn)
        assert shown["ChannelStatus"] == "FAILED"
        assert words in shown["ChannelStatusReason"]
        (summary,) = lab.kinesis.list_channels()["ChannelSummaries"]
        assert summary["ChannelStatusReason"] == shown["ChannelStatusReason"]
        change = {"S3DestinationConfiguration": {"DataFreshnessInSeconds": 600}}
        refusal = failure(lab.kinesis.update_channel, ChannelARN=arn, **change)
        assert refusal.code == "ResourceInUseException"
        lab.kinesis.delete_channel(ChannelARN=arn)
        assert (
            failure(lab.kinesis.describe_channel, ChannelARN=arn).code
            == "ResourceNotFoundException"
        )


class TestChanges:
    def test_freshness_and_logging_change_and_nothing_else(self, lab: ChannelLab):
        arn = lab.channel()
        before = lab.described(arn)
        answer = lab.kinesis.update_channel(
            ChannelARN=arn,
            S3DestinationConfiguration={"DataFreshnessInSeconds": 600},
            LoggingConfiguration={"CloudWatchLogs": {"Enabled": True, "LogStreamName": "mine"}},
        )["ChannelDescription"]
        assert answer["ChannelStatus"] == "UPDATING"
        before["S3DestinationConfiguration"]["DataFreshnessInSeconds"] = 600
        before["LoggingConfiguration"]["CloudWatchLogs"] |= {
            "Enabled": True,
            "LogStreamName": "mine",
        }
        assert lab.described(arn) == before

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({}, "ValidationException"),
            ({"S3DestinationConfiguration": {"DataFreshnessInSeconds": 1}}, "ValidationException"),
            (
                {"S3TablesDestinationConfiguration": {"DataFreshnessInSeconds": 300}},
                "ValidationException",
            ),
            (
                {
                    "ChannelARN": NOWHERE,
                    "S3DestinationConfiguration": {"DataFreshnessInSeconds": 300},
                },
                "ResourceNotFoundException",
            ),
        ],
    )
    def test_refusals(self, lab: ChannelLab, change: dict[str, Any], code: str):
        given = {"ChannelARN": lab.channel(), **change}
        assert failure(lab.kinesis.update_channel, **given).code == code

    def test_states_last_as_long_as_the_cloud_is_asked(self, tmp_path: Path):
        clock = MovableClock()
        with InProcessCloud(tmp_path / "data", clock=clock, state_delay_ms=60_000) as cloud:
            lab = ChannelLab(cloud, clock)
            lab.build()
            clock.advance(60)
            arn = lab.channel(stored={"BucketARN": "arn:aws:s3:::nowhere"})
            assert lab.described(arn)["ChannelStatus"] == "CREATING"
            assert "ChannelStatusReason" not in lab.described(arn)
            clock.advance(60)
            assert lab.described(arn)["ChannelStatus"] == "FAILED"
            lab.kinesis.delete_channel(ChannelARN=arn)
            lab.kinesis.delete_channel(ChannelARN=arn)
            assert lab.described(arn)["ChannelStatus"] == "DELETING"
            clock.advance(60)
            arn = lab.channel()
            clock.advance(60)
            freshness = {"DataFreshnessInSeconds": 600}
            lab.kinesis.update_channel(ChannelARN=arn, S3DestinationConfiguration=freshness)
            assert lab.described(arn)["ChannelStatus"] == "UPDATING"
            tags = failure(lab.kinesis.tag_resource, ResourceARN=arn, Tags={"a": "b"})
            assert tags.code == "ResourceInUseException"
            clock.advance(60)
            assert lab.described(arn)["ChannelStatus"] == "ACTIVE"

    def test_it_is_as_it_was_after_a_restart(self, tmp_path: Path):
        with InProcessCloud(tmp_path / "data", clock=MovableClock()) as cloud:
            lab = ChannelLab(cloud, MovableClock())
            lab.build()
            arn, shown = (made := lab.channel()), lab.described(made)
        with InProcessCloud(tmp_path / "data", clock=MovableClock()) as cloud:
            assert ChannelLab(cloud, MovableClock()).described(arn) == shown

    def test_a_clock_that_is_set_back_does_not_make_it_creating_again(self, tmp_path: Path):
        with InProcessCloud(tmp_path / "data", clock=FakeClock(2_000_000)) as cloud:
            lab = ChannelLab(cloud, MovableClock())
            lab.build()
            channel = lab.channel()
            queue = lab.kinesis.create_queue(
                QueueName="q", StreamConfigurationList=[{"StreamARN": STREAM_ARN}]
            )["QueueDescription"]["QueueARN"]
        with InProcessCloud(tmp_path / "data", clock=FakeClock(1_000_000)) as cloud:
            kinesis = cloud.client("kinesis")
            shown = kinesis.describe_channel(ChannelARN=channel)["ChannelDescription"]
            assert shown["ChannelStatus"] == "ACTIVE"
            shown = kinesis.describe_queue(QueueARN=queue)["QueueDescription"]
            assert shown["QueueStatus"] == "ACTIVE"

    def test_tags_change_and_policies_are_refused(self, lab: ChannelLab):
        arn = lab.channel()
        lab.kinesis.tag_resource(ResourceARN=arn, Tags={"a": "b", "c": "d"})
        lab.kinesis.untag_resource(ResourceARN=arn, TagKeys=["a"])
        tags = lab.kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"]
        assert tags == [{"Key": "c", "Value": "d"}]
        for call, more in (
            (lab.kinesis.put_resource_policy, {"Policy": "{}"}),
            (lab.kinesis.get_resource_policy, {}),
            (lab.kinesis.delete_resource_policy, {}),
        ):
            assert failure(call, ResourceARN=arn, **more).code == "InvalidArgumentException"


class TestStreams:
    def test_a_stream_with_a_channel_is_neither_deleted_nor_provisioned(self, lab: ChannelLab):
        arn = lab.channel()
        for refusal in (
            failure(lab.kinesis.delete_stream, StreamName=STREAM, EnforceConsumerDeletion=True),
            failure(
                lab.kinesis.update_stream_mode,
                StreamARN=STREAM_ARN,
                StreamModeDetails={"StreamMode": "PROVISIONED"},
            ),
        ):
            assert (refusal.code, "channels" in refusal.message) == ("ResourceInUseException", True)
        lab.kinesis.delete_channel(ChannelARN=arn)
        lab.kinesis.delete_stream(StreamName=STREAM)

    def test_channels_are_counted(self, lab: ChannelLab):
        lab.channel()
        summary = lab.kinesis.describe_stream_summary(StreamName=STREAM)
        assert summary["StreamDescriptionSummary"]["ChannelCount"] == 1
        limits = lab.kinesis.describe_limits()
        assert (limits["ChannelCount"], limits["ChannelCountLimit"]) == (1, 100)

    def test_a_deleted_channel_s_stream_can_have_another_one(self, lab: ChannelLab):
        lab.kinesis.delete_channel(ChannelARN=lab.channel(kind="STRING"))
        lab.put(b"between")
        lab.channel(kind="STRING")
        lab.put(b"after")
        lab.deliver()
        assert lab.bodies() == [b"after"]

    def test_they_are_listed_by_page_and_by_stream(self, lab: ChannelLab):
        for name in ("x", "y", "z"):
            lab.kinesis.create_stream(
                StreamName=name, StreamModeDetails={"StreamMode": "ON_DEMAND"}
            )
            given = request(name)
            given["StreamConfigurationList"][0]["StreamARN"] = arn_of(name)
            lab.kinesis.create_channel(**given)
        names: list[str] = []
        token: dict[str, str] = {}
        while True:
            page = lab.kinesis.list_channels(MaxResults=2, **token)
            names += [one["ChannelName"] for one in page["ChannelSummaries"]]
            if "NextToken" not in page:
                break
            token = {"NextToken": page["NextToken"]}
        assert names == ["x", "y", "z"]
        (one,) = lab.kinesis.list_channels(StreamFilter=[{"StreamARN": arn_of("y")}])[
            "ChannelSummaries"
        ]
        assert (one["ChannelName"], one["ChannelDestinationType"]) == ("y", "S3")
        assert one["Streams"][0]["StreamARN"] == arn_of("y")
        assert failure(lab.kinesis.list_channels, NextToken="x").code == "InvalidArgumentException"


def test_an_unknown_channel_is_not_found(lab: ChannelLab):
    for call in (lab.kinesis.describe_channel, lab.kinesis.delete_channel):
        refusal = failure(call, ChannelARN=NOWHERE)
        assert refusal.code == "ResourceNotFoundException"
        assert re.search("channel/nowhere", refusal.message)
