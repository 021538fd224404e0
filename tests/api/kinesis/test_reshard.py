"""SplitShard, MergeShards and UpdateShardCount."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.services.kinesis.resharding import plan_equal_ranges
from headrace.services.kinesis.state import even_ranges
from tests.api.kinesis.streams import (
    HASH_KEYS,
    NOT_FOUND,
    Streams,
    covers_all_hash_keys,
    failure,
    ranges,
)
from tests.support.cloud import ACCOUNT

SHARD = "shardId-000000000000"
HALF = str(1 << 127)


class TestSerialization:
    @pytest.mark.parametrize(
        ("operation", "member"),
        [
            ("SplitShard", "NewStartingHashKey"),
            ("MergeShards", "ShardToMerge"),
            ("UpdateShardCount", "ScalingType"),
        ],
    )
    def test_a_member_of_the_wrong_type(self, streams: Streams, operation: str, member: str):
        status, answer = streams.raw(operation, {"StreamName": "flights", member: 5})
        assert (status, answer["__type"]) == (400, "SerializationException")


class TestValidation:
    def test_missing_streams(self, kinesis: Any):
        calls = (
            (kinesis.split_shard, {"ShardToSplit": SHARD, "NewStartingHashKey": HALF}),
            (kinesis.merge_shards, {"ShardToMerge": SHARD, "AdjacentShardToMerge": "0"}),
            (
                kinesis.update_shard_count,
                {"TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"},
            ),
        )
        for call, params in calls:
            error = failure(call, StreamName="nowhere", **params)
            assert (error.code, error.message) == ("ResourceNotFoundException", NOT_FOUND)

    @pytest.mark.parametrize("key", ["0", "1", str(HASH_KEYS - 1)])
    def test_a_split_at_the_edge(self, streams: Streams, kinesis: Any, key: str):
        streams.create()
        error = failure(
            kinesis.split_shard, StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey=key
        )
        assert error.code == "InvalidArgumentException"
        assert error.message == (
            f"NewStartingHashKey {key} used in SplitShard() on shard {SHARD} in stream flights under account"
            f" {ACCOUNT} is not both greater than one plus the shard's StartingHashKey 0 and less than the"
            f" shard's EndingHashKey {HASH_KEYS - 1}."
        )

    def test_a_merge_of_shards_that_are_not_neighbours(self, streams: Streams, kinesis: Any):
        streams.create(shards=3)
        error = failure(
            kinesis.merge_shards,
            StreamName="flights",
            ShardToMerge=SHARD,
            AdjacentShardToMerge="shardId-000000000002",
        )
        assert error.code == "InvalidArgumentException"
        assert "are not an adjacent pair of shards eligible for merging" in error.message

    def test_a_shard_is_split_once(self, streams: Streams, kinesis: Any):
        streams.create()
        split = {"StreamName": "flights", "ShardToSplit": SHARD, "NewStartingHashKey": HALF}
        kinesis.split_shard(**split)
        error = failure(kinesis.split_shard, **split)
        assert error.code == "InvalidArgumentException"
        assert error.message == (
            f"Shard {SHARD} in stream flights under account {ACCOUNT} has already been merged or split, and thus"
            " is not eligible for merging or splitting."
        )

    @pytest.mark.parametrize("target", [9, 1])
    def test_more_than_double_and_less_than_half(self, streams: Streams, kinesis: Any, target: int):
        streams.create(shards=4)
        error = failure(
            kinesis.update_shard_count,
            StreamName="flights",
            TargetShardCount=target,
            ScalingType="UNIFORM_SCALING",
        )
        assert error.code == "InvalidArgumentException"
        assert len(streams.open_shards()) == 4


class TestBehaviour:
    def test_a_split_and_a_merge_keep_the_hash_keys_covered(self, streams: Streams, kinesis: Any):
        streams.create()
        kinesis.split_shard(StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey="1000000")
        assert ranges(streams.open_shards()) == [(0, 999_999), (1_000_000, HASH_KEYS - 1)]
        kinesis.merge_shards(
            StreamName="flights",
            ShardToMerge="shardId-000000000001",
            AdjacentShardToMerge="shardId-000000000002",
        )
        [merged] = streams.open_shards()
        assert {merged["ParentShardId"], merged["AdjacentParentShardId"]} == {
            "shardId-000000000001",
            "shardId-000000000002",
        }
        assert covers_all_hash_keys([merged])
        assert len(streams.shards()) == 4

    def test_a_closed_parent_is_drained_before_its_children_keep_the_order_per_key(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        streams.put("1", "2", key="k")
        kinesis.split_shard(StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey=HALF)
        [record] = streams.put("3", key="k")
        assert record["ShardId"] != SHARD
        assert streams.drain(SHARD) + streams.drain(record["ShardId"]) == ["1", "2", "3"]

    def test_childrens_numbers_are_above_their_parents_even_within_a_second(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        numbers: list[int] = []
        for _ in range(6):
            numbers += [int(record["SequenceNumber"]) for record in streams.put("x", "y", key="k")]
            current = streams.put("z", key="k")[0]
            numbers.append(int(current["SequenceNumber"]))
            shard = next(s for s in streams.open_shards() if s["ShardId"] == current["ShardId"])
            keys = shard["HashKeyRange"]
            middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
            kinesis.split_shard(
                StreamName="flights",
                ShardToSplit=shard["ShardId"],
                NewStartingHashKey=str(middle),
            )
        assert numbers == sorted(set(numbers))

    @settings(max_examples=150, deadline=None)
    @given(
        targets=st.lists(st.integers(1, 40), min_size=1, max_size=6),
        first=st.integers(1, 20),
    )
    def test_any_row_of_counts_leads_to_even_ranges_through_splits_and_merges_of_two(
        self, first: int, targets: list[int]
    ):
        opened = even_ranges(first)
        for target in targets:
            for closed, made in plan_equal_ranges(opened, target):
                assert (len(closed), len(made)) in ((1, 2), (2, 1))
                assert all(parent in opened for parent in closed)
                assert min(p[0] for p in closed) == made[0][0]  # type: ignore[index]
                assert max(p[1] for p in closed) == made[-1][1]  # type: ignore[index]
                opened = sorted([r for r in opened if r not in closed] + list(made))
            assert len(opened) == target
            assert opened[0][0] == 0
            assert opened[-1][1] == HASH_KEYS - 1
            assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(opened))
            sizes = [end - start for start, end in opened]
            assert max(sizes) - min(sizes) < HASH_KEYS >> 20

    # observed: risingwavelabs/risingwave#9961 shows AWS's console after four shards were made three
    def test_four_shards_made_three_have_aws_ids(self, streams: Streams, kinesis: Any):
        streams.create(shards=4)
        kinesis.update_shard_count(
            StreamName="flights", TargetShardCount=3, ScalingType="UNIFORM_SCALING"
        )
        assert len(streams.shards()) == 11
        assert [shard["ShardId"][-2:] for shard in streams.open_shards()] == ["06", "09", "10"]

    # observed: moto's tests/test_kinesis/test_kinesis_boto3.py
    @pytest.mark.parametrize(
        ("before", "target", "total"), [(2, 4, 6), (4, 5, 15), (10, 13, 37), (4, 2, 6), (5, 3, 7)]
    )
    def test_update_shard_count_leaves_as_many_shards_as_on_aws(
        self, streams: Streams, kinesis: Any, before: int, target: int, total: int
    ):
        streams.create(shards=before)
        kinesis.update_shard_count(
            StreamName="flights", TargetShardCount=target, ScalingType="UNIFORM_SCALING"
        )
        assert (len(streams.open_shards()), len(streams.shards())) == (target, total)

    @pytest.mark.parametrize(("before", "target"), [(2, 4), (4, 2), (3, 5), (5, 3), (4, 4)])
    def test_update_shard_count(self, streams: Streams, kinesis: Any, before: int, target: int):
        streams.create(shards=before)
        answer = kinesis.update_shard_count(
            StreamName="flights", TargetShardCount=target, ScalingType="UNIFORM_SCALING"
        )
        assert (answer["CurrentShardCount"], answer["TargetShardCount"]) == (before, target)
        opened = streams.open_shards()
        assert len(opened) == target
        assert covers_all_hash_keys(opened)
        put = kinesis.put_records(
            StreamName="flights",
            Records=[{"Data": b"%d" % i, "PartitionKey": str(i)} for i in range(300)],
        )
        assert {record["ShardId"] for record in put["Records"]} == {s["ShardId"] for s in opened}

    def test_puts_that_race_a_reshard_or_a_deletion_are_stored_once_or_refused(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        acknowledged: list[str] = []
        done = threading.Event()

        def put_on() -> None:
            client = streams.cloud.client("kinesis")
            number = 0
            while not done.is_set():
                client.put_record(
                    StreamName="flights", Data=b"%d" % number, PartitionKey=str(number)
                )
                acknowledged.append(str(number))
                number += 1

        putter = threading.Thread(target=put_on)
        putter.start()
        try:
            for target in (2, 4, 2, 1):
                kinesis.update_shard_count(
                    StreamName="flights", TargetShardCount=target, ScalingType="UNIFORM_SCALING"
                )
        finally:
            done.set()
            putter.join(30)
        assert not putter.is_alive()
        stored = [text for s in streams.shards() for text in streams.drain(s["ShardId"])]
        assert sorted(stored) == sorted(acknowledged)
