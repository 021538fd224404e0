"""Streams, as their users see them: order per key, and nothing lost by splits and merges."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.clouds import CloudUnderTest

KEYS = [f"key-{number}" for number in range(8)]


def flights(count: int, start: int = 0) -> list[tuple[str, Any]]:
    """Return numbered records over eight keys."""
    return [(KEYS[number % len(KEYS)], number) for number in range(start, start + count)]


def by_key(records: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of each key, in order."""
    found: dict[str, list[Any]] = {}
    for key, value in records:
        found.setdefault(key, []).append(value)
    return found


def open_shards(cloud: CloudUnderTest, stream: str) -> list[dict[str, Any]]:
    """Return the shards that take records, by hash key."""
    shards = cloud.client("kinesis").list_shards(StreamName=stream)["Shards"]
    still = [s for s in shards if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
    return sorted(still, key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))


@pytest.mark.smoke
def test_records_come_back_in_the_order_of_their_keys(cloud: CloudUnderTest) -> None:
    stream, sent = cloud.stream(2), flights(400)
    answers = cloud.put(stream, sent)
    assert {answer["ShardId"] for answer in answers} == {
        shard["ShardId"] for shard in open_shards(cloud, stream)
    }
    assert by_key(cloud.read(stream)) == by_key(sent)


def test_a_split_keeps_what_was_put_and_the_order_of_keys(cloud: CloudUnderTest) -> None:
    kinesis, stream = cloud.client("kinesis"), cloud.stream()
    cloud.put(stream, flights(40))
    (shard,) = open_shards(cloud, stream)
    kinesis.split_shard(
        StreamName=stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(2**127)
    )
    cloud.until_active(stream)
    children = open_shards(cloud, stream)
    assert [child["ParentShardId"] for child in children] == [shard["ShardId"]] * 2
    later = cloud.put(stream, flights(40, start=40))
    assert {answer["ShardId"] for answer in later} == {child["ShardId"] for child in children}
    assert by_key(cloud.read(stream)) == by_key(flights(80))


def test_a_merge_keeps_what_was_put_and_the_order_of_keys(cloud: CloudUnderTest) -> None:
    kinesis, stream = cloud.client("kinesis"), cloud.stream(2)
    cloud.put(stream, flights(40))
    first, second = (shard["ShardId"] for shard in open_shards(cloud, stream))
    kinesis.merge_shards(StreamName=stream, ShardToMerge=first, AdjacentShardToMerge=second)
    cloud.until_active(stream)
    (child,) = open_shards(cloud, stream)
    assert {child["ParentShardId"], child["AdjacentParentShardId"]} == {first, second}
    cloud.put(stream, flights(40, start=40))
    assert by_key(cloud.read(stream)) == by_key(flights(80))


def test_a_closed_shard_ends_with_no_iterator_and_names_its_children(cloud: CloudUnderTest) -> None:
    kinesis, stream = cloud.client("kinesis"), cloud.stream()
    cloud.put(stream, flights(4))
    (shard,) = open_shards(cloud, stream)
    kinesis.split_shard(
        StreamName=stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(2**127)
    )
    cloud.until_active(stream)
    iterator = kinesis.get_shard_iterator(
        StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    answer: dict[str, Any] = {}
    for _ in range(5):
        answer = kinesis.get_records(ShardIterator=iterator)
        iterator = answer.get("NextShardIterator")
        if iterator is None:
            break
    assert iterator is None, "the closed shard never ends"
    assert len(answer["ChildShards"]) == 2
