"""GetShardIterator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.api.kinesis.streams import Streams, failure
from tests.support.cloud import ACCOUNT

SHARD = "shardId-000000000000"


class TestSerialization:
    def test_a_time_that_is_none(self, streams: Streams):
        streams.create()
        body = {
            "StreamName": "flights",
            "ShardId": SHARD,
            "ShardIteratorType": "AT_TIMESTAMP",
            "Timestamp": True,
        }
        status, answer = streams.raw("GetShardIterator", body)
        assert (status, answer["__type"]) == (400, "SerializationException")


class TestValidation:
    def test_a_type_that_is_none(self, kinesis: Any):
        error = failure(
            kinesis.get_shard_iterator,
            StreamName="flights",
            ShardId=SHARD,
            ShardIteratorType="NEWEST",
        )
        assert error.code == "ValidationException"
        assert "Member must satisfy enum value set: [" in error.message

    def test_a_missing_stream_and_a_missing_shard(self, streams: Streams, kinesis: Any):
        ask = {"ShardId": "shardId-000000000009", "ShardIteratorType": "LATEST"}
        streams.create()
        for name in ("nowhere", "flights"):
            error = failure(kinesis.get_shard_iterator, StreamName=name, **ask)
            assert (error.code, error.message) == (
                "ResourceNotFoundException",
                f"Shard shardId-000000000009 in stream {name} under account {ACCOUNT} does not exist",
            )

    @pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
    def test_a_type_that_needs_a_number(self, streams: Streams, kind: str):
        streams.create()
        assert failure(streams.iterator, kind=kind).code == "InvalidArgumentException"

    @pytest.mark.parametrize("kind", ["TRIM_HORIZON", "LATEST"])
    def test_a_type_that_takes_no_number(self, streams: Streams, kind: str):
        streams.create()
        [record] = streams.put("a")
        number = record["SequenceNumber"]
        error = failure(streams.iterator, kind=kind, StartingSequenceNumber=number)
        assert error.message.endswith(
            f"Request specified {kind} and also a StartingSequenceNumber."
        )

    def test_numbers_that_are_none_or_another_shards(self, streams: Streams):
        streams.create(shards=2)
        [record] = streams.put("a")
        other = "shardId-000000000000"
        if record["ShardId"] == other:
            other = "shardId-000000000001"
        for number in ("5", "0", "9" * 56, record["SequenceNumber"]):
            error = failure(
                streams.iterator,
                kind="AT_SEQUENCE_NUMBER",
                shard=other,
                StartingSequenceNumber=number,
            )
            assert error.code == "InvalidArgumentException"

    def test_times_missing_and_in_the_future(self, streams: Streams):
        streams.create()
        assert failure(streams.iterator, kind="AT_TIMESTAMP").code == "InvalidArgumentException"
        later = datetime.fromtimestamp(streams.clock.now_ms() / 1000 + 1, UTC)
        error = failure(streams.iterator, kind="AT_TIMESTAMP", Timestamp=later)
        assert error.message.startswith(
            "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis."
        )


class TestBehaviour:
    @pytest.fixture
    def numbers(self, streams: Streams) -> list[str]:
        streams.create()
        found: list[str] = []
        for text in "abc":
            found.append(streams.put(text)[0]["SequenceNumber"])
            streams.clock.advance(10)
        return found

    def test_all_five_types(self, streams: Streams, numbers: list[str]):
        second = datetime.fromtimestamp(streams.clock.now_ms() / 1000 - 20, UTC)
        assert streams.texts("TRIM_HORIZON") == ["a", "b", "c"]
        assert streams.texts("LATEST") == []
        at = {"StartingSequenceNumber": numbers[1]}
        assert streams.texts("AT_SEQUENCE_NUMBER", **at) == ["b", "c"]
        assert streams.texts("AFTER_SEQUENCE_NUMBER", **at) == ["c"]
        assert streams.texts("AT_TIMESTAMP", Timestamp=second) == ["b", "c"]

    # observed: localstack's test of Kinesis with surrounding quotes, validated against AWS
    def test_an_iterator_may_stand_in_quotes(
        self, streams: Streams, kinesis: Any, numbers: list[str]
    ):
        iterator = streams.iterator("TRIM_HORIZON")
        got = kinesis.get_records(ShardIterator=f'"{iterator}"')["Records"]
        assert [record["Data"] for record in got] == [b"a", b"b", b"c"]

    def test_latest_is_fixed_when_it_is_asked_for(
        self, streams: Streams, kinesis: Any, numbers: list[str]
    ):
        iterator = streams.iterator("LATEST")
        streams.put("d")
        got = kinesis.get_records(ShardIterator=iterator)["Records"]
        assert [record["Data"] for record in got] == [b"d"]

    def test_a_time_before_the_stream_is_its_beginning(self, streams: Streams, numbers: list[str]):
        assert streams.texts("AT_TIMESTAMP", Timestamp=datetime(2000, 1, 1, tzinfo=UTC)) == [
            "a",
            "b",
            "c",
        ]

    def test_the_shards_own_first_and_last_numbers(
        self, streams: Streams, kinesis: Any, numbers: list[str]
    ):
        kinesis.split_shard(
            StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey=str(1 << 127)
        )
        shard = streams.shards()[0]["SequenceNumberRange"]
        first, last = shard["StartingSequenceNumber"], shard["EndingSequenceNumber"]
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
            assert streams.texts(kind, StartingSequenceNumber=first) == ["a", "b", "c"]
            assert streams.texts(kind, StartingSequenceNumber=last) == []

    def test_after_a_number_that_is_still_to_come_nothing_is_skipped(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        numbers = [int(record["SequenceNumber"]) for record in streams.put("a", "b")]
        ahead = str(numbers[1] + 5 * (numbers[1] - numbers[0]))
        iterator = streams.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=ahead)
        streams.put("c")
        got = kinesis.get_records(ShardIterator=iterator)["Records"]
        assert [record["Data"] for record in got] == [b"c"]

    def test_a_shard_may_be_named_by_its_number_alone(self, streams: Streams, numbers: list[str]):
        assert streams.texts(shard="0") == ["a", "b", "c"]
