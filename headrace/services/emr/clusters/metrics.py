"""A cluster's CloudWatch metrics: its applications by state, and whether it is idle.

"Monitoring Amazon EMR metrics with CloudWatch" documents names, units, the dimension JobFlowId and the five-minute
period. headrace counts each step as one YARN application, and also publishes at every change.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from headrace.core.clock import Clock
from headrace.core.ports import Metric, MetricSink
from headrace.services.emr.limits import METRICS_EVERY_S
from headrace.services.emr.state import ENDED_CLUSTER, Cluster, ClusterState, Step, StepState

NAMESPACE = "AWS/ElasticMapReduce"


def counts(cluster: Cluster, steps: Sequence[Step]) -> dict[str, int]:
    """Return the current values by metric name."""
    states = Counter(step.state for step in steps)
    running = states[StepState.RUNNING] + states[StepState.CANCEL_PENDING]
    killed = sum(
        step.state is StepState.CANCELLED and step.started_ms is not None for step in steps
    )
    return {
        "AppsSubmitted": sum(step.started_ms is not None for step in steps),
        "AppsPending": states[StepState.PENDING],
        "AppsRunning": running,
        "AppsCompleted": states[StepState.COMPLETED],
        "AppsFailed": states[StepState.FAILED],
        "AppsKilled": killed,
        "IsIdle": int(
            cluster.state is ClusterState.WAITING and not running + states[StepState.PENDING]
        ),
    }


class ClusterMetrics:
    """Publishes one cluster's metrics. Used by one thread at a time."""

    def __init__(self, clock: Clock, sink: MetricSink, cluster: Cluster) -> None:
        self._clock = clock
        self._sink = sink
        self._cluster = cluster
        self._published: dict[str, int] = {}
        self._next_s = -math.inf

    def publish(self, steps: Sequence[Step]) -> float:
        """Publish if a value has changed or the period is over; return the seconds until the next period."""
        cluster = self._cluster
        if cluster.ready_ms is None:
            return METRICS_EVERY_S
        now_s, values = self._clock.monotonic_s(), counts(cluster, steps)
        if values != self._published or now_s >= self._next_s:
            self._published, self._next_s = values, now_s + METRICS_EVERY_S
            self._sink.put(
                [
                    Metric(
                        namespace=NAMESPACE,
                        name=name,
                        value=float(value),
                        unit="None" if name == "IsIdle" else "Count",
                        dimensions=(("JobFlowId", cluster.id),),
                        timestamp_ms=self._clock.now_ms(),
                    )
                    for name, value in values.items()
                ],
                account=cluster.account,
                region=cluster.region,
            )
        return math.inf if cluster.state in ENDED_CLUSTER else self._next_s - now_s
