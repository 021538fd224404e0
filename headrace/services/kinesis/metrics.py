"""CloudWatch's metrics of Kinesis, made of what `meters` counted, every minute.

Names, dimensions and units: docs.aws.amazon.com/streams/latest/dev/monitoring-with-cloudwatch.html (documented).
Each goes out as one statistic set (count, sum, least, most) a minute; a stream without traffic has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.ports import Metric
from headrace.services.kinesis.growth import Growth
from headrace.services.kinesis.meters import Key, Stat
from headrace.services.kinesis.subscriptions import Delivered

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis
    from headrace.services.kinesis.state import Stream

NAMESPACE = "AWS/Kinesis"
MINUTE_MS = 60_000

Dimensions = tuple[tuple[str, str], ...]


class MinuteMetrics:
    """A `Worker` that sends each minute's metrics, and lets on-demand streams grow by what it sees."""

    name = "kinesis metrics"

    def __init__(self, kinesis: Kinesis, growth: Growth) -> None:
        self._kinesis = kinesis
        self._growth = growth
        self._minute = kinesis.clock.now_ms() // MINUTE_MS

    def step(self) -> float:
        """Send what was counted since the last step, once its minute is over."""
        kinesis = self._kinesis
        now_ms = kinesis.clock.now_ms()
        if now_ms // MINUTE_MS == self._minute:
            return (MINUTE_MS - now_ms % MINUTE_MS) / 1000
        self._minute = now_ms // MINUTE_MS
        # The minute that ended last: what is counted is seldom of one before.
        minute_ms = (self._minute - 1) * MINUTE_MS
        for stream in list(kinesis.streams.values()):
            counted = whole(stream.meter.take())
            if kinesis.metrics is not None and counted:
                found = metrics_of(stream, counted, minute_ms)
                kinesis.metrics.put(found, account=stream.account, region=stream.region)
            arrived, records = (_total(counted, n) for n in ("IncomingBytes", "IncomingRecords"))
            self._growth.look(stream, arrived, records, now_ms)
        self._growth.forget_deleted()
        return (MINUTE_MS - kinesis.clock.now_ms() % MINUTE_MS) / 1000


def _total(counted: Mapping[Key, Stat], name: str) -> int:
    stat = counted.get((name, "", ""))
    return 0 if stat is None else stat.total


def observe_event(delivered: Delivered) -> None:
    """Count an event of SubscribeToShard."""
    meter, consumer = delivered.stream.meter, delivered.consumer.name
    for name, value in (
        ("Bytes", delivered.data_bytes),
        ("Records", delivered.records),
        ("MillisBehindLatest", delivered.behind_ms),
        ("Success", 1),
    ):
        meter.note(f"SubscribeToShardEvent.{name}", value, consumer=consumer)
    if delivered.stream.enhanced_metrics:
        shard = delivered.shard.shard_id
        meter.note("OutgoingBytes", delivered.data_bytes, shard=shard)
        meter.note("OutgoingRecords", delivered.records, shard=shard)


def whole(counted: dict[Key, Stat]) -> dict[Key, Stat]:
    """Return what was counted, with the metrics that follow from others."""

    def stat(name: str) -> Stat:
        return counted.get((name, "", "")) or Stat()

    def add(name: str, *sources: Stat, zeros: int = 0, ones: int = 0) -> None:
        made = Stat()
        for source in sources:
            made.merge(source)
        made.note_many(0, zeros)
        made.note_many(1, ones)
        if made.count:
            counted[name, "", ""] = made

    put, puts = stat("PutRecord.Bytes"), stat("PutRecords.Bytes")
    refused_put = stat("PutRecord.Success")
    failed_puts, exceeded = stat("PutRecords.Success"), stat("WriteProvisionedThroughputExceeded")
    stored = stat("PutRecords.SuccessfulRecords")
    requests = put.count + refused_put.count + puts.count
    add("IncomingBytes", put, puts)
    add("IncomingRecords", stored, ones=put.count)
    add("PutRecord.Success", refused_put, ones=put.count)
    add("PutRecords.Success", failed_puts, ones=puts.count - failed_puts.count)
    add("PutRecords.Records", stored)
    for name in ("PutRecords.FailedRecords", "PutRecords.ThrottledRecords"):
        few = stat(name)
        add(name, few, zeros=puts.count - few.count)
    add("WriteProvisionedThroughputExceeded", exceeded, zeros=requests - exceeded.count)
    got, refused_get = stat("GetRecords.Bytes"), stat("GetRecords.Success")
    add("GetRecords.Success", refused_get, ones=got.count)
    add("GetRecords.IteratorAge", stat("GetRecords.IteratorAgeMilliseconds"))
    add("ReadProvisionedThroughputExceeded", zeros=got.count, ones=refused_get.count)
    return counted


def metrics_of(stream: Stream, counted: Mapping[Key, Stat], minute_ms: int) -> list[Metric]:
    """Return the metrics of one minute of a stream; of shards, those that enhanced monitoring has on."""
    metrics: list[Metric] = []
    for (name, shard, consumer), stat in sorted(counted.items()):
        if shard and name not in stream.enhanced_metrics:
            continue
        dimensions: Dimensions = (("StreamName", stream.name),)
        if shard:
            dimensions += (("ShardId", shard),)
        if consumer:
            dimensions += (("ConsumerName", consumer),)
        metrics.append(
            Metric(
                namespace=NAMESPACE,
                name=name,
                value=stat.total,
                unit=_unit(name),
                dimensions=dimensions,
                timestamp_ms=minute_ms,
                statistics=(stat.count, stat.total, stat.least, stat.most),
            )
        )
    return metrics


def _unit(name: str) -> str:
    if name.endswith("Bytes"):
        return "Bytes"
    if name.endswith(("Latency", "IteratorAge", "IteratorAgeMilliseconds", "MillisBehindLatest")):
        return "Milliseconds"
    return "Count"
