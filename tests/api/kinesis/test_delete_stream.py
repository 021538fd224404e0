"""DeleteStream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.api.kinesis.streams import NOT_FOUND, Streams, arn_of, failure
from tests.support.cloud import ACCOUNT


class TestSerialization:
    def test_a_name_that_is_no_text(self, streams: Streams):
        status, answer = streams.raw("DeleteStream", {"StreamName": ["a"]})
        assert (status, answer["__type"]) == (400, "SerializationException")
        assert answer["Message"] == "Start of list found where not expected"


class TestValidation:
    def test_neither_name_nor_arn(self, kinesis: Any):
        assert failure(kinesis.delete_stream).code == "InvalidArgumentException"

    def test_name_and_arn_of_different_streams(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(kinesis.delete_stream, StreamName="flights", StreamARN=arn_of("other"))
        assert error.code == "InvalidArgumentException"
        assert streams.shards()


class TestBehaviour:
    def test_a_missing_stream(self, kinesis: Any):
        error = failure(kinesis.delete_stream, StreamName="nowhere")
        assert (error.code, error.message) == ("ResourceNotFoundException", NOT_FOUND)

    def test_the_stream_its_records_and_its_files_are_gone(
        self, streams: Streams, kinesis: Any, data_dir: Path
    ):
        streams.create()
        streams.put("a")
        iterator = streams.iterator()
        kinesis.delete_stream(StreamARN=arn_of("flights"))
        assert kinesis.list_streams()["StreamNames"] == []
        assert list((data_dir / "streams").iterdir()) == []
        error = failure(kinesis.get_records, ShardIterator=iterator)
        assert error.code == "ResourceNotFoundException"

    def test_a_stream_made_again_is_empty_and_read_from_its_start_by_old_iterators(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        [old] = streams.put("old")
        iterator = streams.iterator()
        kinesis.delete_stream(StreamName="flights")
        streams.clock.advance(5)
        error = failure(kinesis.get_records, ShardIterator=iterator)
        assert (error.code, error.message) == (
            "ResourceNotFoundException",
            f"Shard shardId-000000000000 in stream flights under account {ACCOUNT} does not exist",
        )
        streams.create()
        streams.put("new")
        assert streams.texts() == ["new"]
        # Source: kinesalite (observed).
        [record] = kinesis.get_records(ShardIterator=iterator)["Records"]
        assert record["Data"] == b"new"
        error = failure(
            kinesis.get_shard_iterator,
            StreamName="flights",
            ShardId="shardId-000000000000",
            ShardIteratorType="AFTER_SEQUENCE_NUMBER",
            StartingSequenceNumber=old["SequenceNumber"],
        )
        assert error.code == "InvalidArgumentException"
        assert error.message.endswith("is invalid because it did not come from this stream.")
