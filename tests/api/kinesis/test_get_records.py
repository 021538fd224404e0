"""GetRecords."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.api.kinesis.streams import Streams, failure
from tests.support.cloud import InProcessCloud


class TestSerialization:
    def test_an_iterator_that_is_no_text(self, streams: Streams):
        status, answer = streams.raw("GetRecords", {"ShardIterator": 5})
        assert (status, answer["__type"]) == (400, "SerializationException")

    def test_times_are_seconds_with_three_decimals(self, streams: Streams):
        streams.create()
        streams.clock.advance(0.123)
        streams.put("a")
        _, answer = streams.raw("GetRecords", {"ShardIterator": streams.iterator()})
        [record] = answer["Records"]
        assert record["ApproximateArrivalTimestamp"] == streams.clock.now_ms() / 1000
        assert record["Data"] == base64.b64encode(b"a").decode()


class TestValidation:
    @pytest.mark.parametrize("limit", [0, 10_001])
    def test_limits(self, streams: Streams, kinesis: Any, limit: int):
        streams.create()
        error = failure(kinesis.get_records, ShardIterator=streams.iterator(), Limit=limit)
        assert error.code == "ValidationException"
        assert f"Value '{limit}' at 'limit' failed to satisfy constraint" in error.message

    def test_iterators_that_are_none(self, streams: Streams, kinesis: Any):
        streams.create()
        good = streams.iterator()
        middle = len(good) // 3
        swapped = good[:middle] + ("B" if good[middle] == "A" else "A") + good[middle + 1 :]
        for bad in ("x", "AAAA", good[:-4], good + "AAAA", swapped):
            error = failure(kinesis.get_records, ShardIterator=bad)
            assert (error.code, error.message) == (
                "InvalidArgumentException",
                "Invalid ShardIterator.",
            )

    def test_an_iterator_lives_five_minutes(self, streams: Streams, kinesis: Any):
        streams.create()
        iterator = streams.iterator()
        streams.clock.advance(300)
        kinesis.get_records(ShardIterator=iterator)
        streams.clock.advance(0.001)
        error = failure(kinesis.get_records, ShardIterator=iterator)
        assert error.code == "ExpiredIteratorException"
        assert error.message == (
            "Iterator expired. The iterator was created at time Tue Nov 14 22:13:20 UTC 2023 while right now it is"
            " Tue Nov 14 22:18:20 UTC 2023 which is further in the future than the tolerated delay of"
            " 300000 milliseconds."
        )


class TestBehaviour:
    def test_an_empty_shard_gives_an_iterator_to_go_on_with(self, streams: Streams, kinesis: Any):
        streams.create()
        got = kinesis.get_records(ShardIterator=streams.iterator())
        assert (got["Records"], got["MillisBehindLatest"]) == ([], 0)
        streams.put("a")
        got = kinesis.get_records(ShardIterator=got["NextShardIterator"])
        assert [record["Data"] for record in got["Records"]] == [b"a"]

    def test_pages_by_limit_and_how_far_behind_they_are(self, streams: Streams, kinesis: Any):
        streams.create()
        for text in "abcd":
            streams.put(text)
            streams.clock.advance(10)
        iterator, seen = streams.iterator(), []
        for _ in range(3):
            got = kinesis.get_records(ShardIterator=iterator, Limit=2)
            iterator = got["NextShardIterator"]
            seen.append(([r["Data"].decode() for r in got["Records"]], got["MillisBehindLatest"]))
        assert seen == [(["a", "b"], 30_000), (["c", "d"], 0), ([], 0)]

    def test_one_answer_holds_ten_mebibytes_at_most(self, streams: Streams, kinesis: Any):
        streams.create()
        for _ in range(12):
            kinesis.put_record(StreamName="flights", Data=bytes(1_000_000), PartitionKey="k")
        first = kinesis.get_records(ShardIterator=streams.iterator())
        assert len(first["Records"]) == 10
        assert first["MillisBehindLatest"] >= 0
        second = kinesis.get_records(ShardIterator=first["NextShardIterator"])
        assert len(second["Records"]) == 2

    def test_a_closed_shard_ends_with_its_children(self, streams: Streams, kinesis: Any):
        streams.create()
        streams.put("a", "b")
        kinesis.split_shard(
            StreamName="flights",
            ShardToSplit="shardId-000000000000",
            NewStartingHashKey=str(1 << 127),
        )
        got = kinesis.get_records(ShardIterator=streams.iterator(), Limit=1)
        assert "ChildShards" not in got
        got = kinesis.get_records(ShardIterator=got["NextShardIterator"], Limit=1)
        assert [record["Data"] for record in got["Records"]] == [b"b"]
        assert got.get("NextShardIterator") is None
        assert got["MillisBehindLatest"] == 0
        assert got["ChildShards"] == [
            {
                "ShardId": f"shardId-00000000000{number}",
                "ParentShards": ["shardId-000000000000"],
                "HashKeyRange": {"StartingHashKey": start, "EndingHashKey": end},
            }
            for number, start, end in (
                (1, "0", str((1 << 127) - 1)),
                (2, str(1 << 127), str((1 << 128) - 1)),
            )
        ]

    def test_records_and_iterators_outlast_a_restart(
        self, streams: Streams, cloud: InProcessCloud, data_dir: Path
    ):
        streams.create()
        [before] = streams.put("before")
        iterator = streams.iterator()
        cloud.stop()
        with InProcessCloud(data_dir, clock=streams.clock) as again:
            kinesis = again.client("kinesis")
            put = kinesis.put_record(StreamName="flights", Data=b"after", PartitionKey="k")
            got = kinesis.get_records(ShardIterator=iterator)["Records"]
        assert [record["Data"] for record in got] == [b"before", b"after"]
        assert int(put["SequenceNumber"]) > int(before["SequenceNumber"])
