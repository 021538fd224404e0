"""EMR: the backend that actions work on, and the service for the gateway."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from headrace.aws.service import ServiceApi
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import EventBusSender, LogSink, MetricSink, ObjectStore, any_secret
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.emr.announcements import Announcer
from headrace.services.emr.app_uis import AppUis
from headrace.services.emr.errors import translate, unknown_cluster
from headrace.services.emr.model import ENDED_CLUSTER, Cluster, Step
from headrace.services.emr.ports import RunnerPorts
from headrace.services.emr.runner import ClusterRunner
from headrace.services.emr.store import Store
from headrace.spark_submit.commands import Workshop
from headrace.spark_submit.limits import POLL_S, STOP_GRACE_S
from headrace.store.database import Database

log = logging.getLogger(__name__)

EMR_FOLDER = "emr"


class Emr:
    """All clusters of all accounts and regions. Thread-safe once started.

    Clusters, steps and their states last, and so do the processes of running steps when the cloud is killed: the
    next one takes them over. A cloud that is stopped in order ends them, and their steps are FAILED.
    `logs` is taken for the sake of the services' common form: EMR writes its logs to S3.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        clock: Clock,
        ids: Ids,
        database: Database,
        supervisor: Supervisor,
        objects: ObjectStore,
        endpoint_url: Callable[[], str],
        secret_of: Callable[[str], str] = any_secret,
        logs: LogSink,
        metrics: MetricSink,
        buses: EventBusSender,
        run_bootstrap_actions: bool = False,
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.store = Store(database)
        self._supervisor = supervisor
        self.announcer = Announcer(clock, buses)
        self._ports = RunnerPorts(
            clock=clock,
            store=self.store,
            workshop=Workshop(objects, endpoint_url, os.cpu_count() or 1, secret_of),
            metrics=metrics,
            announcer=self.announcer,
            folder=(data_dir / EMR_FOLDER).absolute(),
            run_bootstrap_actions=run_bootstrap_actions,
        )
        self.app_uis = AppUis(database, self.store, self._ports.folder, endpoint_url)
        self._runners: dict[str, tuple[ClusterRunner, WorkerHandle]] = {}

    def start(self) -> None:
        """Recover clusters from the database, and take over the processes of their steps."""
        self.store.load()
        self.announcer.wake = self._supervisor.start(self.announcer).wake
        for cluster in self.store.clusters():
            if cluster.state not in ENDED_CLUSTER:
                self._run(cluster.id, recover=True)

    def stop(self) -> None:
        """End every step's process; its step is FAILED with the reason."""
        runners, self._runners = self._runners, {}
        for _, handle in runners.values():
            handle.stop()
        for _, handle in runners.values():
            handle.join(STOP_GRACE_S)
        for runner, _ in runners.values():
            runner.shut_down()
        deadline_s = self.clock.monotonic_s() + STOP_GRACE_S
        never = threading.Event()
        while self.clock.monotonic_s() < deadline_s and any(r.busy for r, _ in runners.values()):
            self.clock.wait(never, POLL_S)
        for runner, _ in runners.values():
            runner.abandon()

    def _run(self, cluster_id: str, *, recover: bool = False) -> None:
        runner = ClusterRunner(self._ports, cluster_id)
        if recover:
            runner.recover()
        self._runners[cluster_id] = (runner, self._supervisor.start(runner))

    # --- for actions --------------------------------------------------------------------------

    def cluster(self, cluster_id: str, *, account: str, region: str) -> Cluster:
        """Return a cluster. Raises AwsError in the words of the newer operations."""
        found = self.store.find(cluster_id, account=account, region=region)
        if found is None:
            raise unknown_cluster(cluster_id)
        return found

    def add(self, cluster: Cluster, steps: list[Step]) -> None:
        """Store a new cluster and set it going."""
        self.store.add(cluster, steps)
        self.announcer.cluster(cluster)
        for step in steps:
            self.announcer.change(cluster, step)
        self._run(cluster.id)

    def wake(self, cluster_id: str) -> None:
        """Have the cluster's runner look at what has changed."""
        entry = self._runners.get(cluster_id)
        if entry is not None:
            entry[1].wake()


def emr_api(emr: Emr) -> ServiceApi:
    """Return the service for the gateway."""
    from headrace.services.emr.actions import ACTIONS

    return ServiceApi(name="emr", backend=emr, actions=ACTIONS, translate=translate)
