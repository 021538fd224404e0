"""EMR's state and rules: the clusters of all accounts, the workers that take them through their states, and their UIs.

Sends EMR's state changes to EventBridge, as `EMR Cluster State Change` and `EMR Step Status Change` of `aws.emr`.

"Monitoring Amazon EMR events with CloudWatch" (EMR Management Guide) documents the events. As on AWS, delivery is best
effort: events that are queued when the cloud stops are lost.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.ids import Ids
from headrace.core.ports import BusEvent, EventBusSender
from headrace.core.workers import Supervisor
from headrace.services.emr.cluster_runner import ClusterRunner
from headrace.services.emr.errors import unknown_cluster, unknown_job_flow
from headrace.services.emr.service_role import check_service_role
from headrace.services.emr.state import (
    ENDED_CLUSTER,
    Cluster,
    ClusterState,
    StateChange,
    Step,
    StepState,
    Store,
)
from headrace.services.emr.step_logs import application_of
from headrace.services.emr.step_runs import Ports
from headrace.spark_submit import HISTORY_PATH, STATUS_PATH, history_path
from headrace.spark_submit.configuration import event_logs, live_url
from headrace.spark_submit.job_workers import JobWorkers
from headrace.store.database import Database


@dataclass(slots=True, kw_only=True)
class PersistentUi:
    """A persistent application UI; times are epoch milliseconds."""

    id: str
    account: str
    region: str
    cluster_id: str
    created_ms: int
    tags: dict[str, str] = field(default_factory=dict[str, str])


class AppUis:
    """The UIs of all applications. Thread-safe; a UI is durable when `add` returns.

    Args:
        folder: EMR's folder, with a folder for each cluster.
        endpoint_url: the cloud's URL.
    """

    def __init__(
        self, database: Database, store: Store, folder: Path, endpoint_url: Callable[[], str]
    ) -> None:
        self._documents = database.documents("emr_persistent_app_uis")
        self._store = store
        self._folder = folder
        self._endpoint_url = endpoint_url

    def add(self, ui: PersistentUi) -> None:
        """Store a persistent UI."""
        self._documents.put(ui.id, msgspec.to_builtins(ui))

    def find(self, ui_id: str, *, account: str, region: str) -> PersistentUi | None:
        """Return a persistent UI of an account and region, or None."""
        value = self._documents.get(ui_id)
        if value is None:
            return None
        ui = msgspec.convert(value, PersistentUi)
        return ui if (ui.account, ui.region) == (account, region) else None

    def history(self, cluster_id: str, application_id: str | None) -> str | None:
        """Return the URL of one application's history, or of all applications'; None for an unknown application."""
        if application_id is None:
            return f"{self._endpoint_url()}{HISTORY_PATH}"
        application = self._application(cluster_id, application_id)
        return (
            None if application is None else f"{self._endpoint_url()}{history_path(application[1])}"
        )

    def live(self, cluster_id: str, application_id: str) -> str | None:
        """Return the URL of a running application's UI; None when it does not run."""
        application = self._application(cluster_id, application_id)
        if application is None or application[0].state not in (
            StepState.RUNNING,
            StepState.CANCEL_PENDING,
        ):
            return None
        return live_url(self._step_folder(application[0]))

    def status(self, cluster_id: str) -> str:
        """Return the URL of the cluster's status page."""
        return f"{self._endpoint_url()}{STATUS_PATH}/{cluster_id}"

    def _application(self, cluster_id: str, application_id: str) -> tuple[Step, str] | None:
        """Return an application's step and Spark id. The given id is Spark's, or in cluster mode YARN's."""
        cluster = self._store.cluster(cluster_id)
        for step in reversed(self._store.steps(cluster_id)):
            names = [log.application_id for log in event_logs(self._step_folder(step))]
            if application_id in names:
                return step, application_id
            if names and _yarn_id(cluster, step) == application_id:
                return step, names[-1]
        return None

    def _step_folder(self, step: Step) -> Path:
        return self._folder / step.cluster_id / step.id


def _yarn_id(cluster: Cluster, step: Step) -> str | None:
    application = application_of(cluster, step)
    return None if application is None else application.id


class Emr:
    """All clusters of all accounts and regions. Thread-safe once started.

    Clusters and steps are durable. When the cloud is killed, the processes of running steps continue, and the next
    cloud takes them over. When the cloud is stopped, it ends them, and their steps are FAILED.
    """

    def __init__(
        self,
        *,
        ids: Ids,
        ports: Ports,
        announcer: Announcer,
        app_uis: AppUis,
        supervisor: Supervisor,
    ) -> None:
        self.ids = ids
        self.app_uis = app_uis
        self.store: Store = ports.store
        self._ports = ports
        self._announcer = announcer
        self._supervisor = supervisor
        self._runners = JobWorkers[ClusterRunner](ports.clock, supervisor)

    def start(self) -> None:
        """Load clusters from the database, and take over the processes of their steps."""
        self.store.load()
        self.store.on_change = self._supervisor.start(self._announcer).wake
        for cluster in self.store.clusters():
            if cluster.state not in ENDED_CLUSTER:
                runner = ClusterRunner(self._ports, cluster)
                runner.recover()
                self._runners.start(cluster.id, runner)

    def stop(self) -> None:
        """End every step's process; its step is FAILED with the reason."""
        self._runners.stop()

    # --- for actions --------------------------------------------------------------------------

    def cluster(self, cluster_id: str, *, account: str, region: str) -> Cluster:
        """Return a cluster. Raises the AwsError of Describe*, List* and other newer operations."""
        cluster = self.store.find(cluster_id, account=account, region=region)
        if cluster is None:
            raise unknown_cluster(cluster_id)
        return cluster

    def job_flow(self, job_flow_id: str, *, account: str, region: str) -> Cluster:
        """Return a cluster. Raises the AwsError of AddJobFlowSteps and other older operations."""
        flow = self.store.find(job_flow_id, account=account, region=region)
        if flow is None:
            raise unknown_job_flow()
        return flow

    def check_roles(self, cluster: Cluster) -> None:
        """Raise AwsError for a new cluster whose service role EMR may not assume."""
        check_service_role(self._ports.guard, cluster)

    def add(self, cluster: Cluster, steps: list[Step]) -> None:
        """Store a new cluster and start its worker."""
        self.store.add(cluster, steps)
        self._runners.start(cluster.id, ClusterRunner(self._ports, cluster))

    def wake(self, cluster_id: str) -> None:
        """Wake the cluster's worker after a change."""
        self._runners.wake(cluster_id)


log = logging.getLogger(__name__)

SOURCE = "aws.emr"

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


class Announcer:
    """The worker that sends state changes to the default event bus, in order."""

    def __init__(self, store: Store, buses: EventBusSender) -> None:
        self.name = "emr-events"
        self._store = store
        self._buses = buses

    def step(self) -> float:
        """Send the event of one change; see `Worker.step`. An event that the bus refuses is logged and dropped."""
        change = self._store.next_change()
        if change is None:
            return math.inf
        event = event_of(change)
        if event is not None:
            cluster = change.cluster
            bus = make_arn("events", cluster.region, cluster.account, "event-bus/default")
            try:
                self._buses.put(bus, event)
            except (AwsError, LookupError) as error:
                log.warning("an event of EMR was not taken: %s", error)
        return 0.0


def event_of(change: StateChange) -> BusEvent | None:
    """Return the event of a state change; None for a state for which EMR sends none."""
    if change.step is None:
        return _cluster_event(change.cluster, change.at_ms)
    return _step_event(change.cluster, change.step, change.at_ms)


def _cluster_event(cluster: Cluster, now_ms: int) -> BusEvent | None:
    sentence = _CLUSTER_SENTENCES.get(cluster.state)
    if sentence is None:
        return None
    reason = {"code": cluster.reason_code}
    if cluster.reason_message:
        reason["message"] = cluster.reason_message
    text = sentence.format(
        at=_minute(now_ms), created=_minute(cluster.created_ms), code=cluster.reason_code
    )
    detail = {
        "severity": _SEVERITIES.get(cluster.state, "INFO"),
        "stateChangeReason": json.dumps(reason),
        "name": cluster.name,
        "clusterId": cluster.id,
        "state": str(cluster.state),
        "message": f"{_cluster_name(cluster)} {text}",
    }
    return BusEvent(SOURCE, "EMR Cluster State Change", json.dumps(detail))


def _step_event(cluster: Cluster, step: Step, now_ms: int) -> BusEvent | None:
    sentence = _STEP_SENTENCES.get(step.state)
    if sentence is None:
        return None
    text = sentence.format(cluster=_cluster_name(cluster), at=_minute(now_ms))
    detail = {
        "severity": _SEVERITIES.get(step.state, "INFO"),
        "actionOnFailure": step.action_on_failure,
        "stepId": step.id,
        "name": step.name,
        "clusterId": cluster.id,
        "state": str(step.state),
        "message": f"Step {step.id} ({step.name}) {text}",
    }
    return BusEvent(SOURCE, "EMR Step Status Change", json.dumps(detail))


def _cluster_name(cluster: Cluster) -> str:
    return f"Amazon EMR cluster {cluster.id} ({cluster.name})"


def _minute(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
