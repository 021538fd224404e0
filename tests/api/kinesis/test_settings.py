"""Tags, retention, encryption, monitoring, mode and limits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.kinesis.streams import NOT_FOUND, Streams, arn_of, failure
from tests.support.cloud import ACCOUNT, InProcessCloud


class TestSerialization:
    @pytest.mark.parametrize(
        ("operation", "body"),
        [
            ("AddTagsToStream", {"Tags": ["a"]}),
            ("RemoveTagsFromStream", {"TagKeys": "a"}),
            ("TagResource", {"Tags": {"a": 1}}),
            ("IncreaseStreamRetentionPeriod", {"RetentionPeriodHours": "48"}),
            ("StartStreamEncryption", {"KeyId": 5}),
            ("UpdateStreamMode", {"StreamModeDetails": "ON_DEMAND"}),
        ],
    )
    def test_members_of_the_wrong_type(self, streams: Streams, operation: str, body: Any):
        status, answer = streams.raw(operation, {"StreamName": "flights", **body})
        assert (status, answer["__type"]) == (400, "SerializationException")


class TestValidation:
    def test_missing_streams(self, kinesis: Any):
        for call, params in (
            (kinesis.add_tags_to_stream, {"Tags": {"a": "b"}}),
            (kinesis.remove_tags_from_stream, {"TagKeys": ["a"]}),
            (kinesis.list_tags_for_stream, {}),
            (kinesis.increase_stream_retention_period, {"RetentionPeriodHours": 48}),
            (
                kinesis.start_stream_encryption,
                {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"},
            ),
            (kinesis.enable_enhanced_monitoring, {"ShardLevelMetrics": ["ALL"]}),
        ):
            error = failure(call, StreamName="nowhere", **params)
            assert (error.code, error.message) == ("ResourceNotFoundException", NOT_FOUND)

    def test_more_than_fifty_tags(self, streams: Streams, kinesis: Any):
        streams.create()
        kinesis.add_tags_to_stream(StreamName="flights", Tags={f"k{i}": "v" for i in range(50)})
        error = failure(kinesis.add_tags_to_stream, StreamName="flights", Tags={"one": "more"})
        assert error.code == "InvalidArgumentException"
        assert error.message == (
            f"Failed to add tags to stream flights under account {ACCOUNT} because a given stream cannot have"
            " more than 50 tags associated with it."
        )

    @pytest.mark.parametrize("tags", [{"a;b": "1"}, {"a": "1#"}, {"aWs:x": "1"}, {"a\tb": "1"}])
    def test_letters_that_tags_may_not_have(
        self, streams: Streams, kinesis: Any, tags: dict[str, str]
    ):
        streams.create()
        for call, where in (
            (kinesis.add_tags_to_stream, {"StreamName": "flights"}),
            (kinesis.tag_resource, {"ResourceARN": arn_of("flights")}),
        ):
            assert failure(call, **where, Tags=tags).code == "InvalidArgumentException"
        kinesis.add_tags_to_stream(StreamName="flights", Tags={"Größe é_.:/=+-@ 1": "ключ"})

    # Source: kinesalite (observed).
    def test_a_percent_sign_is_named_and_refused(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(kinesis.add_tags_to_stream, StreamName="flights", Tags={"a": "b%"})
        assert error.message == (
            f"Failed to add tags to stream flights under account {ACCOUNT} because some tags contained illegal"
            " characters. The allowed characters are Unicode letters, white-spaces,"
            " '_',',','/','=','+','-','@'."
        )

    # The first sentence's form: observed (kinesalite, moto); the second's number: documented (8,760 hours).
    @pytest.mark.parametrize(
        ("hours", "sentence"),
        [
            (
                23,
                "Minimum allowed retention period is 24 hours. Requested retention period (23 hours) is too short.",
            ),
            (
                8761,
                "Maximum allowed retention period is 8760 hours. Requested retention period (8761 hours) is too long.",
            ),
        ],
    )
    def test_retention_out_of_range(
        self, streams: Streams, kinesis: Any, hours: int, sentence: str
    ):
        streams.create()
        for call in (
            kinesis.increase_stream_retention_period,
            kinesis.decrease_stream_retention_period,
        ):
            error = failure(call, StreamName="flights", RetentionPeriodHours=hours)
            assert (error.code, error.message) == ("InvalidArgumentException", sentence)


class TestBehaviour:
    def test_tags_by_stream(self, streams: Streams, kinesis: Any):
        streams.create()
        kinesis.add_tags_to_stream(StreamName="flights", Tags={"b": "1", "a": "2", "c": "3"})
        kinesis.add_tags_to_stream(StreamName="flights", Tags={"b": "4"})
        kinesis.remove_tags_from_stream(StreamName="flights", TagKeys=["c", "absent"])
        page = kinesis.list_tags_for_stream(StreamName="flights", Limit=1)
        assert (page["Tags"], page["HasMoreTags"]) == ([{"Key": "a", "Value": "2"}], True)
        page = kinesis.list_tags_for_stream(StreamName="flights", ExclusiveStartTagKey="a")
        assert (page["Tags"], page["HasMoreTags"]) == ([{"Key": "b", "Value": "4"}], False)

    def test_tags_by_arn(self, streams: Streams, kinesis: Any):
        streams.create()
        arn = arn_of("flights")
        kinesis.tag_resource(ResourceARN=arn, Tags={"a": "1", "b": "2"})
        kinesis.untag_resource(ResourceARN=arn, TagKeys=["a"])
        assert kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"] == [
            {"Key": "b", "Value": "2"}
        ]
        error = failure(kinesis.list_tags_for_resource, ResourceARN=arn_of("nowhere"))
        assert error.code == "ResourceNotFoundException"

    def test_retention_goes_up_and_down_by_its_own_operations(self, streams: Streams, kinesis: Any):
        streams.create()
        kinesis.increase_stream_retention_period(StreamName="flights", RetentionPeriodHours=48)
        error = failure(
            kinesis.increase_stream_retention_period, StreamName="flights", RetentionPeriodHours=24
        )
        assert error.code == "InvalidArgumentException"
        kinesis.decrease_stream_retention_period(StreamName="flights", RetentionPeriodHours=24)
        summary = kinesis.describe_stream_summary(StreamName="flights")
        assert summary["StreamDescriptionSummary"]["RetentionPeriodHours"] == 24

    def test_encryption_is_kept_and_shown(self, streams: Streams, kinesis: Any):
        streams.create()
        key = {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}
        kinesis.start_stream_encryption(StreamName="flights", **key)
        summary = kinesis.describe_stream_summary(StreamName="flights")["StreamDescriptionSummary"]
        assert (summary["EncryptionType"], summary["KeyId"]) == ("KMS", "alias/aws/kinesis")
        kinesis.stop_stream_encryption(StreamName="flights", **key)
        summary = kinesis.describe_stream_summary(StreamName="flights")["StreamDescriptionSummary"]
        assert summary["EncryptionType"] == "NONE"
        assert "KeyId" not in summary

    def test_monitoring_is_kept_and_shown(self, streams: Streams, kinesis: Any):
        streams.create()
        wanted = {"StreamName": "flights", "ShardLevelMetrics": ["IncomingBytes", "OutgoingBytes"]}
        kinesis.enable_enhanced_monitoring(**wanted)
        answer = kinesis.disable_enhanced_monitoring(
            StreamName="flights", ShardLevelMetrics=["IncomingBytes"]
        )
        assert answer["CurrentShardLevelMetrics"] == ["IncomingBytes", "OutgoingBytes"]
        assert answer["DesiredShardLevelMetrics"] == ["OutgoingBytes"]

    def test_the_mode_changes_and_on_demand_streams_refuse_a_shard_count(
        self, streams: Streams, kinesis: Any
    ):
        streams.create(shards=2)
        kinesis.update_stream_mode(
            StreamARN=arn_of("flights"), StreamModeDetails={"StreamMode": "ON_DEMAND"}
        )
        error = failure(
            kinesis.update_shard_count,
            StreamName="flights",
            TargetShardCount=4,
            ScalingType="UNIFORM_SCALING",
        )
        assert error.code == "ValidationException"
        limits = kinesis.describe_limits()
        assert (limits["OpenShardCount"], limits["OnDemandStreamCount"]) == (0, 1)

    def test_an_operation_that_botocore_does_not_know_is_named(
        self, streams: Streams, caplog: pytest.LogCaptureFixture
    ):
        status, answer = streams.raw("ListTeapots", {})
        assert (status, answer["__type"]) == (400, "UnknownOperationException")
        said = "headrace does not implement kinesis:ListTeapots: botocore "
        assert answer["message"].startswith(said)
        assert said in caplog.text

    def test_settings_outlast_a_restart(
        self, streams: Streams, kinesis: Any, cloud: InProcessCloud
    ):
        streams.create(shards=2)
        kinesis.add_tags_to_stream(StreamName="flights", Tags={"a": "1"})
        kinesis.increase_stream_retention_period(StreamName="flights", RetentionPeriodHours=72)
        kinesis.update_shard_count(
            StreamName="flights", TargetShardCount=3, ScalingType="UNIFORM_SCALING"
        )
        before = kinesis.describe_stream(StreamName="flights")["StreamDescription"]
        cloud.stop()
        with InProcessCloud(cloud.cloud.config.data_dir, clock=streams.clock) as again:
            client = again.client("kinesis")
            after = client.describe_stream(StreamName="flights")["StreamDescription"]
            tags = client.list_tags_for_stream(StreamName="flights")["Tags"]
        assert after == before
        assert tags == [{"Key": "a", "Value": "1"}]
