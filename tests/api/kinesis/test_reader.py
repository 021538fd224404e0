"""The reader that event-source mappings and deliveries use, and retention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    AtTimestamp,
    Latest,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
    TrimHorizon,
)
from headrace.services.kinesis.resharding import Retention
from tests.api.kinesis.streams import Streams, arn_of
from tests.support.cloud import InProcessCloud

ARN = arn_of("flights")
SHARD = "shardId-000000000000"
ALL: dict[str, int] = {"max_records": 1000, "max_bytes": 1 << 30}


@pytest.fixture
def reader(cloud: InProcessCloud) -> StreamReader:
    return cloud.cloud.kinesis.reader


def _texts(reader: StreamReader, position: Any) -> list[str]:
    return [r.data.decode() for r in reader.read(ARN, SHARD, position, **ALL).records]


def test_a_record_is_read_as_it_was_put(streams: Streams, reader: StreamReader):
    streams.create()
    [put] = streams.put("a", key="é")
    [record] = reader.read(ARN, SHARD, TrimHorizon(), **ALL).records
    assert (record.data, record.partition_key) == (b"a", "é")
    assert record.sequence_number == put["SequenceNumber"]
    assert record.approximate_arrival_ms == streams.clock.now_ms()


def test_positions(streams: Streams, reader: StreamReader):
    streams.create()
    numbers: list[str] = []
    for text in "abc":
        numbers.append(streams.put(text)[0]["SequenceNumber"])
        streams.clock.advance(1)
    assert _texts(reader, AtSequence(numbers[1])) == ["b", "c"]
    assert _texts(reader, AfterSequence(numbers[1])) == ["c"]
    assert _texts(reader, AtTimestamp(streams.clock.now_ms() - 1000)) == ["c"]
    assert _texts(reader, Latest()) == []


@pytest.mark.parametrize("position", [Latest(), AtTimestamp(1 << 42)])
def test_a_pinned_position_means_the_same_for_ever(
    streams: Streams, reader: StreamReader, position: Any
):
    streams.create()
    streams.put("before")
    pinned = reader.pin(ARN, SHARD, position)
    streams.put("after", "later")
    assert _texts(reader, pinned) == ["after", "later"]


def test_reading_on_from_each_answer_gives_every_record_once(
    streams: Streams, reader: StreamReader
):
    streams.create()
    position: Any = TrimHorizon()
    found: list[str] = []
    for number in range(10):
        streams.put(*[f"{number}.{i}" for i in range(5)])
        result = reader.read(ARN, SHARD, position, max_records=3, max_bytes=1 << 20)
        found += [record.data.decode() for record in result.records]
        position = result.next_position
    found += _texts(reader, position)
    assert found == [f"{number}.{i}" for number in range(10) for i in range(5)]
    end = reader.read(ARN, SHARD, position, max_records=100, max_bytes=1 << 20).next_position
    assert end is not None
    assert _texts(reader, end) == []
    streams.put("more")
    assert _texts(reader, end) == ["more"]


def test_a_closed_shard_ends_and_its_lineage_is_told(
    streams: Streams, kinesis: Any, reader: StreamReader
):
    streams.create()
    streams.put("a")
    kinesis.split_shard(StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey=str(1 << 127))
    result = reader.read(ARN, SHARD, TrimHorizon(), **ALL)
    assert len(result.records) == 1
    assert result.next_position is None
    assert [(s.shard_id[-1], s.closed, s.parent_ids) for s in reader.shards(ARN)] == [
        ("0", True, ()),
        ("1", False, (SHARD,)),
        ("2", False, (SHARD,)),
    ]


def test_a_checkpoint_of_a_deleted_stream_of_the_name_skips_nothing(
    streams: Streams, kinesis: Any, reader: StreamReader
):
    streams.create()
    old = streams.put("old 1", "old 2")[1]["SequenceNumber"]
    kinesis.delete_stream(StreamName="flights")
    streams.clock.advance(2)
    streams.create()
    streams.put("new 1", "new 2", "new 3")
    assert _texts(reader, AfterSequence(old)) == ["new 1", "new 2", "new 3"]


def test_subscribers_are_woken_by_puts_and_reshards(
    streams: Streams, kinesis: Any, reader: StreamReader
):
    streams.create()
    streams.create("other")
    woken: list[int] = []
    undo = reader.subscribe(ARN, lambda: woken.append(1))
    streams.put("a", name="other")
    assert woken == []
    streams.put("a")
    kinesis.put_record(StreamName="flights", Data=b"x", PartitionKey="k")
    assert len(woken) == 2
    kinesis.split_shard(StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey=str(1 << 127))
    assert len(woken) == 3
    undo()
    streams.put("b")
    assert len(woken) == 3


def test_what_is_not_there(streams: Streams, reader: StreamReader):
    with pytest.raises(StreamNotFound):
        reader.shards(ARN)
    streams.create()
    with pytest.raises(ShardNotFound):
        reader.read(ARN, "shardId-000000000005", TrimHorizon(), **ALL)


class TestRetention:
    def test_records_older_than_the_stream_keeps_are_deleted_and_young_ones_are_not(
        self, streams: Streams, cloud: InProcessCloud
    ):
        streams.create()
        worker = Retention(cloud.cloud.kinesis)
        for hour in range(30):
            streams.put(str(hour))
            worker.step()
            streams.clock.advance(3600)
        worker.step()
        hours = [int(text) for text in streams.texts()]
        assert hours == list(range(hours[0], 30))
        assert 4 <= hours[0] <= 6

    def test_a_closed_shard_is_forgotten_with_its_last_record(
        self, streams: Streams, kinesis: Any, cloud: InProcessCloud, data_dir: Path
    ):
        streams.create()
        streams.put("a")
        kinesis.split_shard(
            StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey=str(1 << 127)
        )
        worker = Retention(cloud.cloud.kinesis)
        streams.clock.advance(23 * 3600)
        worker.step()
        assert streams.texts() == ["a"]
        streams.clock.advance(2 * 3600)
        worker.step()
        assert [shard["ShardId"][-1] for shard in streams.shards()] == ["1", "2"]
        assert not list(data_dir.glob(f"streams/*/{SHARD}"))
        streams.put("b")
        cloud.stop()
        with InProcessCloud(data_dir, clock=streams.clock) as again:
            found = again.client("kinesis").list_shards(StreamName="flights")["Shards"]
        assert [shard["ShardId"][-1] for shard in found] == ["1", "2"]
