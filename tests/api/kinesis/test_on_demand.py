"""On-demand streams grow with their traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.services.kinesis.metrics import MinuteMetrics
from headrace.services.kinesis.resharding import Growth
from tests.api.kinesis.conftest import StillClock
from tests.api.kinesis.streams import Streams, covers_all_hash_keys, ranges
from tests.support.cloud import InProcessCloud

MINUTE_BYTES = 60 * 1024 * 1024

take_the_minute = MinuteMetrics.step


@pytest.fixture(autouse=True)
def no_minutes_but_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the cloud's own worker from growing a stream once more when a test's clock has moved."""
    monkeypatch.setattr(MinuteMetrics, "step", lambda _worker: 3600.0)


class Traffic:
    """A stream's minutes, as the worker sees them."""

    def __init__(self, cloud: InProcessCloud, clock: StillClock) -> None:
        self._kinesis = cloud.cloud.kinesis
        self._growth = Growth(self._kinesis)
        self._clock = clock

    def minute(self, *, mibps: float = 0.0, records_per_s: int = 0) -> None:
        self._clock.advance(60)
        (stream,) = self._kinesis.streams.values()
        now_ms = self._clock.now_ms()
        self._growth.note_minute(stream, int(mibps * MINUTE_BYTES), records_per_s * 60, now_ms)


def test_real_traffic_makes_a_stream_grow_at_the_end_of_its_minute(
    streams: Streams, cloud: InProcessCloud, kinesis: Any, clock: StillClock
) -> None:
    service = cloud.cloud.kinesis
    worker = MinuteMetrics(service, Growth(service))
    kinesis.create_stream(StreamName="flights", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    body = {
        "StreamName": "flights",
        "Records": [{"Data": "eA==", "PartitionKey": str(i)} for i in range(500)],
    }
    for _ in range(252):  # 2,100 a second need 4.2 shards for twice as many.
        assert streams.raw("PutRecords", body)[0] == 200
    take_the_minute(worker)
    assert len(streams.open_shards()) == 4
    clock.advance(60)
    take_the_minute(worker)
    assert len(streams.open_shards()) == 5


@pytest.fixture
def traffic(cloud: InProcessCloud, kinesis: Any, clock: StillClock) -> Traffic:
    kinesis.create_stream(StreamName="flights", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    return Traffic(cloud, clock)


def test_it_begins_with_four_shards_and_stays_while_they_are_twice_enough(
    streams: Streams, traffic: Traffic
) -> None:
    traffic.minute(mibps=2.0, records_per_s=2000)
    assert len(streams.open_shards()) == 4


@pytest.mark.parametrize("use", [{"mibps": 3.0}, {"records_per_s": 3000}])
def test_it_grows_to_twice_its_peak(
    streams: Streams, traffic: Traffic, use: dict[str, Any]
) -> None:
    traffic.minute(**use)
    shards = streams.open_shards()
    assert len(shards) == 6
    assert covers_all_hash_keys(shards)


def test_the_shards_that_took_most_are_split(
    streams: Streams, kinesis: Any, traffic: Traffic
) -> None:
    traffic.minute()
    before = ranges(streams.open_shards())
    for _ in range(3):
        kinesis.put_record(
            StreamName="flights", Data=b"x", PartitionKey="k", ExplicitHashKey=str(before[2][0])
        )
    traffic.minute(mibps=2.4)
    assert before[2] not in ranges(streams.open_shards())
    assert len(streams.open_shards()) == 5


def test_it_doubles_at_most_every_fifteen_minutes(streams: Streams, traffic: Traffic) -> None:
    traffic.minute(mibps=50)
    assert len(streams.open_shards()) == 8
    for _ in range(14):
        traffic.minute(mibps=50)
    assert len(streams.open_shards()) == 8
    traffic.minute(mibps=50)
    assert len(streams.open_shards()) == 16


def test_it_grows_no_further_than_the_quota(streams: Streams, traffic: Traffic) -> None:
    for _ in range(16 * 7):
        traffic.minute(mibps=5000)
    assert len(streams.open_shards()) == 200


def test_a_provisioned_stream_does_not_grow(
    streams: Streams, kinesis: Any, traffic: Traffic
) -> None:
    arn = kinesis.describe_stream(StreamName="flights")["StreamDescription"]["StreamARN"]
    kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "PROVISIONED"})
    traffic.minute(mibps=50)
    assert len(streams.open_shards()) == 4
    kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    traffic.minute(mibps=50)
    assert len(streams.open_shards()) == 8


def test_a_peak_is_remembered_through_a_restart_for_thirty_days(
    data_dir: Path, clock: StillClock
) -> None:
    with InProcessCloud(data_dir, clock=clock) as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="flights", StreamModeDetails={"StreamMode": "ON_DEMAND"})
        Traffic(cloud, clock).minute(mibps=50)
    clock.advance(29 * 86_400)
    with InProcessCloud(data_dir, clock=clock) as cloud:
        streams = Streams(cloud, cloud.client("kinesis"), clock)
        Traffic(cloud, clock).minute()
        assert len(streams.open_shards()) == 16
    clock.advance(2 * 86_400)
    with InProcessCloud(data_dir, clock=clock) as cloud:
        streams = Streams(cloud, cloud.client("kinesis"), clock)
        Traffic(cloud, clock).minute()
        assert len(streams.open_shards()) == 16


def test_records_stay_in_order_of_their_key_through_growth(
    streams: Streams, kinesis: Any, traffic: Traffic
) -> None:
    texts = [str(i) for i in range(20)]
    streams.put(*texts[:10])
    traffic.minute(mibps=50)
    streams.put(*texts[10:])
    found: list[str] = []
    for shard in sorted(streams.shards(), key=lambda s: s["ShardId"]):
        found += streams.drain(shard["ShardId"])
    assert found == texts
