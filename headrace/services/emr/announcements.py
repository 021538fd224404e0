"""State changes as EventBridge events: `EMR Cluster State Change` and `EMR Step Status Change` of `aws.emr`.

The form of an event is that of "Monitoring Amazon EMR events with CloudWatch" in the EMR Management Guide. As there,
delivery is an effort and no promise: events that wait when the cloud stops are lost.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from headrace.aws.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.clock import Clock
from headrace.core.ports import BusEvent, EventBusSender
from headrace.services.emr.state import Cluster, ClusterState, Step, StepState

log = logging.getLogger(__name__)

SOURCE = "aws.emr"
MOST_WAITING = 10_000

_CLUSTER_SENTENCES = {
    ClusterState.STARTING: "was requested at {at} and is being created.",
    ClusterState.RUNNING: "began running steps at {at}.",
    ClusterState.WAITING: "was created at {created} and is ready for use.",
    ClusterState.TERMINATED: "has terminated at {at} with a reason of {code}.",
    ClusterState.TERMINATED_WITH_ERRORS: "has terminated with errors at {at} with a reason of {code}.",
}
_STEP_SENTENCES = {
    StepState.PENDING: "was added to {cluster} at {at} and is pending execution.",
    StepState.RUNNING: "in {cluster} started running at {at}.",
    StepState.COMPLETED: "in {cluster} completed execution at {at}.",
    StepState.CANCELLED: "in {cluster} was cancelled at {at}.",
    StepState.FAILED: "in {cluster} failed at {at}.",
}
_SEVERITIES = {
    ClusterState.TERMINATED_WITH_ERRORS: "CRITICAL",
    StepState.FAILED: "ERROR",
    StepState.CANCELLED: "WARN",
}


def cluster_event(cluster: Cluster, now_ms: int) -> BusEvent | None:
    """Return the event of a cluster's present state; None for states that EMR does not announce."""
    sentence = _CLUSTER_SENTENCES.get(cluster.state)
    if sentence is None:
        return None
    reason = {"code": cluster.reason_code}
    if cluster.reason_message:
        reason["message"] = cluster.reason_message
    said = sentence.format(
        at=_minute(now_ms), created=_minute(cluster.created_ms), code=cluster.reason_code
    )
    detail = {
        "severity": _SEVERITIES.get(cluster.state, "INFO"),
        "stateChangeReason": json.dumps(reason),
        "name": cluster.name,
        "clusterId": cluster.id,
        "state": str(cluster.state),
        "message": f"{_cluster_name(cluster)} {said}",
    }
    return BusEvent(SOURCE, "EMR Cluster State Change", json.dumps(detail))


def step_event(cluster: Cluster, step: Step, now_ms: int) -> BusEvent | None:
    """Return the event of a step's present state; None for states that EMR does not announce."""
    sentence = _STEP_SENTENCES.get(step.state)
    if sentence is None:
        return None
    said = sentence.format(cluster=_cluster_name(cluster), at=_minute(now_ms))
    detail = {
        "severity": _SEVERITIES.get(step.state, "INFO"),
        "actionOnFailure": step.action_on_failure,
        "stepId": step.id,
        "name": step.name,
        "clusterId": cluster.id,
        "state": str(step.state),
        "message": f"Step {step.id} ({step.name}) {said}",
    }
    return BusEvent(SOURCE, "EMR Step Status Change", json.dumps(detail))


def _cluster_name(cluster: Cluster) -> str:
    return f"Amazon EMR cluster {cluster.id} ({cluster.name})"


def _minute(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


class Announcer:
    """Sends state changes to the default event bus, in order, on a worker's thread.

    `cluster` and `step` are thread-safe, never block and never raise: callers hold locks.
    """

    def __init__(self, clock: Clock, buses: EventBusSender) -> None:
        self.name = "emr-events"
        self.wake: Callable[[], None] = lambda: None
        self._clock = clock
        self._buses = buses
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, BusEvent]] = deque(maxlen=MOST_WAITING)

    def cluster(self, cluster: Cluster) -> None:
        """Announce a cluster's present state."""
        self._queue(cluster, cluster_event(cluster, self._clock.now_ms()))

    def change(self, cluster: Cluster, step: Step) -> None:
        """Announce a step's present state."""
        self._queue(cluster, step_event(cluster, step, self._clock.now_ms()))

    def _queue(self, cluster: Cluster, event: BusEvent | None) -> None:
        if event is None:
            return
        bus = make_arn("events", cluster.region, cluster.account, "event-bus/default")
        with self._lock:
            self._waiting.append((bus, event))
        self.wake()

    def step(self) -> float:
        """Send one event; see `Worker.step`. An event that the bus refuses is logged and dropped."""
        with self._lock:
            if not self._waiting:
                return math.inf
            bus, event = self._waiting.popleft()
        try:
            self._buses.put(bus, event)
        except (AwsError, LookupError) as error:
            log.warning("an event of EMR was not taken: %s", error)
        return 0.0
