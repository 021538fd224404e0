"""CreateStream."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.kinesis.streams import (
    NOT_FOUND,
    Streams,
    arn_of,
    covers_all_hash_keys,
    failure,
    ranges,
)
from tests.support.cloud import ACCOUNT, InProcessCloud


class TestSerialization:
    @pytest.mark.parametrize(
        ("member", "value"), [("StreamName", 7), ("ShardCount", "two"), ("Tags", "x")]
    )
    def test_a_member_of_the_wrong_type(self, streams: Streams, member: str, value: Any):
        body = {"StreamName": "flights", "ShardCount": 1, member: value}
        status, answer = streams.raw("CreateStream", body)
        assert (status, answer["__type"]) == (400, "SerializationException")

    def test_a_body_that_is_no_json(self, streams: Streams):
        status, answer = streams.raw("CreateStream", b'{"StreamName":')
        assert (status, answer["__type"]) == (400, "SerializationException")

    def test_members_that_aws_does_not_know_are_dropped(self, streams: Streams):
        body = {"StreamName": "flights", "ShardCount": 1, "Colour": "red"}
        assert streams.raw("CreateStream", body) == (200, {})


class TestValidation:
    def test_no_name(self, kinesis: Any):
        error = failure(kinesis.create_stream, ShardCount=1)
        assert error.code == "ValidationException"
        assert error.message == (
            "1 validation error detected: Value null at 'streamName' failed to satisfy constraint:"
            " Member must not be null"
        )

    def test_a_name_with_other_letters_and_a_count_below_one(self, kinesis: Any):
        error = failure(kinesis.create_stream, StreamName="a b", ShardCount=0)
        assert error.code == "ValidationException"
        assert error.message.startswith("2 validation errors detected: Value 'a b' at 'streamName'")

    def test_a_name_of_129_letters(self, kinesis: Any):
        error = failure(kinesis.create_stream, StreamName="a" * 129, ShardCount=1)
        assert "Member must have length less than or equal to 128" in error.message

    def test_a_provisioned_stream_needs_a_count_and_an_on_demand_one_has_none(self, kinesis: Any):
        error = failure(
            kinesis.create_stream,
            StreamName="a",
            StreamModeDetails={"StreamMode": "PROVISIONED"},
        )
        assert error.code == "InvalidArgumentException"
        error = failure(
            kinesis.create_stream,
            StreamName="a",
            ShardCount=2,
            StreamModeDetails={"StreamMode": "ON_DEMAND"},
        )
        assert error.code == "InvalidArgumentException"

    def test_reserved_tags(self, kinesis: Any):
        error = failure(kinesis.create_stream, StreamName="a", ShardCount=1, Tags={"aws:x": "1"})
        assert error.code == "InvalidArgumentException"


class TestBehaviour:
    # observed: localstack/localstack, tests/aws/services/kinesis/test_kinesis.snapshot.json,
    # test_create_stream_without_shard_count, recorded from AWS in August 2022
    def test_a_name_alone_makes_four_shards(self, streams: Streams, kinesis: Any):
        kinesis.create_stream(StreamName="flights")
        shards = streams.shards()
        assert [shard["ShardId"] for shard in shards] == [
            f"shardId-{number:012d}" for number in range(4)
        ]
        assert covers_all_hash_keys(shards)
        assert all("EndingSequenceNumber" not in s["SequenceNumberRange"] for s in shards)

    def test_shards_divide_the_hash_keys_as_on_aws(self, streams: Streams):
        streams.create(shards=3)
        third = (1 << 128) // 3
        assert ranges(streams.shards()) == [
            (0, third - 1),
            (third, 2 * third - 1),
            (2 * third, (1 << 128) - 1),
        ]
        assert covers_all_hash_keys(streams.shards())
        assert [shard["ShardId"] for shard in streams.shards()] == [
            f"shardId-00000000000{i}" for i in range(3)
        ]

    def test_on_demand_streams_have_four_shards(self, streams: Streams, kinesis: Any):
        kinesis.create_stream(StreamName="d", StreamModeDetails={"StreamMode": "ON_DEMAND"})
        assert len(streams.shards("d")) == 4

    def test_a_second_one_of_the_name_is_refused(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(kinesis.create_stream, StreamName="flights", ShardCount=1)
        assert error.code == "ResourceInUseException"
        assert error.message == f"Stream flights under account {ACCOUNT} already exists."

    def test_accounts_and_regions_are_apart(self, streams: Streams, cloud: InProcessCloud):
        streams.create()
        elsewhere = cloud.client("kinesis", region="eu-west-1")
        other = cloud.client("kinesis", account="111111111111")
        assert elsewhere.list_streams()["StreamNames"] == []
        assert failure(other.describe_stream, StreamName="flights").message == (
            "Stream flights under account 111111111111 not found."
        )

    def test_the_shard_quota(self, kinesis: Any):
        error = failure(kinesis.create_stream, StreamName="a", ShardCount=501)
        assert error.code == "LimitExceededException"
        assert failure(kinesis.describe_stream, StreamName="nowhere").message == NOT_FOUND

    def test_tags_are_kept(self, kinesis: Any):
        kinesis.create_stream(StreamName="t", ShardCount=1, Tags={"team": "a"})
        tags = kinesis.list_tags_for_resource(ResourceARN=arn_of("t"))["Tags"]
        assert tags == [{"Key": "team", "Value": "a"}]
