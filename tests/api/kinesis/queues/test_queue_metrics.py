"""CloudWatch's metrics of queues."""

from __future__ import annotations

from headrace.core.ports import Metric
from headrace.services.kinesis.metrics import queue_metrics
from tests.api.kinesis.queues.lab import QueueLab


def minute(lab: QueueLab, queue: str) -> dict[str, Metric]:
    opened = lab.cloud.cloud.kinesis.queues.by_arn(queue)
    assert opened is not None
    now_ms = lab.clock.now_ms()
    return {m.name: m for m in queue_metrics(opened, "AWS/Kinesis", now_ms - 60_000, now_ms)}


def values(lab: QueueLab, queue: str) -> dict[str, float]:
    return {name: metric.value for name, metric in minute(lab, queue).items()}


def test_what_happens_is_counted_and_what_there_is_is_shown(lab: QueueLab) -> None:
    queue = lab.dead_letters_after(1)
    lab.put("dead")
    lab.receive(queue, VisibilityTimeoutSeconds=0)
    lab.put(*"abcd")
    records = lab.receive(queue, Limit=3)
    lab.acknowledge(queue, records[:1])
    assert values(lab, queue) == {
        "ReceivedQueueRecords": 4,
        "AcknowledgedQueueRecords": 1,
        "VisibleQueueRecords": 1,
        "InFlightQueueRecords": 2,
        "VisibleDeadLetterQueueRecords": 1,
    }
    lab.receive(queue)
    assert lab.receive(queue) == []
    assert values(lab, queue)["EmptyReceives"] == 1


def test_the_dimensions_are_the_id_and_the_name(lab: QueueLab) -> None:
    queue = lab.queue()
    metric = minute(lab, queue)["VisibleQueueRecords"]
    assert metric.dimensions == (
        ("QueueId", queue.rpartition("/")[2]),
        ("QueueName", "jobs"),
    )
    assert (metric.namespace, metric.unit) == ("AWS/Kinesis", "Count")


def test_an_idle_queue_sends_none_until_somebody_receives(lab: QueueLab) -> None:
    queue = lab.queue()
    assert values(lab, queue)
    lab.clock.advance(6 * 3600 + 1)
    assert values(lab, queue) == {}
    lab.receive(queue)
    assert "EmptyReceives" in values(lab, queue)
