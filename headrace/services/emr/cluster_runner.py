"""The worker of one cluster: takes it through its states, and starts and watches its steps.

Every change of state is stored before the next action, so the next cloud can continue after a kill at any point: a step
is stored as RUNNING before its process starts, and a RUNNING step without a pid is started again.

A cluster's CloudWatch metrics: its applications by state, and whether it is idle.

"Monitoring Amazon EMR metrics with CloudWatch" documents names, units, the dimension JobFlowId and the five-minute
period. headrace counts each step as one YARN application, and also publishes at every change.

Runs a cluster's bootstrap actions on this machine, one by one, if the cloud has --run-bootstrap-actions.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from headrace.aws.shapes.emr import BootstrapActionConfig
from headrace.core.clock import Clock
from headrace.core.ports import Metric, MetricSink
from headrace.core.values import get_list
from headrace.core.workers import WorkerDone
from headrace.services.emr.errors import METRICS_EVERY_S
from headrace.services.emr.service_role import why_no_instances
from headrace.services.emr.state import (
    ENDED_CLUSTER,
    STEP_UNDER_WAY,
    Cluster,
    ClusterState,
    Step,
    StepState,
    actor_of,
    master_instance_id,
)
from headrace.services.emr.step_runs import Ports, StepRun, script_command
from headrace.spark_submit import JobRefused
from headrace.spark_submit.arguments import fetch
from headrace.spark_submit.job import POLL_S, SupervisedJob
from headrace.spark_submit.job_context import Command, JobContext, job_environment, make_folders
from headrace.spark_submit.logs import JobLogs, LogPlace, log_location
from headrace.spark_submit.node_programs import make_cluster_pythons

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


class ClusterRunner:
    """The worker of one cluster. `step` is called by one thread at a time."""

    def __init__(self, ports: Ports, cluster: Cluster) -> None:
        self.name = f"emr-{cluster.id}"
        self._ports = ports
        self._store = ports.store
        self._cluster = cluster
        # By step id: the steps that have a process.
        self._runs: dict[str, StepRun] = {}
        self._bootstrap = Bootstrap(ports, cluster)
        self._metrics = ClusterMetrics(ports.clock, ports.metrics, cluster)

    def recover(self) -> None:
        """Find the processes of the steps that were running when the last cloud ended."""
        for step in self._store.steps(self._cluster.id):
            if step.state in STEP_UNDER_WAY:
                self._find(step)

    # --- Worker -------------------------------------------------------------------------------

    def step(self) -> float:
        """Watch running steps, start pending ones, and update the cluster's state; see `Worker.step`."""
        cluster = self._cluster
        if cluster.state in ENDED_CLUSTER:
            raise WorkerDone
        if cluster.state is ClusterState.STARTING:
            self._provision()
            return 0.0
        if cluster.state is ClusterState.BOOTSTRAPPING:
            return self._prepare()
        # Steps that are added after this point wake the worker again.
        steps = self._store.steps(cluster.id)
        self._watch(steps)
        if cluster.state is ClusterState.TERMINATING:
            self._bootstrap.kill()
            return self._terminate(steps)
        self._launch(steps)
        delay_s = self._settle(steps)
        return min(delay_s, self._metrics.publish(steps))

    def _provision(self) -> None:
        """Begin bootstrapping, or terminate the cluster if its service role may not run instances."""
        cluster, ports = self._cluster, self._ports
        role, _ = actor_of(cluster)
        node_role = ports.context.access.role_arn(cluster.account, role)
        refusal = why_no_instances(ports.guard, cluster, node_role)
        with self._store.lock:
            # Check again: the cluster may have been terminated meanwhile.
            if cluster.state is not ClusterState.STARTING:
                return
            if refusal:
                cluster.failed = True
                self._store.change_cluster(
                    cluster, ClusterState.TERMINATING, code="VALIDATION_ERROR", message=refusal
                )
                return
            self._store.change_cluster(cluster, ClusterState.BOOTSTRAPPING)

    def _prepare(self) -> float:
        """Run the bootstrap actions, if the cloud runs them, and make the cluster ready."""
        cluster, reason = self._cluster, ""
        try:
            if self._ports.run_bootstrap_actions and not self._bootstrap.done():
                return POLL_S
        except BootstrapFailed as error:
            reason = str(error)
        with self._store.lock:
            # The cluster may have been terminated meanwhile.
            if cluster.state is ClusterState.BOOTSTRAPPING and reason:
                cluster.failed = True
                self._store.change_cluster(
                    cluster,
                    ClusterState.TERMINATING,
                    code="BOOTSTRAP_FAILURE",
                    message=reason,
                )
            elif cluster.state is ClusterState.BOOTSTRAPPING:
                cluster.ready_ms = self._ports.clock.now_ms()
                self._store.change_cluster(cluster, ClusterState.RUNNING, message="Running step")
        return 0.0

    def shut_down(self) -> None:
        """Ask the running processes to end, because the cloud stops.

        `step` is not called after this.
        """
        # The next cloud starts the bootstrap action again.
        self._bootstrap.kill()
        for run in self._runs.values():
            run.shut_down()

    def abandon(self) -> None:
        """Kill the processes that outlived `shut_down`, and store how their steps ended."""
        while self._runs:
            run = self._runs.pop(next(iter(self._runs)))
            run.abandon()
            self._after_end(run.step)

    @property
    def busy(self) -> bool:
        """Return whether a process of a step still runs."""
        return any(run.busy for run in self._runs.values())

    # --- steps --------------------------------------------------------------------------------

    def _watch(self, steps: list[Step]) -> None:
        """Watch the running steps."""
        for step in steps:
            run = self._runs.get(step.id)
            if run is None:
                if step.state in STEP_UNDER_WAY:
                    # Its start failed half-way, for example on a full disk.
                    self._find(step)
            elif run.watch():
                del self._runs[step.id]
                self._after_end(step)

    def _find(self, step: Step) -> None:
        """Take over a running step's process; a step without one becomes PENDING again or CANCELLED."""
        run = StepRun(self._ports, self._cluster, step)
        if run.find():
            self._runs[step.id] = run
        elif step.state is StepState.RUNNING:
            self._store.change_step(self._cluster, step, StepState.PENDING)
        else:
            run.end(StepState.CANCELLED)

    def _launch(self, steps: list[Step]) -> None:
        """Start steps in order, up to the cluster's StepConcurrencyLevel."""
        cluster = self._cluster
        for step in steps:
            if cluster.ending or len(self._runs) >= cluster.step_concurrency:
                return
            with self._store.lock:
                if step.state is not StepState.PENDING:
                    continue
                self._store.start_step(cluster, step)
            run = StepRun.start(self._ports, cluster, step)
            if run is None:
                self._after_end(step)
            else:
                self._runs[step.id] = run

    def _after_end(self, step: Step) -> None:
        """Apply a failed step's ActionOnFailure."""
        # Documented (API_StepConfig): when steps run concurrently, a failure ends neither other steps nor the cluster.
        if (
            step.state is not StepState.FAILED
            or step.action_on_failure == "CONTINUE"
            or self._cluster.step_concurrency > 1
        ):
            return
        with self._store.lock:
            self._cancel_pending(f"Step {step.id} failed")
            # Documented (Managing cluster termination): a protected cluster that is kept alive is not terminated.
            stays = self._cluster.termination_protected and self._cluster.keep_alive
            if step.action_on_failure in ("TERMINATE_CLUSTER", "TERMINATE_JOB_FLOW") and not stays:
                self._cluster.failed = True
                self._store.change_cluster(
                    self._cluster,
                    ClusterState.TERMINATING,
                    code="STEP_FAILURE",
                    message="Shut down as step failed",
                )

    def _cancel_pending(self, message: str) -> None:
        for other in self._store.steps(self._cluster.id):
            if other.state is StepState.PENDING:
                self._store.change_step(self._cluster, other, StepState.CANCELLED, message)

    # --- states -------------------------------------------------------------------------------

    def _terminate(self, steps: list[Step]) -> float:
        """End every step, then the cluster."""
        cluster = self._cluster
        with self._store.lock:
            self._cancel_pending("Job terminated")
            for step in steps:
                if step.id in self._runs and step.cancel_signal is None:
                    step.cancel_signal = int(signal.SIGTERM)
                    self._store.change_step(cluster, step, StepState.CANCEL_PENDING)
        if self._runs:
            return POLL_S
        cluster.ended_ms = self._ports.clock.now_ms()
        self._store.change_cluster(
            cluster,
            ClusterState.TERMINATED_WITH_ERRORS if cluster.failed else ClusterState.TERMINATED,
            code=cluster.reason_code,
            message=cluster.reason_message,
        )
        self._metrics.publish(self._store.steps(cluster.id))
        raise WorkerDone

    def _settle(self, steps: list[Step]) -> float:
        """Let a cluster without running steps run, wait or terminate; return the seconds until the next check."""
        cluster = self._cluster
        with self._store.lock:
            if cluster.state is ClusterState.TERMINATING:
                return 0.0
            if self._runs:
                return POLL_S
            message = _render_waiting_message(steps)
            if any(s.state is StepState.PENDING for s in self._store.steps(cluster.id)):
                return 0.0
            if not cluster.keep_alive:
                self._store.change_cluster(
                    cluster,
                    ClusterState.TERMINATING,
                    code="ALL_STEPS_COMPLETED",
                    message="Steps completed",
                )
                return 0.0
            if cluster.state is not ClusterState.WAITING:
                cluster.idle_since_ms = self._ports.clock.now_ms()
                self._store.change_cluster(cluster, ClusterState.WAITING, message=message)
            return self._until_idle_timeout()

    def _until_idle_timeout(self) -> float:
        """Terminate the cluster if its auto-termination policy is due; return the seconds until then."""
        cluster = self._cluster
        if cluster.idle_timeout_s is None or cluster.idle_since_ms is None:
            return math.inf
        idle_s = (self._ports.clock.now_ms() - cluster.idle_since_ms) / 1000
        if idle_s < cluster.idle_timeout_s:
            return cluster.idle_timeout_s - idle_s
        self._store.change_cluster(
            cluster,
            ClusterState.TERMINATING,
            code="USER_REQUEST",
            message="Cluster terminated by auto-termination policy: it was idle too long.",
        )
        return 0.0


def _render_waiting_message(steps: list[Step]) -> str:
    if not steps:
        return "Cluster ready to run steps."
    if any(step.state is StepState.FAILED for step in steps[-1:]):
        return "Cluster ready after last step failed."
    return "Cluster ready after last step completed."


_LOGS = ("controller", "stdout", "stderr")


class BootstrapFailed(Exception):
    """A bootstrap action failed; the message is EMR's reason for terminating the cluster."""


class Bootstrap:
    """The bootstrap actions of one cluster. Used by one thread at a time.

    After a kill of the cloud, an action that succeeded is not run again, one that still runs is watched, and one that
    was interrupted starts again.
    """

    def __init__(self, ports: Ports, cluster: Cluster) -> None:
        self._ports = ports
        self._cluster = cluster
        self._job: SupervisedJob | None = None
        # The number of the running or next action, from 1.
        self._number = 1

    def done(self) -> bool:
        """Start or watch the next action; return whether all have succeeded. Raises BootstrapFailed."""
        actions: list[BootstrapActionConfig] = get_list(self._cluster.request, "BootstrapActions")
        while self._number <= len(actions):
            if self._job is None:
                action = actions[self._number - 1]
                running = SupervisedJob.find(self._ports.clock, self._folder)
                self._job = running or self._start(action)
            end = self._job.watch(None)
            if end is None:
                return False
            self._job = None
            if end.lost:
                shutil.rmtree(self._folder, ignore_errors=True)
                continue
            self._store_logs()
            if end.exit_code != 0:
                raise BootstrapFailed(
                    f"On the master instance ({master_instance_id(self._cluster)}), bootstrap action {self._number} "
                    "returned a non-zero return code"
                )
            self._number += 1
        return True

    def kill(self) -> None:
        """End the running action, if any."""
        if self._job is not None:
            self._job.abandon()
            self._job = None

    @property
    def _folder(self) -> Path:
        return self._ports.folder / self._cluster.id / "bootstrap-actions" / str(self._number)

    @property
    def _context(self) -> JobContext:
        cluster = self._cluster
        return self._ports.context.as_role(cluster.account, *actor_of(cluster))

    def _start(self, action: BootstrapActionConfig) -> SupervisedJob:
        try:
            return SupervisedJob.start(
                self._ports.clock,
                self._folder,
                lambda: self._command(action),
                kind="bootstrap action",
                logs=_LOGS,
            )
        except JobRefused as error:
            (self._folder / "stderr").write_text(f"{error}\n")
            self._store_logs()
            raise BootstrapFailed(
                f"Master instance ({master_instance_id(self._cluster)}) failed attempting to download bootstrap action "
                f"{self._number} file from S3"
            ) from None

    def _command(self, action: BootstrapActionConfig) -> Command:
        folder, context, cluster = self._folder, self._context, self._cluster
        work, script = make_folders(folder), action["ScriptBootstrapAction"]
        role, session = actor_of(cluster)
        environment = job_environment(
            context,
            folder,
            account=cluster.account,
            region=cluster.region,
            role=role,
            session=session,
        )
        release = context.sparks.release_of(cluster.release_label)
        if release is not None:
            pythons = make_cluster_pythons(release, folder.parents[1])
            environment["PATH"] = f"{pythons}{os.pathsep}{environment['PATH']}"
        local = fetch(context.objects, script["Path"], work)
        arguments = script_command(str(local), script.get("Args") or [])
        return Command(arguments, environment, work)

    def _store_logs(self) -> None:
        cluster, folder = self._cluster, self._folder
        below = f"{cluster.id}/node/{master_instance_id(cluster)}/bootstrap-actions/{self._number}"
        location = None if cluster.log_uri is None else log_location(cluster.log_uri, below)
        places = [] if location is None else [LogPlace(folder, _LOGS, *location)]
        JobLogs(self._ports.clock, self._context.objects, folder, places).store()
