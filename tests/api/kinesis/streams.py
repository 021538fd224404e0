"""What Kinesis tests do again and again, through boto3."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.kinesis.resharding import reshard
from tests.support.clock import FakeClock
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

HASH_KEYS = 1 << 128
NOT_FOUND = f"Stream nowhere under account {ACCOUNT} not found."


@dataclass
class Failure:
    """An error as a client sees it."""

    code: str
    message: str
    status: int


def failure(call: Any, **params: Any) -> Failure:
    """Return the error of a call that must fail."""
    with pytest.raises(ClientError) as caught:
        call(**params)
    response = caught.value.response
    return Failure(
        response["Error"]["Code"],
        response["Error"]["Message"],
        response["ResponseMetadata"]["HTTPStatusCode"],
    )


def arn_of(name: str) -> str:
    return f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{name}"


class Streams:
    """Streams of one test's cloud."""

    def __init__(self, cloud: InProcessCloud, kinesis: Any, clock: FakeClock) -> None:
        self.cloud = cloud
        self.kinesis = kinesis
        self.clock = clock

    def create(self, name: str = "flights", shards: int = 1) -> str:
        self.kinesis.create_stream(StreamName=name, ShardCount=shards)
        return name

    def raw(self, operation: str, body: bytes | dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Send a body as it stands; returns the status and the answer."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.cloud.json_request(f"Kinesis_20131202.{operation}", sent)
        assert isinstance(answer.body, bytes)
        return answer.status, json.loads(answer.body or b"{}")

    def shards(self, name: str = "flights", **params: Any) -> list[dict[str, Any]]:
        return self.kinesis.list_shards(StreamName=name, **params)["Shards"]

    def open_shards(self, name: str = "flights") -> list[dict[str, Any]]:
        return self.shards(name, ShardFilter={"Type": "AT_LATEST"})

    def put(self, *texts: str, name: str = "flights", key: str = "k") -> list[dict[str, Any]]:
        return self.kinesis.put_records(
            StreamName=name,
            Records=[{"Data": text.encode(), "PartitionKey": key} for text in texts],
        )["Records"]

    def iterator(
        self,
        kind: str = "TRIM_HORIZON",
        *,
        name: str = "flights",
        shard: str = "shardId-000000000000",
        **params: Any,
    ) -> str:
        return self.kinesis.get_shard_iterator(
            StreamName=name, ShardId=shard, ShardIteratorType=kind, **params
        )["ShardIterator"]

    def texts(self, kind: str = "TRIM_HORIZON", **params: Any) -> list[str]:
        """Return what one GetRecords call finds at an iterator."""
        got = self.kinesis.get_records(ShardIterator=self.iterator(kind, **params))
        return [record["Data"].decode() for record in got["Records"]]

    def drain(self, shard: str, *, name: str = "flights") -> list[str]:
        """Return all of a shard."""
        iterator: str | None = self.iterator(name=name, shard=shard)
        found: list[str] = []
        while iterator:
            got = self.kinesis.get_records(ShardIterator=iterator)
            found += [record["Data"].decode() for record in got["Records"]]
            if not got["Records"]:
                break
            iterator = got.get("NextShardIterator")
        return found


def ranges(shards: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted(
        (
            int(shard["HashKeyRange"]["StartingHashKey"]),
            int(shard["HashKeyRange"]["EndingHashKey"]),
        )
        for shard in shards
    )


def covers_all_hash_keys(shards: list[dict[str, Any]]) -> bool:
    """Whether the ranges of shards follow one another without gap or overlap."""
    at = 0
    for start, end in ranges(shards):
        if start != at or end < start:
            return False
        at = end + 1
    return at == HASH_KEYS


def split_first(cloud: InProcessCloud, stream_arn: str, now_ms: int) -> None:
    """Split a stream's first open shard in the middle, as the growth of an on-demand stream does."""
    backend = cloud.cloud.kinesis
    stream = backend.registry.find_arn(stream_arn)
    assert stream is not None
    with backend.lock:
        shard = stream.open_shards[0]
        middle = (shard.starting_hash_key + shard.ending_hash_key) // 2
        halves = [(shard.starting_hash_key, middle), (middle + 1, shard.ending_hash_key)]
        reshard(backend, stream, [([shard], halves)], now_ms)
