"""ListShards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.api.kinesis.streams import NOT_FOUND, Streams, failure


class TestSerialization:
    def test_a_filter_that_is_no_structure(self, streams: Streams):
        streams.create()
        body = {"StreamName": "flights", "ShardFilter": "AT_LATEST"}
        status, answer = streams.raw("ListShards", body)
        assert (status, answer["__type"]) == (400, "SerializationException")


class TestValidation:
    def test_a_filter_of_no_known_type(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(kinesis.list_shards, StreamName="flights", ShardFilter={"Type": "ALL"})
        assert error.code == "ValidationException"
        assert "at 'shardFilter.type' failed to satisfy constraint" in error.message

    def test_a_missing_stream(self, kinesis: Any):
        assert failure(kinesis.list_shards, StreamName="nowhere").message == NOT_FOUND

    def test_filters_without_what_they_need(self, streams: Streams, kinesis: Any):
        streams.create()
        for kind in ("AFTER_SHARD_ID", "AT_TIMESTAMP", "FROM_TIMESTAMP"):
            error = failure(kinesis.list_shards, StreamName="flights", ShardFilter={"Type": kind})
            assert error.code == "InvalidArgumentException"

    def test_tokens(self, streams: Streams, kinesis: Any):
        streams.create(shards=3)
        token = kinesis.list_shards(StreamName="flights", MaxResults=2)["NextToken"]
        error = failure(kinesis.list_shards, StreamName="flights", NextToken=token)
        assert error.message == "NextToken and StreamName cannot be provided together."
        for bad in ("x", "bm9uc2Vuc2U=", token[:-8]):
            code = failure(kinesis.list_shards, NextToken=bad).code
            assert code == "InvalidArgumentException"
        streams.clock.advance(301)
        assert failure(kinesis.list_shards, NextToken=token).code == "ExpiredNextTokenException"


class TestBehaviour:
    def test_pages(self, streams: Streams, kinesis: Any):
        streams.create(shards=5)
        # As on AWS, where boto3's own paginator fails: it sends the stream's name with the token.
        page = kinesis.list_shards(StreamName="flights", MaxResults=2)
        found = [[shard["ShardId"][-1] for shard in page["Shards"]]]
        while "NextToken" in page:
            page = kinesis.list_shards(NextToken=page["NextToken"], MaxResults=2)
            found.append([shard["ShardId"][-1] for shard in page["Shards"]])
        assert found == [["0", "1"], ["2", "3"], ["4"]]

    @pytest.fixture
    def split(self, streams: Streams, kinesis: Any) -> dict[str, datetime]:
        """A shard that was split an hour after the stream was made, and an hour ago."""
        times = {"created": _now(streams)}
        streams.create()
        streams.clock.advance(3600)
        kinesis.split_shard(
            StreamName="flights",
            ShardToSplit="shardId-000000000000",
            NewStartingHashKey=str(1 << 127),
        )
        times["split"] = _now(streams)
        streams.clock.advance(3600)
        return times

    @pytest.mark.parametrize(
        ("shard_filter", "ids"),
        [
            ({"Type": "AT_LATEST"}, "12"),
            ({"Type": "AT_TRIM_HORIZON"}, "0"),
            ({"Type": "FROM_TRIM_HORIZON"}, "012"),
            ({"Type": "AFTER_SHARD_ID", "ShardId": "shardId-000000000001"}, "2"),
        ],
    )
    def test_filters(
        self, streams: Streams, split: dict[str, datetime], shard_filter: Any, ids: str
    ):
        found = streams.shards(ShardFilter=shard_filter)
        assert "".join(shard["ShardId"][-1] for shard in found) == ids

    def test_filters_by_time(self, streams: Streams, split: dict[str, datetime]):
        def ids(kind: str, at: datetime) -> str:
            found = streams.shards(ShardFilter={"Type": kind, "Timestamp": at})
            return "".join(shard["ShardId"][-1] for shard in found)

        assert ids("AT_TIMESTAMP", split["created"]) == "0"
        # The end counts too: at that very moment the parent and its children.
        assert ids("AT_TIMESTAMP", split["split"]) == "012"
        assert ids("FROM_TIMESTAMP", split["created"]) == "012"
        assert ids("FROM_TIMESTAMP", _now(streams)) == "12"

    def test_an_id_without_its_prefix_is_understood(
        self, streams: Streams, split: dict[str, datetime]
    ):
        found = streams.shards(ExclusiveStartShardId="1")
        assert [shard["ShardId"][-1] for shard in found] == ["2"]

    def test_the_creation_time_tells_streams_of_one_name_apart(
        self, streams: Streams, split: dict[str, datetime]
    ):
        assert len(streams.shards(StreamCreationTimestamp=split["created"])) == 3
        error = failure(
            streams.kinesis.list_shards,
            StreamName="flights", StreamCreationTimestamp=split["split"],
        )  # fmt: skip
        assert error.code == "ResourceNotFoundException"

    def test_a_token_remembers_its_filter(self, streams: Streams, split: dict[str, datetime]):
        found = streams.kinesis.list_shards(
            StreamName="flights", ShardFilter={"Type": "AT_LATEST"}, MaxResults=1
        )
        streams.kinesis.merge_shards(
            StreamName="flights", ShardToMerge="1", AdjacentShardToMerge="2"
        )
        rest = streams.kinesis.list_shards(NextToken=found["NextToken"])
        assert [shard["ShardId"][-1] for shard in found["Shards"] + rest["Shards"]] == ["1", "3"]


class TestTokens:
    @pytest.fixture
    def token(self, streams: Streams) -> str:
        streams.create(shards=3)
        found = streams.kinesis.list_shards(StreamName="flights", MaxResults=1)
        return str(found["NextToken"])

    @pytest.mark.parametrize(
        "param",
        [
            {"StreamName": "flights"},
            {"StreamCreationTimestamp": 1_700_000_000},
            {"ExclusiveStartShardId": "shardId-000000000000"},
        ],
    )
    def test_what_a_token_excludes(self, streams: Streams, token: str, param: dict[str, Any]):
        error = failure(streams.kinesis.list_shards, NextToken=token, **param)
        assert error.code == "InvalidArgumentException"

    def test_a_token_of_another_operation_is_refused(self, streams: Streams, token: str):
        error = failure(streams.kinesis.list_streams, NextToken=token)
        assert error.code == "InvalidArgumentException"

    def test_a_token_of_a_deleted_stream_is_refused(self, streams: Streams, token: str):
        streams.kinesis.delete_stream(StreamName="flights")
        error = failure(streams.kinesis.list_shards, NextToken=token)
        assert error.code == "InvalidArgumentException"

    @pytest.mark.parametrize(
        "shard_filter",
        [
            {"Type": "AT_LATEST", "ShardId": "shardId-000000000000"},
            {"Type": "AFTER_SHARD_ID", "ShardId": "shardId-000000000000", "Timestamp": 1},
            {"Type": "AT_TIMESTAMP"},
            {"Type": "AFTER_SHARD_ID"},
        ],
    )
    def test_a_filter_has_what_its_type_needs_and_nothing_else(
        self, streams: Streams, token: str, shard_filter: dict[str, Any]
    ):
        error = failure(streams.kinesis.list_shards, StreamName="flights", ShardFilter=shard_filter)
        assert error.code == "InvalidArgumentException"


def _now(streams: Streams) -> datetime:
    return datetime.fromtimestamp(streams.clock.now_ms() / 1000, UTC)
