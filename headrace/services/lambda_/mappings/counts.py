"""A mapping's metrics for CloudWatch: its function's IteratorAge, and its own event counts where they are on.

Source: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html#event-source-mapping-metrics
(documented). Events are counted, not batches, and only with MetricsConfig's EventCount.
"""

from __future__ import annotations

from headrace.core.clock import Clock
from headrace.core.ports import Metric, MetricSink
from headrace.services.lambda_.mappings.mapping import Mapping

NAMESPACE = "AWS/Lambda"

POLLED = "PolledEventCount"
FILTERED_OUT = "FilteredOutEventCount"
INVOKED = "InvokedEventCount"
FAILED_INVOKE = "FailedInvokeEventCount"
DELETED = "DeletedEventCount"
DROPPED = "DroppedEventCount"
DELIVERED = "OnFailureDestinationDeliveredEventCount"


class Counts:
    """The metrics of one mapping. Thread-safe."""

    def __init__(self, mapping: Mapping, metrics: MetricSink, clock: Clock) -> None:
        self._mapping = mapping
        self._metrics = metrics
        self._clock = clock

    def count(self, name: str, events: int) -> None:
        """Count events of a mapping that has event counts on."""
        if events:
            dimension = ("EventSourceMappingUUID", self._mapping.uuid)
            self._put(Metric(NAMESPACE, name, float(events), "Count", (dimension,), self._now()))

    def iterator_age(self, arrival_ms: int) -> None:
        """Send how old the newest record of a batch is as the function receives it."""
        age_ms = float(max(0, self._now() - arrival_ms))
        dimension = ("FunctionName", self._mapping.function_arn.split(":")[6])
        self._put(
            Metric(NAMESPACE, "IteratorAge", age_ms, "Milliseconds", (dimension,), self._now())
        )

    def _put(self, metric: Metric) -> None:
        mapping = self._mapping
        self._metrics.put([metric], account=mapping.account, region=mapping.region)

    def _now(self) -> int:
        return self._clock.now_ms()
