"""DescribeStream and DescribeStreamSummary."""

from __future__ import annotations

from typing import Any

from tests.api.kinesis.streams import NOT_FOUND, Streams, arn_of, failure


class TestSerialization:
    def test_a_limit_that_is_no_number(self, streams: Streams):
        streams.create()
        status, answer = streams.raw("DescribeStream", {"StreamName": "flights", "Limit": "1"})
        assert (status, answer["__type"]) == (400, "SerializationException")
        assert answer["Message"] == "STRING_VALUE can not be converted to an Integer"

    def test_times_are_seconds_since_1970(self, streams: Streams):
        streams.create()
        _, answer = streams.raw("DescribeStreamSummary", {"StreamName": "flights"})
        at = answer["StreamDescriptionSummary"]["StreamCreationTimestamp"]
        assert at == streams.clock.now_ms() // 1000


class TestValidation:
    def test_a_limit_above_10000(self, kinesis: Any):
        error = failure(kinesis.describe_stream, StreamName="flights", Limit=10_001)
        assert error.message == (
            "1 validation error detected: Value '10001' at 'limit' failed to satisfy constraint:"
            " Member must have value less than or equal to 10000"
        )

    def test_a_missing_stream(self, kinesis: Any):
        for call in (kinesis.describe_stream, kinesis.describe_stream_summary):
            error = failure(call, StreamName="nowhere")
            assert (error.code, error.message) == ("ResourceNotFoundException", NOT_FOUND)


class TestBehaviour:
    def test_a_stream_by_name_and_by_arn(self, streams: Streams, kinesis: Any):
        streams.create(shards=2)
        by_name = kinesis.describe_stream(StreamName="flights")["StreamDescription"]
        by_arn = kinesis.describe_stream(StreamARN=arn_of("flights"))["StreamDescription"]
        assert by_name == by_arn
        assert by_name["StreamStatus"] == "ACTIVE"
        assert by_name["StreamARN"] == arn_of("flights")
        assert by_name["RetentionPeriodHours"] == 24
        assert by_name["EncryptionType"] == "NONE"
        assert by_name["EnhancedMonitoring"] == [{"ShardLevelMetrics": []}]
        assert by_name["HasMoreShards"] is False

    def test_pages_of_shards(self, streams: Streams, kinesis: Any):
        streams.create(shards=5)
        pages = kinesis.get_paginator("describe_stream").paginate(
            StreamName="flights", PaginationConfig={"PageSize": 2}
        )
        found = [[s["ShardId"] for s in page["StreamDescription"]["Shards"]] for page in pages]
        assert [len(page) for page in found] == [2, 2, 1]
        assert len({shard for page in found for shard in page}) == 5

    def test_the_summary_counts_open_shards(self, streams: Streams, kinesis: Any):
        streams.create(shards=2)
        first, second = [shard["ShardId"] for shard in streams.shards()]
        kinesis.merge_shards(StreamName="flights", ShardToMerge=first, AdjacentShardToMerge=second)
        summary = kinesis.describe_stream_summary(StreamName="flights")["StreamDescriptionSummary"]
        assert (summary["OpenShardCount"], summary["ConsumerCount"]) == (1, 0)

    def test_a_closed_shard_has_an_ending_number_above_its_records(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        [record] = streams.put("a")
        kinesis.split_shard(
            StreamName="flights",
            ShardToSplit="shardId-000000000000",
            NewStartingHashKey=str(1 << 127),
        )
        parent, *children = kinesis.describe_stream(StreamName="flights")["StreamDescription"][
            "Shards"
        ]
        numbers = parent["SequenceNumberRange"]
        assert int(numbers["StartingSequenceNumber"]) < int(record["SequenceNumber"])
        assert int(record["SequenceNumber"]) < int(numbers["EndingSequenceNumber"])
        for child in children:
            assert "EndingSequenceNumber" not in child["SequenceNumberRange"]
            assert child["ParentShardId"] == parent["ShardId"]
            start = int(child["SequenceNumberRange"]["StartingSequenceNumber"])
            assert start > int(numbers["EndingSequenceNumber"])
