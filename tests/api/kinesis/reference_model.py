"""Two equal clouds, one of which sends every request to its action."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.services.kinesis.data_path import wire
from tests.api.kinesis.conftest import StillClock
from tests.api.kinesis.test_cbor import loads as loads_cbor
from tests.support.cloud import InProcessCloud

NAME = "flights"
ARN = f"arn:aws:kinesis:us-east-1:000000000000:stream/{NAME}"


@dataclass
class Twins:
    """Two equal clouds; on the second, every request goes to its action."""

    short: InProcessCloud
    long: InProcessCloud

    def ask(
        self, operation: str, body: bytes, content_type: str = wire.JSON
    ) -> tuple[tuple[int, Any], tuple[int, Any]]:
        """Send a body to both; returns (status, answer) of each, with iterators left out."""
        return (
            ask(self.short, operation, body, content_type),
            ask(self.long, operation, body, content_type),
        )


def ask(cloud: InProcessCloud, operation: str, body: bytes, content_type: str) -> tuple[int, Any]:
    """Send a body; returns (status, answer), with the iterator left out."""
    answer = cloud.json_request(f"Kinesis_20131202.{operation}", body, content_type=content_type)
    assert isinstance(answer.body, bytes)
    assert ("Content-Type", content_type) in answer.headers
    load: Any = loads_cbor if "cbor" in content_type else json.loads
    value = load(answer.body)
    if value.get("NextShardIterator", "") is None:
        del value["NextShardIterator"]
    elif "NextShardIterator" in value:
        value["NextShardIterator"] = "…"
    return answer.status, value


@contextlib.contextmanager
def twin_clouds(folders: pytest.TempPathFactory) -> Generator[Twins]:
    """Start both, with a stream of three shards on each."""
    clouds: list[InProcessCloud] = []
    for name in ("short", "long"):
        cloud = InProcessCloud(folders.mktemp(name), clock=StillClock())
        cloud.client("kinesis").create_stream(StreamName=NAME, ShardCount=3)
        clouds.append(cloud)
    long = clouds[1].cloud.gateway.owned["kinesis"]
    object.__setattr__(long, "raw", None)
    yield Twins(*clouds)
    for cloud in clouds:
        cloud.stop()


def stored(cloud: InProcessCloud) -> list[list[Any]]:
    """Return the records of each shard."""
    client = cloud.client("kinesis")
    found: list[list[Any]] = []
    for shard in "012":
        iterator = client.get_shard_iterator(
            StreamName=NAME, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        found.append(client.get_records(ShardIterator=iterator)["Records"])
    return found
