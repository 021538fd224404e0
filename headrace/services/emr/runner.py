"""One cluster at work: a worker that takes it through its states and has its steps run.

Every change of state is in the database before the next thing happens, so a cloud killed at any point goes on rightly.
"""

from __future__ import annotations

import logging
import math
import signal

from headrace.core.workers import WorkerDone
from headrace.services.emr.bootstrap import Bootstrap, BootstrapFailed
from headrace.services.emr.metrics import ClusterMetrics
from headrace.services.emr.ports import Ports
from headrace.services.emr.state import (
    ENDED_CLUSTER,
    ClusterState,
    Step,
    StepState,
)
from headrace.services.emr.step_processes import StepProcesses
from headrace.spark_submit.limits import POLL_S

log = logging.getLogger(__name__)


class ClusterRunner:
    """The worker of one cluster. `step` is called by one thread at a time."""

    def __init__(self, ports: Ports, cluster_id: str) -> None:
        self.name = f"emr-{cluster_id}"
        self._ports = ports
        self._store = ports.store
        self._cluster = ports.store.cluster(cluster_id)
        self._steps = StepProcesses(ports, self._cluster, self._after_failure)
        self._bootstrap = Bootstrap(ports, self._cluster)
        self._metrics = ClusterMetrics(ports.clock, ports.metrics, self._cluster)

    def recover(self) -> None:
        """Find the processes of the steps that were running when the last cloud ended."""
        self._steps.recover()

    # --- Worker -------------------------------------------------------------------------------

    def step(self) -> float:
        """Look after running steps, start what may start, and settle the cluster's state."""
        cluster = self._cluster
        if cluster.state in ENDED_CLUSTER:
            raise WorkerDone
        if cluster.state is ClusterState.STARTING:
            with self._store.lock:
                # Looked at again: somebody may have terminated the cluster meanwhile.
                if cluster.state is ClusterState.STARTING:
                    self._change_cluster(ClusterState.BOOTSTRAPPING)
            return 0.0
        if cluster.state is ClusterState.BOOTSTRAPPING:
            return self._prepare()
        self._steps.look_after()
        if cluster.state is ClusterState.TERMINATING:
            self._bootstrap.kill()
            return self._terminate()
        self._launch()
        delay_s = self._settle()
        return min(delay_s, self._metrics.publish(self._store.steps(cluster.id)))

    def _prepare(self) -> float:
        """Run the bootstrap actions, if the cloud was told to, and make the cluster ready."""
        cluster, reason = self._cluster, ""
        try:
            if self._ports.run_bootstrap_actions and not self._bootstrap.done():
                return POLL_S
        except BootstrapFailed as error:
            reason = str(error)
        with self._store.lock:
            # Somebody may have terminated the cluster meanwhile.
            if cluster.state is ClusterState.BOOTSTRAPPING and reason:
                cluster.failed = True
                self._change_cluster(
                    ClusterState.TERMINATING, code="BOOTSTRAP_FAILURE", message=reason
                )
            elif cluster.state is ClusterState.BOOTSTRAPPING:
                cluster.ready_ms = self._ports.clock.now_ms()
                self._change_cluster(ClusterState.RUNNING, message="Running step")
        return 0.0

    def shut_down(self) -> None:
        """End the running processes because the cloud stops: no step is left behind unseen.

        Called when `step` will not be called again.
        """
        # A bootstrap action starts anew with the next cloud.
        self._bootstrap.kill()
        self._steps.signal_all(signal.SIGTERM)

    def abandon(self) -> None:
        """After `shut_down` and a while: kill what is left, and say of the steps how they ended."""
        self._steps.abandon()

    @property
    def busy(self) -> bool:
        """Whether a process of a step still runs."""
        return self._steps.busy

    # --- steps --------------------------------------------------------------------------------

    def _launch(self) -> None:
        cluster = self._cluster
        for step in self._store.steps(cluster.id):
            if cluster.ending or len(self._steps) >= cluster.step_concurrency:
                return
            with self._store.lock:
                if step.state is not StepState.PENDING:
                    continue
                step.started_ms = self._ports.clock.now_ms()
                self._steps.change(step, StepState.RUNNING)
                if cluster.state is not ClusterState.RUNNING:
                    self._change_cluster(ClusterState.RUNNING, message="Running step")
            self._steps.start(step)

    def _after_failure(self, step: Step) -> None:
        """Do what ActionOnFailure says. The caller holds the lock."""
        # Documented (API_StepConfig): where steps run side by side, a failure ends neither others nor the cluster.
        if step.action_on_failure == "CONTINUE" or self._cluster.step_concurrency > 1:
            return
        self._cancel_pending(f"Step {step.id} failed")
        # Documented (Managing cluster termination): a protected cluster that is kept alive stays.
        stays = self._cluster.termination_protected and self._cluster.keep_alive
        if step.action_on_failure in ("TERMINATE_CLUSTER", "TERMINATE_JOB_FLOW") and not stays:
            self._cluster.failed = True
            self._change_cluster(
                ClusterState.TERMINATING, code="STEP_FAILURE", message="Shut down as step failed"
            )

    def _cancel_pending(self, message: str) -> None:
        for other in self._store.steps(self._cluster.id):
            if other.state is StepState.PENDING:
                self._steps.change(other, StepState.CANCELLED, message)

    # --- states -------------------------------------------------------------------------------

    def _terminate(self) -> float:
        """End every step, then the cluster."""
        with self._store.lock:
            self._cancel_pending("Job terminated")
            for step in self._store.steps(self._cluster.id):
                if step in self._steps and step.cancel_signal is None:
                    step.cancel_signal = int(signal.SIGTERM)
                    self._steps.change(step, StepState.CANCEL_PENDING)
        if self._steps:
            return POLL_S
        self._cluster.ended_ms = self._ports.clock.now_ms()
        ended = (
            ClusterState.TERMINATED_WITH_ERRORS if self._cluster.failed else ClusterState.TERMINATED
        )
        self._change_cluster(
            ended, code=self._cluster.reason_code, message=self._cluster.reason_message
        )
        self._metrics.publish(self._store.steps(self._cluster.id))
        raise WorkerDone

    def _settle(self) -> float:
        cluster = self._cluster
        with self._store.lock:
            if cluster.state is ClusterState.TERMINATING:
                return 0.0
            steps = self._store.steps(cluster.id)
            if self._steps:
                return POLL_S
            if any(step.state is StepState.PENDING for step in steps):
                return 0.0
            if not cluster.keep_alive:
                self._change_cluster(
                    ClusterState.TERMINATING,
                    code="ALL_STEPS_COMPLETED",
                    message="Steps completed",
                )
                return 0.0
            if cluster.state is not ClusterState.WAITING:
                cluster.idle_since_ms = self._ports.clock.now_ms()
                self._change_cluster(ClusterState.WAITING, message=_waiting_message(steps))
            return self._until_idle_timeout()

    def _until_idle_timeout(self) -> float:
        """Return the seconds until the auto-termination policy ends the cluster; do it when it is time."""
        cluster = self._cluster
        if cluster.idle_timeout_s is None or cluster.idle_since_ms is None:
            return math.inf
        idle_s = (self._ports.clock.now_ms() - cluster.idle_since_ms) / 1000
        if idle_s < cluster.idle_timeout_s:
            return cluster.idle_timeout_s - idle_s
        self._change_cluster(
            ClusterState.TERMINATING,
            code="USER_REQUEST",
            message="Cluster terminated by auto-termination policy: it was idle too long.",
        )
        return 0.0

    def _change_cluster(self, state: ClusterState, *, code: str = "", message: str = "") -> None:
        cluster = self._cluster
        with self._store.lock:
            cluster.state, cluster.reason_code, cluster.reason_message = state, code, message
            if state is not ClusterState.WAITING:
                cluster.idle_since_ms = None
            self._store.save(cluster)
            self._ports.announcer.cluster(cluster)
        log.info("cluster %s is %s", cluster.id, state)


def _waiting_message(steps: list[Step]) -> str:
    if not steps:
        return "Cluster ready to run steps."
    if any(step.state is StepState.FAILED for step in steps[-1:]):
        return "Cluster ready after last step failed."
    return "Cluster ready after last step completed."
