"""Runs one step: starts or finds its process, watches it, cancels it, and stores its end with its logs."""

from __future__ import annotations

import functools

from headrace.services.emr.ports import Ports
from headrace.services.emr.state import Cluster, Step, StepState
from headrace.services.emr.steps.commands import command_of
from headrace.services.emr.steps.logs import StepLogs
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.job import Cancellation, JobEnd, SupervisedJob
from headrace.spark_submit.logs import LOGS, failure_cause, tail

STOPPED_MESSAGE = "The local cloud was stopped while the step was running."
LOST_MESSAGE = (
    "The step's process ended without an exit code while the local cloud was not running."
)
KILLED_MESSAGE = "The step's process was killed."
UNKNOWN_ERROR = "Unknown Error."


class StepRun:
    """The process and the logs of one step, which is RUNNING or CANCEL_PENDING. Used by one thread at a time.

    A method that ends the step stores its logs and its new state before it returns.
    """

    def __init__(self, ports: Ports, cluster: Cluster, step: Step) -> None:
        self.step = step
        self._ports = ports
        self._cluster = cluster
        self._logs = StepLogs(ports.clock, ports.context, ports.folder, cluster, step)
        self._job: SupervisedJob | None = None

    @classmethod
    def start(cls, ports: Ports, cluster: Cluster, step: Step) -> StepRun | None:
        """Start the step's process; return None if it could not start and the step is FAILED."""
        run = cls(ports, cluster, step)
        logs = run._logs
        command = functools.partial(command_of, ports.context, cluster, step, logs)
        try:
            run._job = SupervisedJob.start(
                ports.clock, logs.folder, command, kind="step", logs=LOGS
            )
        except JobRefused as error:
            logs.write_refusal(str(error))
            run._fail(str(error))
            return None
        return run

    def find(self) -> bool:
        """Take over the process that an earlier cloud started; return whether there is one."""
        self._job = SupervisedJob.find(self._ports.clock, self._logs.folder)
        return self._job is not None

    def watch(self) -> bool:
        """Cancel the process if requested, and copy its logs to S3; return whether the step has ended."""
        number = self.step.cancel_signal
        end = self._started.watch(None if number is None else Cancellation(signal=number))
        if end is None:
            self._logs.in_s3.keep()
            return False
        self._end_as(end)
        return True

    def end(self, state: StepState, message: str = "", *, diagnostics: str | None = None) -> None:
        """Store the logs, then the end: a client that sees the step ended finds its logs."""
        if self._logs.application is not None:
            self._logs.report_end(state, diagnostics or message)
        self._logs.in_s3.store()
        self.step.ended_ms = self._ports.clock.now_ms()
        self._ports.store.change_step(self._cluster, self.step, state, message)

    # --- when the cloud stops -----------------------------------------------------------------

    def shut_down(self) -> None:
        """Ask the process to end."""
        self._started.shut_down()

    @property
    def busy(self) -> bool:
        """Return whether a process of the step still runs."""
        return self._started.busy

    def abandon(self) -> None:
        """Kill the process if it still runs, and end the step."""
        code = self._started.abandon()
        if code == 0:
            self.end(StepState.COMPLETED)
        elif self.step.state is StepState.CANCEL_PENDING:
            self.end(StepState.CANCELLED)
        else:
            self._fail(STOPPED_MESSAGE)

    # --- parts --------------------------------------------------------------------------------

    @property
    def _started(self) -> SupervisedJob:
        assert self._job is not None, "start or find comes first"
        return self._job

    def _end_as(self, end: JobEnd) -> None:
        if self.step.cancel_signal is not None and end.exit_code != 0:
            self.end(StepState.CANCELLED, "Job terminated")
        elif end.exit_code == 0:
            self.end(StepState.COMPLETED)
        elif end.exit_code is None:
            self._fail(LOST_MESSAGE if end.lost else KILLED_MESSAGE)
        else:
            self._fail_because(end.exit_code)

    def _fail_because(self, code: int) -> None:
        """End the step as FAILED, with the cause of its program's exit code."""
        folder = self._logs.folder
        name, cause = failure_cause(tail(folder / "stderr"), tail(folder / "stdout"), code)
        application = self._logs.application
        if application is None:
            self._fail(cause, log_name=name)
            return
        # AWS gives only the client's sentence; its users find the cause in the container's log.
        uri = self._logs.driver_uri(name)
        self._fail(
            f"{application.failure}; the driver said: {cause}{f' ({uri})' if uri else ''}",
            diagnostics=application.diagnostics(code, cause),
        )

    def _fail(
        self, message: str, *, log_name: str = "stderr", diagnostics: str | None = None
    ) -> None:
        self.step.failure = {"Reason": UNKNOWN_ERROR, "Message": message}
        uri = self._logs.uri(log_name)
        if uri is not None:
            self.step.failure["LogFile"] = uri
        self.end(StepState.FAILED, diagnostics=diagnostics or message)
