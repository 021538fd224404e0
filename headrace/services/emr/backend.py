"""EMR's state and rules: the clusters of all accounts, and the workers that take them through their states."""

from __future__ import annotations

from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.services.emr.announcements import Announcer
from headrace.services.emr.app_uis import AppUis, Ports
from headrace.services.emr.cluster_runner import ClusterRunner
from headrace.services.emr.errors import unknown_cluster, unknown_job_flow
from headrace.services.emr.nodes import check_service_role
from headrace.services.emr.state import ENDED_CLUSTER, Cluster, Step, Store
from headrace.spark_submit.job import JobWorkers


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
