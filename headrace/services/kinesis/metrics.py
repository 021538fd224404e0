"""Sends Kinesis's CloudWatch metrics: makes them from the counts of `counters` once a minute.

Names, dimensions and units: docs.aws.amazon.com/streams/latest/dev/monitoring-with-cloudwatch.html (documented). Each
metric is sent as one statistic set (count, sum, minimum, maximum) a minute; a stream without traffic sends none.

Those of channels: data-delivery-monitoring.md; of queues: queues-monitoring.html (documented). That page names more
metrics than are known here: of dead-letter records only VisibleDeadLetterQueueRecords.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.ports import Metric
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.channel_orders import ChannelOrder
from headrace.services.kinesis.errors import QUEUE_VISIBLE_SHOWN
from headrace.services.kinesis.queues.open_queue import OpenQueue
from headrace.services.kinesis.resharding import Growth
from headrace.services.kinesis.state import Key, Stat, Stream
from headrace.services.kinesis.subscriptions import SentEvent

# A queue without visible records sends no metrics after about six hours (documented), until somebody receives.
_PAUSES_AFTER_MS = 6 * 3_600_000


def queue_metrics(opened: OpenQueue, namespace: str, minute_ms: int, now_ms: int) -> list[Metric]:
    """Return the metrics of the minute that began at `minute_ms`."""
    counted = dict(opened.counters.take())
    counts = opened.deliveries.counts(now_ms)
    if counts.visible:
        opened.counters.visible_ms = now_ms
    counters = opened.counters
    since_ms = max(counters.active_ms, counters.visible_ms, opened.queue.created_ms)
    if not counted and now_ms - since_ms > _PAUSES_AFTER_MS:
        return []
    for name, value in (
        ("VisibleQueueRecords", min(counts.visible, QUEUE_VISIBLE_SHOWN)),
        ("InFlightQueueRecords", counts.in_flight),
        ("VisibleDeadLetterQueueRecords", min(counts.dead_visible, QUEUE_VISIBLE_SHOWN)),
    ):
        counted[name] = Stat()
        counted[name].note(value)
    queue = opened.queue
    return [
        Metric(
            namespace=namespace,
            name=name,
            value=stat.total,
            unit="Count",
            dimensions=(("QueueId", queue.queue_id), ("QueueName", queue.name)),
            timestamp_ms=minute_ms,
            statistics=(stat.count, stat.total, stat.least, stat.most),
        )
        for name, stat in sorted(counted.items())
    ]


_UNITS = {"DataFreshness": "Seconds"}


def channel_metrics(order: ChannelOrder, namespace: str, minute_ms: int) -> list[Metric]:
    """Return the metrics of the minute that began at `minute_ms`; a channel that did nothing has none (assumed)."""
    channel = order.channel
    return [
        Metric(
            namespace=namespace,
            name=f"DeliveryTo{'Iceberg' if channel.table else 'S3'}.{name}",
            value=stat.total,
            unit="Bytes" if name.startswith("Bytes") else _UNITS.get(name, "Count"),
            dimensions=(
                ("ChannelId", channel.channel_id),
                ("ChannelName", channel.name),
                ("StreamName", order.stream.name),
            ),
            timestamp_ms=minute_ms,
            statistics=(stat.count, stat.total, stat.least, stat.most),
        )
        for name, stat in sorted(order.take_stats().items())
    ]


NAMESPACE = "AWS/Kinesis"
MINUTE_MS = 60_000

Dimensions = tuple[tuple[str, str], ...]


class MinuteMetrics:
    """A `Worker` that sends the metrics of each minute, and lets on-demand streams grow with their traffic."""

    name = "kinesis metrics"

    def __init__(self, kinesis: Kinesis, growth: Growth) -> None:
        self._kinesis = kinesis
        self._growth = growth
        self._minute = kinesis.clock.now_ms() // MINUTE_MS

    def step(self) -> float:
        """Send the metrics of the last minute, if a new minute has begun."""
        kinesis = self._kinesis
        now_ms = kinesis.clock.now_ms()
        if now_ms // MINUTE_MS == self._minute:
            return (MINUTE_MS - now_ms % MINUTE_MS) / 1000
        self._minute = now_ms // MINUTE_MS
        # Everything counts for the minute that ended last; counts from an earlier minute are rare.
        minute_ms = (self._minute - 1) * MINUTE_MS
        for stream in list(kinesis.streams.values()):
            counted = with_derived(stream.counters.take())
            if kinesis.metrics is not None and counted:
                metrics = metrics_of(stream, counted, minute_ms)
                kinesis.metrics.put(metrics, account=stream.account, region=stream.region)
            arrived, records = (_total(counted, n) for n in ("IncomingBytes", "IncomingRecords"))
            self._growth.note_minute(stream, arrived, records, now_ms)
        self._growth.forget_deleted()
        self._put_of_queues(minute_ms, now_ms)
        self._put_of_channels(minute_ms)
        return (MINUTE_MS - kinesis.clock.now_ms() % MINUTE_MS) / 1000

    def _put_of_queues(self, minute_ms: int, now_ms: int) -> None:
        kinesis = self._kinesis
        for opened in kinesis.queues.all():
            metrics = queue_metrics(opened, NAMESPACE, minute_ms, now_ms)
            if kinesis.metrics is not None and metrics:
                queue = opened.queue
                kinesis.metrics.put(metrics, account=queue.account, region=queue.region)

    def _put_of_channels(self, minute_ms: int) -> None:
        kinesis = self._kinesis
        for order in kinesis.channels.all():
            metrics = channel_metrics(order, NAMESPACE, minute_ms)
            if kinesis.metrics is not None and metrics:
                kinesis.metrics.put(metrics, account=order.account, region=order.region)


def _total(counted: Mapping[Key, Stat], name: str) -> int:
    stat = counted.get((name, "", ""))
    return 0 if stat is None else stat.total


def observe_event(delivered: SentEvent) -> None:
    """Count an event of SubscribeToShard."""
    counters, consumer = delivered.stream.counters, delivered.consumer.name
    for name, value in (
        ("Bytes", delivered.data_bytes),
        ("Records", delivered.records),
        ("MillisBehindLatest", delivered.behind_ms),
        ("Success", 1),
    ):
        counters.note(f"SubscribeToShardEvent.{name}", value, consumer=consumer)
    if delivered.stream.enhanced_metrics:
        shard = delivered.shard.shard_id
        counters.note("OutgoingBytes", delivered.data_bytes, shard=shard)
        counters.note("OutgoingRecords", delivered.records, shard=shard)


def with_derived(counted: dict[Key, Stat]) -> dict[Key, Stat]:
    """Return the counts, together with the metrics that are computed from them."""

    def stat(name: str) -> Stat:
        return counted.get((name, "", "")) or Stat()

    def add(name: str, *sources: Stat, zeros: int = 0, ones: int = 0) -> None:
        totals = Stat()
        for source in sources:
            totals.merge(source)
        totals.note_many(0, zeros)
        totals.note_many(1, ones)
        if totals.count:
            counted[name, "", ""] = totals

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
    """Return the metrics of one minute of a stream; shard-level metrics only where enhanced monitoring has them on."""
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
