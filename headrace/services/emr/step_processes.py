"""The steps of one cluster as processes: started, looked after, cancelled, and their ends stored.

Every change of state is in the database before the next thing happens: a step is RUNNING before its process starts,
and a step that is RUNNING without having left a pid is simply started again.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable

from headrace.services.emr.applications import application_of
from headrace.services.emr.commands import prepare
from headrace.services.emr.ports import Ports
from headrace.services.emr.state import Cluster, Step, StepState
from headrace.services.emr.step_logs import StepLogs
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.limits import CANCEL_GRACE_S
from headrace.spark_submit.logs import failure_cause, tail
from headrace.spark_submit.process import JobProcess

log = logging.getLogger(__name__)

STOPPED_MESSAGE = "The local cloud was stopped while the step was running."
LOST_MESSAGE = (
    "The step's process ended without an exit code while the local cloud was not running."
)
KILLED_MESSAGE = "The step's process was killed."
UNKNOWN_ERROR = "Unknown Error."
_UNDER_WAY = frozenset({StepState.RUNNING, StepState.CANCEL_PENDING})


class StepProcesses:
    """The processes of one cluster's steps. Used by one thread at a time.

    `failed` is called with a step that has just become FAILED, under the store's lock.
    """

    def __init__(self, ports: Ports, cluster: Cluster, failed: Callable[[Step], None]) -> None:
        self._ports = ports
        self._store = ports.store
        self._cluster = cluster
        self._failed = failed
        self._running: dict[str, JobProcess] = {}
        self._cancelled_at_s: dict[str, float] = {}
        self._logs = StepLogs(ports.clock, ports.context, ports.folder, cluster)

    def __len__(self) -> int:
        """Return how many steps run."""
        return len(self._running)

    def __contains__(self, step: Step) -> bool:
        """Whether a step runs."""
        return step.id in self._running

    def recover(self) -> None:
        """Find the processes of the steps that were running when the last cloud ended."""
        for step in self._store.steps(self._cluster.id):
            if step.state in _UNDER_WAY:
                self._find(step)

    def look_after(self) -> None:
        """Look at every running step: has it ended, is it to be cancelled, have its logs grown."""
        for step in self._store.steps(self._cluster.id):
            process = self._running.get(step.id)
            if process is not None:
                self._look_after(step, process)
            elif step.state in _UNDER_WAY:
                # Its start or its end failed half-way, on a full disk maybe.
                self._find(step)

    def start(self, step: Step) -> None:
        """Start the process of a step that is RUNNING already; the step fails when that is not possible."""
        folder = self._logs.folder(step)
        try:
            self._logs.make(step)
            command = prepare(self._ports.context, self._cluster, step, folder)
            self._logs.note(step, f"the command is: {' '.join(command.arguments)}")
            # Before the process, so that whoever finds the process again finds the report begun.
            self._logs.begun(step)
            process = JobProcess.start(
                folder, command.arguments, environment=command.environment, cwd=command.cwd
            )
        except (JobRefused, OSError) as error:
            self._refuse(step, str(error))
            return
        except Exception as error:
            # Whatever a request may hold that no process can be given: the step must not stay RUNNING.
            log.exception("step %s of cluster %s could not be started", step.id, step.cluster_id)
            self._refuse(step, f"The step could not be started: {error}.")
            return
        self._logs.note(step, f"the process is {process.pid}")
        self._running[step.id] = process

    def _refuse(self, step: Step, message: str) -> None:
        self._logs.note(step, f"the command could not be started: {message}")
        self._logs.refused(step, message)
        self._fail(step, message)

    def _find(self, step: Step) -> None:
        """Take over the process of a step that is under way; without one, begin or end it anew."""
        process = JobProcess.find(self._logs.folder(step))
        if process is not None:
            self._running[step.id] = process
        elif step.state is StepState.RUNNING:
            self.change(step, StepState.PENDING)
        else:
            self._end(step, StepState.CANCELLED, "")

    def signal_all(self, number: int) -> None:
        """Send a signal to every process of every step."""
        for process in self._running.values():
            process.signal(number)

    def abandon(self) -> None:
        """Kill what is left because the cloud stops, and say of the steps how they ended."""
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

    def change(self, step: Step, state: StepState, message: str = "") -> None:
        """Store and announce a step's new state."""
        with self._store.lock:
            before = step.state, step.reason_message, step.started_ms
            step.state, step.reason_message = state, message
            if state is StepState.PENDING:
                step.started_ms = None
            try:
                self._store.save_step(step)
            except Exception:
                # What is not stored has not happened.
                step.state, step.reason_message, step.started_ms = before
                raise
            self._ports.announcer.change(self._cluster, step)
        log.info("step %s of cluster %s is %s", step.id, step.cluster_id, state)

    def _look_after(self, step: Step, process: JobProcess) -> None:
        if process.exit_code is None and (process.alive or self._is_dying(step, process)):
            self._cancel_if_asked(step, process)
            self._logs.keep(step)
            return
        code = process.exit_code
        # What the command left running goes with it.
        process.kill()
        del self._running[step.id]
        self._logs.note(step, f"the command ended with exit code {code}")
        if step.cancel_signal is not None and code != 0:
            self._end(step, StepState.CANCELLED, "Job terminated")
        elif code == 0:
            self._end(step, StepState.COMPLETED, "")
        elif code is None:
            self._fail(step, LOST_MESSAGE if process.adopted else KILLED_MESSAGE)
        else:
            self._fail_because(step, code)

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
            self._logs.note(step, f"cancelled: {signal.Signals(step.cancel_signal).name}")
            process.signal(step.cancel_signal)
        elif step.cancel_signal == signal.SIGKILL or now_s - asked_s > CANCEL_GRACE_S:
            # Again and again: a process may have been started while the others were being ended.
            process.signal(signal.SIGKILL)

    def _fail_because(self, step: Step, code: int) -> None:
        """Fail a step whose program has ended with an exit code, and say why."""
        folder = self._logs.folder(step)
        name, cause = failure_cause(tail(folder / "stderr"), tail(folder / "stdout"), code)
        application = application_of(self._cluster, step)
        if application is None:
            self._fail(step, cause, log_name=name)
            return
        # On AWS only what the client says is told; the cause has to be looked for in the container's log.
        location, where = self._logs.driver_location(step), ""
        if location is not None:
            where = f" (s3://{location[0]}/{location[1]}{name}.gz)"
        self._fail(
            step,
            f"{application.failure}; the driver said: {cause}{where}",
            diagnostics=application.diagnostics(code, cause),
        )

    def _fail(
        self, step: Step, message: str, *, log_name: str = "stderr", diagnostics: str | None = None
    ) -> None:
        step.failure = {"Reason": UNKNOWN_ERROR, "Message": message}
        location = self._logs.location(step)
        if location is not None:
            step.failure["LogFile"] = f"s3://{location[0]}/{location[1]}{log_name}.gz"
        self._end(step, StepState.FAILED, "", diagnostics=diagnostics or message)
        with self._store.lock:
            self._failed(step)

    def _end(
        self, step: Step, state: StepState, message: str, *, diagnostics: str | None = None
    ) -> None:
        """Store the logs, then the end: who sees a step ended finds its logs."""
        self._logs.ended(step, state, diagnostics or message)
        self._logs.store(step)
        self._cancelled_at_s.pop(step.id, None)
        step.ended_ms = self._ports.clock.now_ms()
        self.change(step, state, message)
