"""One cluster at work: a worker that takes it through its states and runs its steps.

Every change of state is in the database before the next thing happens, in an order such that a cloud killed at any
point goes on rightly: a step is RUNNING before its process starts, and a step that is RUNNING without having left a
pid is simply started again.
"""

from __future__ import annotations

import logging
import math
import shutil
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.ports import Metric, MetricSink
from headrace.core.workers import WorkerDone
from headrace.services.emr.announcements import Announcer
from headrace.services.emr.commands import prepare
from headrace.services.emr.model import (
    ENDED_CLUSTER,
    ClusterState,
    Step,
    StepState,
)
from headrace.services.emr.store import Store
from headrace.spark_submit.commands import Workshop
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.limits import CANCEL_GRACE_S, POLL_S
from headrace.spark_submit.logs import (
    LogKeeper,
    archive,
    failure_cause,
    log_location,
    remove_scratch,
    tail,
)
from headrace.spark_submit.process import JobProcess

log = logging.getLogger(__name__)

STOPPED_MESSAGE = "The local cloud was stopped while the step was running."
LOST_MESSAGE = (
    "The step's process ended without an exit code while the local cloud was not running."
)
KILLED_MESSAGE = "The step's process was killed."
UNKNOWN_ERROR = "Unknown Error."
_NAMESPACE = "AWS/ElasticMapReduce"


@dataclass(frozen=True, slots=True)
class RunnerPorts:
    """What all runners share."""

    clock: Clock
    store: Store
    workshop: Workshop
    metrics: MetricSink
    announcer: Announcer
    folder: Path


class ClusterRunner:
    """The worker of one cluster. `step` is called by one thread at a time."""

    def __init__(self, ports: RunnerPorts, cluster_id: str) -> None:
        self.name = f"emr-{cluster_id}"
        self._ports = ports
        self._store = ports.store
        self._cluster = ports.store.cluster(cluster_id)
        self._running: dict[str, JobProcess] = {}
        self._cancelled_at_s: dict[str, float] = {}
        self._keepers: dict[str, LogKeeper] = {}

    def folder(self, step: Step) -> Path:
        """Return where a step's files are."""
        return self._ports.folder / step.cluster_id / step.id

    def recover(self) -> None:
        """Find the processes of the steps that were running when the last cloud ended."""
        for step in self._store.steps(self._cluster.id):
            if step.state not in (StepState.RUNNING, StepState.CANCEL_PENDING):
                continue
            process = JobProcess.find(self.folder(step))
            if process is not None:
                self._running[step.id] = process
            elif step.state is StepState.RUNNING:
                self._change_step(step, StepState.PENDING)
            else:
                self._end(step, StepState.CANCELLED, "")

    # --- Worker -------------------------------------------------------------------------------

    def step(self) -> float:
        """Look after running steps, start what may start, and settle the cluster's state."""
        cluster = self._cluster
        if cluster.state in ENDED_CLUSTER:
            raise WorkerDone
        if cluster.state is ClusterState.STARTING:
            self._change_cluster(ClusterState.BOOTSTRAPPING)
            return 0.0
        if cluster.state is ClusterState.BOOTSTRAPPING:
            cluster.ready_ms = self._ports.clock.now_ms()
            self._change_cluster(ClusterState.RUNNING, message="Running step")
        for step in self._store.steps(cluster.id):
            process = self._running.get(step.id)
            if process is not None:
                self._look_after(step, process)
        if cluster.state is ClusterState.TERMINATING:
            return self._terminate()
        self._launch()
        return self._settle()

    def shut_down(self) -> None:
        """End the running processes because the cloud stops: no step is left behind unseen.

        Called when `step` will not be called again.
        """
        for process in self._running.values():
            process.signal(signal.SIGTERM)

    def abandon(self) -> None:
        """After `shut_down` and a while: kill what is left, and say of the steps how they ended."""
        for step in self._store.steps(self._cluster.id):
            process = self._running.pop(step.id, None)
            if process is None:
                continue
            code = process.exit_code
            process.kill()
            if code == 0:
                self._end(step, StepState.COMPLETED, "")
            elif step.state is StepState.CANCEL_PENDING:
                self._end(step, StepState.CANCELLED, "")
            else:
                self._fail(step, STOPPED_MESSAGE)

    @property
    def busy(self) -> bool:
        """Whether a process of a step still runs."""
        return any(process.members() for process in self._running.values())

    # --- steps --------------------------------------------------------------------------------

    def _look_after(self, step: Step, process: JobProcess) -> None:
        if process.exit_code is None and (process.alive or self._is_dying(step, process)):
            self._cancel_if_asked(step, process)
            self._keep_logs(step)
            return
        code = process.exit_code
        # What the command left running goes with it.
        process.kill()
        del self._running[step.id]
        self._note(step, f"the command ended with exit code {code}")
        if step.cancel_signal is not None and code != 0:
            self._end(step, StepState.CANCELLED, "Job terminated")
        elif code == 0:
            self._end(step, StepState.COMPLETED, "")
        elif code is None:
            self._fail(step, LOST_MESSAGE if process.adopted else KILLED_MESSAGE)
        else:
            folder = self.folder(step)
            name, message = failure_cause(tail(folder / "stderr"), tail(folder / "stdout"), code)
            self._fail(step, message, log_name=name)

    def _keep_logs(self, step: Step) -> None:
        location = self._location(step)
        if location is not None:
            keeper = self._keepers.setdefault(
                step.id, LogKeeper(self._ports.clock, self._ports.workshop.objects)
            )
            keeper.keep(self.folder(step), location)

    def _is_dying(self, step: Step, process: JobProcess) -> bool:
        """After a signal the wrapper is gone first; the step has ended when all of it has."""
        return step.cancel_signal is not None and bool(process.members())

    def _cancel_if_asked(self, step: Step, process: JobProcess) -> None:
        if step.cancel_signal is None:
            return
        now_s = self._ports.clock.monotonic_s()
        asked_s = self._cancelled_at_s.get(step.id)
        if asked_s is None:
            self._cancelled_at_s[step.id] = now_s
            self._note(step, f"cancelled: {signal.Signals(step.cancel_signal).name}")
            process.signal(step.cancel_signal)
        elif now_s - asked_s > CANCEL_GRACE_S:
            process.signal(signal.SIGKILL)

    def _launch(self) -> None:
        cluster = self._cluster
        for step in self._store.steps(cluster.id):
            if cluster.ending or len(self._running) >= cluster.step_concurrency:
                return
            with self._store.lock:
                if step.state is not StepState.PENDING:
                    continue
                step.started_ms = self._ports.clock.now_ms()
                self._change_step(step, StepState.RUNNING)
                if cluster.state is not ClusterState.RUNNING:
                    self._change_cluster(ClusterState.RUNNING, message="Running step")
            self._start(step)

    def _start(self, step: Step) -> None:
        folder = self.folder(step)
        # An attempt that a kill cut short has left nothing worth keeping.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("controller", "stdout", "stderr", "syslog"):
            (folder / name).touch()
        try:
            command = prepare(self._ports.workshop, self._cluster, step, folder)
            self._note(step, f"the command is: {' '.join(command.arguments)}")
            process = JobProcess.start(
                folder, command.arguments, environment=command.environment, cwd=command.cwd
            )
        except (JobRefused, OSError) as error:
            self._note(step, f"the command could not be started: {error}")
            (folder / "stderr").write_text(f"{error}\n")
            self._fail(step, str(error))
            return
        self._note(step, f"the process is {process.pid}")
        self._running[step.id] = process

    def _fail(self, step: Step, message: str, *, log_name: str = "stderr") -> None:
        step.failure = {"Reason": UNKNOWN_ERROR, "Message": message}
        location = self._location(step)
        if location is not None:
            step.failure["LogFile"] = f"s3://{location[0]}/{location[1]}{log_name}.gz"
        self._end(step, StepState.FAILED, "")
        with self._store.lock:
            self._after_failure(step)

    def _after_failure(self, step: Step) -> None:
        """Do what ActionOnFailure says. The caller holds the lock."""
        if step.action_on_failure == "CONTINUE":
            return
        self._cancel_pending(f"Step {step.id} failed")
        if step.action_on_failure in ("TERMINATE_CLUSTER", "TERMINATE_JOB_FLOW"):
            self._cluster.failed = True
            self._change_cluster(
                ClusterState.TERMINATING, code="STEP_FAILURE", message="Shut down as step failed"
            )

    def _cancel_pending(self, message: str) -> None:
        for other in self._store.steps(self._cluster.id):
            if other.state is StepState.PENDING:
                self._change_step(other, StepState.CANCELLED, message)

    def _location(self, step: Step) -> tuple[str, str] | None:
        uri = self._cluster.log_uri
        return None if uri is None else log_location(uri, f"{step.cluster_id}/steps/{step.id}")

    def _end(self, step: Step, state: StepState, message: str) -> None:
        """Store the logs, then the end: who sees a step ended finds its logs."""
        folder = self.folder(step)
        location = self._location(step)
        if folder.is_dir():
            if location is not None:
                archive(self._ports.workshop.objects, folder, location)
            remove_scratch(folder)
        self._cancelled_at_s.pop(step.id, None)
        self._keepers.pop(step.id, None)
        step.ended_ms = self._ports.clock.now_ms()
        self._change_step(step, state, message)

    def _note(self, step: Step, text: str) -> None:
        """Write a line to the step's controller log."""
        now = datetime.fromtimestamp(self._ports.clock.now_ms() / 1000, UTC)
        folder = self.folder(step)
        if folder.is_dir():
            with (folder / "controller").open("a") as file:
                file.write(f"{now:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + f"Z INFO {text}\n")

    # --- states -------------------------------------------------------------------------------

    def _terminate(self) -> float:
        """End every step, then the cluster."""
        with self._store.lock:
            self._cancel_pending("Job terminated")
            for step in self._store.steps(self._cluster.id):
                if step.id in self._running and step.cancel_signal is None:
                    step.cancel_signal = int(signal.SIGTERM)
                    self._change_step(step, StepState.CANCEL_PENDING)
        if self._running:
            return POLL_S
        self._cluster.ended_ms = self._ports.clock.now_ms()
        ended = (
            ClusterState.TERMINATED_WITH_ERRORS if self._cluster.failed else ClusterState.TERMINATED
        )
        self._change_cluster(
            ended, code=self._cluster.reason_code, message=self._cluster.reason_message
        )
        raise WorkerDone

    def _settle(self) -> float:
        cluster = self._cluster
        with self._store.lock:
            if cluster.state is ClusterState.TERMINATING:
                return 0.0
            steps = self._store.steps(cluster.id)
            if self._running:
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
        self._publish("IsIdle", 1.0 if state is ClusterState.WAITING else 0.0)

    def _change_step(self, step: Step, state: StepState, message: str = "") -> None:
        with self._store.lock:
            step.state, step.reason_message = state, message
            if state is StepState.PENDING:
                step.started_ms = None
            self._store.save_step(step)
            self._ports.announcer.change(self._cluster, step)
        log.info("step %s of cluster %s is %s", step.id, step.cluster_id, state)

    def _publish(self, name: str, value: float) -> None:
        cluster = self._cluster
        metric = Metric(
            namespace=_NAMESPACE,
            name=name,
            value=value,
            unit="None",
            dimensions=(("JobFlowId", cluster.id),),
            timestamp_ms=self._ports.clock.now_ms(),
        )
        self._ports.metrics.put([metric], account=cluster.account, region=cluster.region)


def _waiting_message(steps: list[Step]) -> str:
    if not steps:
        return "Cluster ready to run steps."
    if any(step.state is StepState.FAILED for step in steps[-1:]):
        return "Cluster ready after last step failed."
    return "Cluster ready after last step completed."
