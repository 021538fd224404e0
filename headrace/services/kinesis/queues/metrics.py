"""Makes a queue's CloudWatch metrics, once a minute.

Names, dimensions and units: queues-monitoring.html (documented). The page names more metrics than are known here:
of dead-letter records only VisibleDeadLetterQueueRecords.
"""

from __future__ import annotations

from headrace.core.ports import Metric
from headrace.services.kinesis.counters import Stat
from headrace.services.kinesis.limits import QUEUE_VISIBLE_SHOWN
from headrace.services.kinesis.queues.open_queue import OpenQueue

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
