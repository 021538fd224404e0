"""With `durability=fsync` no reader sees a record before it is on the disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ports import AfterSequence, Latest, TrimHorizon
from headrace.store.shard_log import ShardLog
from tests.api.kinesis.conftest import StillClock
from tests.api.kinesis.streams import Streams, arn_of
from tests.api.kinesis.test_subscribe_to_shard import Reader, register
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

SHARD = "shardId-000000000000"


@pytest.fixture
def cloud(data_dir: Path, clock: StillClock) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir, clock=clock, durability="fsync") as running:
        yield running


@pytest.fixture
def shard_log(streams: Streams, cloud: InProcessCloud) -> ShardLog:
    """The log of a shard that holds `synced`, and `unsynced` that nobody has waited for."""
    streams.create()
    streams.put("synced")
    (stream,) = cloud.cloud.kinesis.streams.values()
    log = stream.shards[0].log
    assert log is not None
    log.append_columns(["dW5zeW5jZWQ="], ["k"], 9, streams.clock.now_ms())
    return log


def test_get_records_ends_where_the_disk_does(
    streams: Streams, kinesis: Any, shard_log: ShardLog
) -> None:
    streams.clock.advance(5)
    got = kinesis.get_records(ShardIterator=streams.iterator())
    assert [record["Data"] for record in got["Records"]] == [b"synced"]
    assert got["MillisBehindLatest"] == 0
    again = kinesis.get_records(ShardIterator=got["NextShardIterator"])
    assert again["Records"] == []
    shard_log.sync()
    last = kinesis.get_records(ShardIterator=again["NextShardIterator"])
    assert [record["Data"] for record in last["Records"]] == [b"unsynced"]


def test_latest_misses_nothing_that_is_acknowledged_later(
    streams: Streams, kinesis: Any, shard_log: ShardLog
) -> None:
    iterator = streams.iterator("LATEST")
    shard_log.sync()
    assert len(kinesis.get_records(ShardIterator=iterator)["Records"]) == 1


def test_lambda_and_firehose_read_no_further(cloud: InProcessCloud, shard_log: ShardLog) -> None:
    reader, arn = cloud.cloud.kinesis.reader, arn_of("flights")
    latest = reader.pin(arn, SHARD, Latest())
    got = reader.read(arn, SHARD, TrimHorizon(), max_records=9, max_bytes=999)
    assert [record.data for record in got.records] == [b"synced"]
    assert got.next_position == AfterSequence(got.records[0].sequence_number)
    shard_log.sync()
    got = reader.read(arn, SHARD, latest, max_records=9, max_bytes=999)
    assert [record.data for record in got.records] == [b"unsynced"]


def test_a_subscription_pushes_no_further(
    cloud: InProcessCloud, kinesis: Any, clock: StillClock, shard_log: ShardLog
) -> None:
    reader = Reader(cloud, clock, register(kinesis))
    assert len(reader.numbers()) == 1
    assert not reader.subscription.has_news()
    shard_log.sync()
    assert reader.subscription.has_news()
    assert len(reader.numbers()) == 1


def test_a_closed_shard_does_not_end_before_its_last_record(
    streams: Streams, kinesis: Any, shard_log: ShardLog
) -> None:
    kinesis.split_shard(StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey=str(2**127))
    got = kinesis.get_records(ShardIterator=streams.iterator())
    assert len(got["Records"]) == 1
    assert got["NextShardIterator"]
    shard_log.sync()
    got = kinesis.get_records(ShardIterator=got["NextShardIterator"])
    assert len(got["Records"]) == 1
    assert got.get("NextShardIterator") is None


def test_readers_are_woken_when_the_record_can_be_seen(
    streams: Streams, cloud: InProcessCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.create()
    may_sync, fsync = threading.Event(), os.fsync

    def wait(fd: int) -> None:
        may_sync.wait(30)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", wait)
    monkeypatch.setattr(os, "fdatasync", wait)
    woken: list[int] = []

    def wake() -> None:
        got = cloud.cloud.kinesis.reader.read(
            arn_of("flights"), SHARD, TrimHorizon(), max_records=9, max_bytes=999
        )
        woken.append(len(got.records))

    undo = cloud.cloud.kinesis.registry.subscribe(arn_of("flights"), wake)
    putting = threading.Thread(target=streams.put, args=("a",))
    putting.start()
    (stream,) = cloud.cloud.kinesis.streams.values()
    log = stream.shards[0].log
    assert log is not None
    wait_until(lambda: log.next_index > 1, what="the append")
    assert streams.texts() == []
    may_sync.set()
    putting.join(30)
    wait_until(lambda: woken == [1], what="the wake")
    undo()


def test_a_restart_shows_what_was_stored(data_dir: Path, clock: StillClock) -> None:
    with InProcessCloud(data_dir, clock=clock, durability="fsync") as cloud:
        streams = Streams(cloud, cloud.client("kinesis"), clock)
        streams.create()
        streams.put("a", "b")
    with InProcessCloud(data_dir, clock=clock, durability="fsync") as cloud:
        streams = Streams(cloud, cloud.client("kinesis"), clock)
        assert streams.texts() == ["a", "b"]
