"""Puts an agent's metrics into CloudWatch as Kinesis Agent does: four for each destination, over all its requests.

Names, units, the dimension and the defaults are those of awslabs/amazon-kinesis-agent (observed in its source); what
they mean is documented: https://docs.aws.amazon.com/streams/latest/dev/agent-health.html.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.client.receipts import RequestCounts
from headrace.core.clock import Clock

_LOG = logging.getLogger("headrace.agent")
_MOST_AT_ONCE = 20
_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Statistics:
    """One metric's values since it was put last."""

    count: int
    sum: float
    least: float
    most: float

    def add(self, value: float) -> None:
        self.count += 1
        self.sum += value
        self.least, self.most = min(self.least, value), max(self.most, value)


class AgentMetrics:
    """The statistics of an agent's requests. Thread-safe.

    Durability: none. What CloudWatch does not take is dropped, which the log says; records do not wait for it.
    """

    def __init__(
        self, make_client: Callable[[], Any], namespace: str, every_s: float, clock: Clock
    ) -> None:
        """Take what makes boto3's client, which nothing needs before the first publication."""
        self._make_client, self._namespace = make_client, namespace
        self._every_s, self._clock = every_s, clock
        self._client: Any = None
        self._lock, self._statistics = threading.Lock(), dict[_Key, _Statistics]()
        self._failures = 0

    def noting(self, destination: str) -> Callable[[RequestCounts], None]:
        """Return what notes a request to a destination, such as `KinesisStream:logs`."""

        def note(counts: RequestCounts) -> None:
            values = [("RecordSendAttempts", "Count", counts.records)]
            values.append(("ServiceErrors", "Count", int(counts.has_failed)))
            if not counts.has_failed:
                values.append(("RecordSendErrors", "Count", counts.refused))
                values.append(("BytesSent", "Bytes", counts.bytes_))
            with self._lock:
                for name, unit, value in values:
                    known = self._statistics.get((destination, name, unit))
                    if known is None:
                        first = _Statistics(1, value, value, value)
                        self._statistics[destination, name, unit] = first
                    else:
                        known.add(value)

        return note

    def run(self, stop: threading.Event) -> None:
        """Publish again and again, and once more at the end."""
        while not self._clock.wait(stop, self._every_s):
            self.publish()
        self.publish()

    def publish(self) -> None:
        """Put what was noted since the last time."""
        with self._lock:
            statistics, self._statistics = self._statistics, {}
        data = [_datum(key, values) for key, values in statistics.items()]
        try:
            if data and self._client is None:
                self._client = self._make_client()
            for at in range(0, len(data), _MOST_AT_ONCE):
                self._client.put_metric_data(
                    Namespace=self._namespace, MetricData=data[at : at + _MOST_AT_ONCE]
                )
        except Exception as error:  # noqa: BLE001 - such as an endpoint that is no URL: records do not suffer from it
            self._failures += 1
            if self._failures & (self._failures - 1) == 0:
                _LOG.warning(
                    "metrics are not published, and dropped: %s (%d times);"
                    " cloudwatch.emitMetrics = false spares them",
                    error,
                    self._failures,
                )


def _datum(key: _Key, values: _Statistics) -> dict[str, Any]:
    destination, name, unit = key
    return {
        "MetricName": name,
        "Dimensions": [{"Name": "Destination", "Value": destination}],
        "Unit": unit,
        "StatisticValues": {
            "SampleCount": values.count,
            "Sum": values.sum,
            "Minimum": values.least,
            "Maximum": values.most,
        },
    }
