"""Whatever puts, splits, merges and lost connections do: who follows ChildShards sees every record once, in order."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.kinesis.conftest import StillClock
from tests.api.kinesis.streams import arn_of
from tests.api.kinesis.test_subscribe_to_shard import Reader
from tests.support.cloud import InProcessCloud

ARN = arn_of("flights")
KEYS = [f"key {number}" for number in range(6)]


class Follower:
    """Reads a stream as client libraries do: parents to their ends, then their children."""

    def __init__(
        self, cloud: InProcessCloud, clock: StillClock, arn: str, shards: list[str]
    ) -> None:
        self._cloud, self._clock, self._arn = cloud, clock, arn
        self._readers: dict[str, Reader] = {}
        self._numbers: dict[str, str | None] = dict.fromkeys(shards)
        self._finished: set[str] = set()
        self._waiting: dict[str, set[str]] = {}
        self.seen: dict[str, list[str]] = {key: [] for key in KEYS}

    @property
    def shards(self) -> list[str]:
        """The shards that can be read now."""
        return sorted(self._numbers)

    def read(self, shard: str) -> None:
        """Take what is due of a shard, subscribing if need be."""
        if shard not in self._readers:
            number = self._numbers[shard]
            kind = "TRIM_HORIZON" if number is None else "AFTER_SEQUENCE_NUMBER"
            self._readers[shard] = Reader(
                self._cloud, self._clock, self._arn, kind, number, shard=shard
            )
        for event in self._readers[shard].events():
            for record in event["Records"]:
                text = base64.b64decode(record["Data"]).decode()
                self.seen[record["PartitionKey"]].append(text)
            if "ChildShards" in event:
                self._finish(shard, event["ChildShards"])
            else:
                self._numbers[shard] = event["ContinuationSequenceNumber"]

    def drop(self, shard: str) -> None:
        """Lose the connection of a shard."""
        reader = self._readers.pop(shard, None)
        if reader is not None:
            reader.subscription.close()

    def _finish(self, shard: str, children: list[dict[str, Any]]) -> None:
        self.drop(shard)
        del self._numbers[shard]
        self._finished.add(shard)
        for child in children:
            self._waiting[child["ShardId"]] = set(child["ParentShards"])
        for child, parents in list(self._waiting.items()):
            if parents <= self._finished:
                del self._waiting[child]
                self._numbers[child] = None


def reshard(kinesis: Any, chosen: random.Random) -> None:
    opened = kinesis.list_shards(StreamName="flights", ShardFilter={"Type": "AT_LATEST"})["Shards"]
    opened.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
    at = chosen.randrange(len(opened))
    if len(opened) < 4 and chosen.random() < 0.6:
        keys = opened[at]["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        kinesis.split_shard(
            StreamName="flights",
            ShardToSplit=opened[at]["ShardId"],
            NewStartingHashKey=str(middle),
        )
    elif at:
        kinesis.merge_shards(
            StreamName="flights",
            ShardToMerge=opened[at - 1]["ShardId"],
            AdjacentShardToMerge=opened[at]["ShardId"],
        )


@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_follower_sees_every_record_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, seed: int
):
    _follow(tmp_path_factory.mktemp("follow"), random.Random(seed))


def _follow(data_dir: Path, chosen: random.Random) -> None:
    clock = StillClock()
    with InProcessCloud(data_dir, clock=clock) as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="flights", ShardCount=2)
        consumer = kinesis.register_stream_consumer(StreamARN=ARN, ConsumerName="c")["Consumer"]
        shards = kinesis.list_shards(StreamName="flights")["Shards"]
        follower = Follower(
            cloud, clock, consumer["ConsumerARN"], [shard["ShardId"] for shard in shards]
        )
        put: dict[str, list[str]] = {key: [] for key in KEYS}
        for step in range(60):
            clock.advance(chosen.choice([0, 0.001, 0.5, 6]))
            what = chosen.random()
            if what < 0.4:
                for number in range(chosen.randrange(1, 4)):
                    key, text = chosen.choice(KEYS), f"{step}.{number}"
                    kinesis.put_record(StreamName="flights", Data=text.encode(), PartitionKey=key)
                    put[key].append(text)
            elif what < 0.5:
                reshard(kinesis, chosen)
            elif what < 0.6 and follower.shards:
                follower.drop(chosen.choice(follower.shards))
            elif follower.shards:
                follower.read(chosen.choice(follower.shards))
        for _ in range(200):
            for shard in follower.shards:
                follower.read(shard)
            if follower.seen == put:
                break
        assert follower.seen == put
