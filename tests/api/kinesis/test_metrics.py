"""CloudWatch's metrics of streams, shards and consumers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.core.ports import Metric
from headrace.services.kinesis.actions.stream_consumers import subscribe
from headrace.services.kinesis.metrics import MinuteMetrics
from headrace.services.kinesis.resharding import Growth
from tests.api.kinesis.conftest import StillClock
from tests.api.kinesis.streams import Streams, failure
from tests.api.kinesis.test_subscribe_to_shard import Reader, register
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.lambda_lab import Metrics

_STEP = MinuteMetrics.step
SHARD = "shardId-000000000000"


class Minutes:
    """Ends minutes, and keeps what they sent."""

    def __init__(self, cloud: InProcessCloud, clock: StillClock) -> None:
        self._kinesis = cloud.cloud.kinesis
        self._clock = clock
        self._sink = Metrics()
        self._worker = MinuteMetrics(self._kinesis, Growth(self._kinesis))

    def end(self) -> dict[tuple[str, ...], Metric]:
        """End the minute; return its metrics by name and dimensions' values."""
        self._kinesis.metrics, before = self._sink, self._kinesis.metrics
        self._clock.advance(60)
        assert 0 < _STEP(self._worker) <= 60
        self._kinesis.metrics = before
        sent, self._sink.metrics = self._sink.metrics, []
        return {(m.name, *(value for _, value in m.dimensions)): m for m in sent}


@pytest.fixture
def minutes(cloud: InProcessCloud, clock: StillClock, monkeypatch: pytest.MonkeyPatch) -> Minutes:
    # The cloud's own worker, which waits by real time, would end minutes too.
    monkeypatch.setattr(MinuteMetrics, "step", lambda _: 60.0)
    return Minutes(cloud, clock)


def statistics(metric: Metric) -> tuple[float, float, float, float]:
    assert metric.statistics is not None
    return metric.statistics


def test_puts_are_counted(streams: Streams, kinesis: Any, minutes: Minutes) -> None:
    streams.create()
    streams.put("four", "fives", key="k")
    kinesis.put_record(StreamName="flights", Data=b"seventy", PartitionKey="kk")
    sent = minutes.end()
    assert {name: statistics(m) for (name, *_), m in sent.items() if "Latency" not in name} == {
        "IncomingBytes": (2, 20, 9, 11),
        "IncomingRecords": (2, 3, 1, 2),
        "PutRecord.Bytes": (1, 9, 9, 9),
        "PutRecord.Success": (1, 1, 1, 1),
        "PutRecords.Bytes": (1, 11, 11, 11),
        "PutRecords.FailedRecords": (1, 0, 0, 0),
        "PutRecords.Records": (1, 2, 2, 2),
        "PutRecords.Success": (1, 1, 1, 1),
        "PutRecords.SuccessfulRecords": (1, 2, 2, 2),
        "PutRecords.ThrottledRecords": (1, 0, 0, 0),
        "PutRecords.TotalRecords": (1, 2, 2, 2),
        "WriteProvisionedThroughputExceeded": (2, 0, 0, 0),
    }
    assert statistics(sent["PutRecord.Latency", "flights"])[0] == 1
    assert sent["PutRecord.Latency", "flights"].unit == "Milliseconds"
    assert sent["IncomingBytes", "flights"].unit == "Bytes"
    assert sent["IncomingRecords", "flights"].unit == "Count"
    assert {m.namespace for m in sent.values()} == {"AWS/Kinesis"}
    assert minutes.end() == {}


def test_the_long_way_counts_as_the_short_cut_does(
    streams: Streams, kinesis: Any, minutes: Minutes
) -> None:
    streams.create()
    body = {"StreamName": "flights", "Records": [{"Data": "eA==", "PartitionKey": "k"}]}
    counted: list[dict[str, Any]] = []
    for extra in ({}, {"Unknown": 1}):
        assert streams.raw("PutRecords", {**body, **extra})[0] == 200
        counted.append({name[0]: statistics(m) for name, m in minutes.end().items()})
    assert counted[0] == counted[1] != {}


def test_reads_are_counted_with_their_age(
    streams: Streams, kinesis: Any, minutes: Minutes, clock: StillClock
) -> None:
    streams.create()
    streams.put("a", key="k")
    clock.advance(3)
    streams.put("b", key="k")
    minutes.end()
    iterator = streams.iterator()
    first = kinesis.get_records(ShardIterator=iterator, Limit=1)
    kinesis.get_records(ShardIterator=first["NextShardIterator"])
    sent = {name[0]: statistics(m) for name, m in minutes.end().items()}
    assert sent["GetRecords.Records"] == (2, 2, 1, 1)
    assert sent["GetRecords.Bytes"] == (2, 4, 2, 2)
    assert sent["GetRecords.Success"] == (2, 2, 1, 1)
    assert sent["GetRecords.IteratorAgeMilliseconds"] == (2, 63_000, 0, 63_000)
    assert sent["GetRecords.IteratorAge"] == (2, 63_000, 0, 63_000)
    assert sent["ReadProvisionedThroughputExceeded"] == (2, 0, 0, 0)
    assert sent["GetRecords.Latency"][0] == 2


def test_shards_are_shown_for_the_metrics_that_are_enabled(
    streams: Streams, kinesis: Any, minutes: Minutes
) -> None:
    streams.create(shards=2)
    kinesis.enable_enhanced_monitoring(
        StreamName="flights", ShardLevelMetrics=["IncomingRecords", "OutgoingBytes"]
    )
    kinesis.put_record(
        StreamName="flights", Data=b"abc", PartitionKey="k", ExplicitHashKey=str(2**128 - 1)
    )
    kinesis.get_records(ShardIterator=streams.iterator(shard="shardId-000000000001"))
    shards = {name: statistics(m) for name, m in minutes.end().items() if len(name) == 3}
    assert shards == {
        ("IncomingRecords", "flights", "shardId-000000000001"): (1, 1, 1, 1),
        ("OutgoingBytes", "flights", "shardId-000000000001"): (1, 4, 4, 4),
    }
    kinesis.disable_enhanced_monitoring(StreamName="flights", ShardLevelMetrics=["ALL"])
    streams.put("a")
    assert all(len(name) == 2 for name in minutes.end())


def test_lambdas_reading_counts_too(
    streams: Streams, cloud: InProcessCloud, kinesis: Any, minutes: Minutes
) -> None:
    from headrace.core.ports import TrimHorizon

    streams.create()
    streams.put("a", "b")
    arn = kinesis.describe_stream(StreamName="flights")["StreamDescription"]["StreamARN"]
    cloud.cloud.kinesis.reader.read(arn, SHARD, TrimHorizon(), max_records=9, max_bytes=999)
    assert statistics(minutes.end()["GetRecords.Records", "flights"])[1] == 2


def test_subscriptions_are_counted_by_consumer(
    streams: Streams,
    cloud: InProcessCloud,
    kinesis: Any,
    minutes: Minutes,
    clock: StillClock,
) -> None:
    streams.create()
    arn = register(kinesis)
    streams.put("ab", "c", key="k")
    request = {"ConsumerARN": arn, "ShardId": SHARD, "StartingPosition": {"Type": "LATEST"}}
    kinesis_service, call = cloud.cloud.kinesis, Call(ACCOUNT, REGION, "r", clock.now_ms())
    first = subscribe(kinesis_service, call, request, cbor=False)
    with pytest.raises(AwsError):
        subscribe(kinesis_service, call, request, cbor=False)
    first.subscription.close()
    reader = Reader(cloud, clock, arn)
    assert len(reader.numbers()) == 2
    sent = {name: statistics(m) for name, m in minutes.end().items() if len(name) == 3}
    assert sent == {
        ("SubscribeToShard.RateExceeded", "flights", "radar"): (2, 1, 0, 1),
        ("SubscribeToShard.Success", "flights", "radar"): (2, 1, 0, 1),
        ("SubscribeToShardEvent.Bytes", "flights", "radar"): (1, 5, 5, 5),
        ("SubscribeToShardEvent.MillisBehindLatest", "flights", "radar"): (1, 0, 0, 0),
        ("SubscribeToShardEvent.Records", "flights", "radar"): (1, 2, 2, 2),
        ("SubscribeToShardEvent.Success", "flights", "radar"): (1, 1, 1, 1),
    }


def test_cloudwatch_shows_them(streams: Streams, cloud: InProcessCloud, clock: StillClock) -> None:
    kinesis = cloud.cloud.kinesis
    worker = MinuteMetrics(kinesis, Growth(kinesis))
    streams.create()
    streams.put("abc", key="k")
    streams.put("a", key="k")
    clock.advance(60)
    worker.step()
    cloud.cloud._parts.metrics.step()
    at = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    points = cloud.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/Kinesis",
        MetricName="IncomingBytes",
        Dimensions=[{"Name": "StreamName", "Value": "flights"}],
        StartTime=at - timedelta(minutes=5),
        EndTime=at + timedelta(minutes=5),
        Period=60,
        Statistics=["Sum", "Minimum", "Maximum"],
    )["Datapoints"]
    assert [(p["Sum"], p["Unit"]) for p in points] == [(6, "Bytes")]


class TestThrottled:
    """What was refused."""

    @pytest.fixture
    def cloud(self, data_dir: Path, clock: StillClock) -> Iterator[InProcessCloud]:
        with InProcessCloud(data_dir, clock=clock, limits="aws") as running:
            yield running

    def test_refusals_are_counted(self, streams: Streams, kinesis: Any, minutes: Minutes) -> None:
        streams.create()
        kinesis.enable_enhanced_monitoring(StreamName="flights", ShardLevelMetrics=["ALL"])
        for _ in range(3):
            streams.put(*["a"] * 500, key="k")
        failure(kinesis.put_record, StreamName="flights", Data=b"x", PartitionKey="k")
        iterator = streams.iterator()
        for _ in range(5):
            kinesis.get_records(ShardIterator=iterator, Limit=1)
        failure(kinesis.get_records, ShardIterator=iterator)
        sent = {name: statistics(m) for name, m in minutes.end().items()}
        assert sent["WriteProvisionedThroughputExceeded", "flights"] == (4, 501, 0, 500)
        assert sent["WriteProvisionedThroughputExceeded", "flights", SHARD][1] == 501
        assert sent["PutRecords.ThrottledRecords", "flights"] == (3, 500, 0, 500)
        assert sent["PutRecords.FailedRecords", "flights"] == (3, 0, 0, 0)
        assert sent["PutRecords.Success", "flights"] == (3, 2, 0, 1)
        assert sent["PutRecord.Success", "flights"] == (1, 0, 0, 0)
        assert sent["GetRecords.Success", "flights"] == (6, 5, 0, 1)
        assert sent["ReadProvisionedThroughputExceeded", "flights"] == (6, 1, 0, 1)
        assert sent["ReadProvisionedThroughputExceeded", "flights", SHARD] == (6, 1, 0, 1)
