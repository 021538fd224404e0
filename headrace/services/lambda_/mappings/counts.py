"""A mapping's CloudWatch metrics: the function's IteratorAge, and the mapping's event counts if they are enabled.

Source: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html#event-source-mapping-metrics
(documented). The counts are of events, not batches, and are sent only if MetricsConfig has EventCount.
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
        """Count events, if the mapping's event counts are enabled."""
        if events:
            dimension = ("EventSourceMappingUUID", self._mapping.uuid)
            self._put(
                Metric(NAMESPACE, name, float(events), "Count", (dimension,), self._read_now())
            )

    def iterator_age(self, arrival_ms: int) -> None:
        """Send the age that the newest record of a batch has when the function receives it."""
        age_ms = float(max(0, self._read_now() - arrival_ms))
        dimension = ("FunctionName", self._mapping.function_arn.split(":")[6])
        self._put(
            Metric(NAMESPACE, "IteratorAge", age_ms, "Milliseconds", (dimension,), self._read_now())
        )

    def _put(self, metric: Metric) -> None:
        mapping = self._mapping
        self._metrics.put([metric], account=mapping.account, region=mapping.region)

    def _read_now(self) -> int:
        return self._clock.now_ms()
