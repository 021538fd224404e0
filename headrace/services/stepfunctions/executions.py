"""Runs the executions of state machines: starts each on a thread, stores its outcome, stops it.

The database has what DescribeExecution returns. An execution runs in memory: one that was RUNNING when headrace stopped
or was killed is FAILED after the next start, with a cause that says so.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import json
import logging
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.aws.calls.errors import AwsError
from headrace.deliveries.service_events import queue_service_event
from headrace.moto.current_cloud import CURRENT, RunningExecutions
from headrace.moto.storage.changes import CHANGES
from headrace.services.stepfunctions import map_runs, redrives
from headrace.services.stepfunctions.activities import Activities

if TYPE_CHECKING:
    from headrace.services.stepfunctions.interpreter.run import (
        ExecutionInput,
        Outcome,
        Redrive,
        Run,
    )

log = logging.getLogger(__name__)

# The escaped input and output that an event holds; EventBridge refuses larger events.
_MOST_TOLD_BYTES = 248 * 1024
# The metric that counts executions which enter a state.
_METRICS = {
    "RUNNING": "ExecutionsStarted",
    "SUCCEEDED": "ExecutionsSucceeded",
    "FAILED": "ExecutionsFailed",
    "ABORTED": "ExecutionsAborted",
    "TIMED_OUT": "ExecutionsTimedOut",
}
# Those of a redriven one (documented with the others).
_REDRIVEN_METRICS = {
    "RUNNING": "ExecutionsRedriven",
    "SUCCEEDED": "RedrivenExecutionsSucceeded",
    "FAILED": "RedrivenExecutionsFailed",
    "ABORTED": "RedrivenExecutionsAborted",
    "TIMED_OUT": "RedrivenExecutionsTimedOut",
}
# An execution has one to three threads; AWS runs a million executions at a time.
MOST_RUNNING = 100
# How many finished executions a machine keeps; AWS keeps them for 90 days.
MOST_FINISHED = 200
STOPPED_CAUSE = "headrace was stopped while the execution ran."
JOIN_S = 5.0


class Executions:
    """The running executions of one cloud. Thread-safe."""

    def __init__(self, store: Callable[[Callable[[], None]], None]) -> None:
        """`store` runs a change of moto's state under its lock, and stores it."""
        self._store = store
        self._runs: dict[str, tuple[Run, threading.Thread]] = {}
        self._lock = threading.Lock()
        self._is_stopping = False
        self.activities = Activities()

    def start(self, machine: Any, version: Any, execution: Any) -> None:
        """Run moto's new execution as soon as the request that starts it is stored, and announce it.

        The caller holds moto's lock. Raises AwsError.
        """
        self._check_room()
        # moto's setting for the outcome of its simulated executions has no effect here.
        execution.status = "RUNNING"
        execution.is_express = machine.type == "EXPRESS"
        started = build_input(
            machine,
            version,
            execution.execution_arn,
            execution.name,
            execution.execution_input,
            execution.start_date,
        )
        trim(machine.executions)
        announce(execution)
        CHANGES.when_stored(functools.partial(self._launch, started))

    def redrive(
        self,
        execution: Any,
        place: dict[str, Any],
        events: list[dict[str, Any]],
        count: int,
        date: datetime,
    ) -> None:
        """Run an execution on from a `place` of `redrives`, else as `start` does. Raises AwsError."""
        from headrace.services.stepfunctions.interpreter.run import ExecutionInput, Redrive

        self._check_room()
        started = ExecutionInput(**{**place["started"], "start_date": execution.start_date})
        redrive = Redrive(events, place["entered"], place["variables"], count, date)
        execution.status, execution.stop_date = "RUNNING", None
        execution.error = execution.cause = None
        execution.redrives, execution.redrive_date = count, date
        announce(execution)
        CHANGES.when_stored(functools.partial(self._launch, started, redrive))

    def _check_room(self) -> None:
        with self._lock:
            if self._is_stopping:
                raise AwsError("ServiceUnavailable", "headrace is stopping", 503)
            if len(self._runs) >= MOST_RUNNING:
                raise AwsError(
                    "ExecutionLimitExceeded",
                    f"headrace runs {MOST_RUNNING} executions at a time: wait for one to end, or stop one.",
                )

    def _launch(self, started: ExecutionInput, redrive: Redrive | None = None) -> None:
        # The interpreter comes with the first execution: a cloud that starts needs none.
        from headrace.services.stepfunctions.interpreter.run import Run

        run = Run(started, self.activities, redrive=redrive)
        thread = threading.Thread(
            target=self._run, args=(run,), name=f"states-{started.name[:40]}", daemon=True
        )
        with self._lock:
            if self._is_stopping:
                return  # the next start tells that it did not run
            self._runs[started.arn] = run, thread
        thread.start()

    def run_of(self, arn: str) -> Run | None:
        """Return the execution while it runs, else None."""
        with self._lock:
            entry = self._runs.get(arn)
        return entry[0] if entry else None

    def take_task(self, activity_arn: str, worker: str | None) -> tuple[str, str] | None:
        """Return the token and the input of an activity's next task whose execution still runs."""
        while (task := self.activities.take(activity_arn)) is not None:
            with self._lock:
                runs = [run for run, _ in self._runs.values()]
            if any(run.begin(task[0], worker) for run in runs):
                return task
        return None

    def tell(self, token: str, answer: str, **details: Any) -> None:
        """Pass on the answer to a task token. Raises AwsError."""
        with self._lock:
            runs = [run for run, _ in self._runs.values()]
        if not any(run.tell(token, answer, **details) for run in runs):
            raise AwsError("InvalidToken", "Invalid Token: 'Invalid token'")

    def stop(self) -> None:
        """Stop all executions without changing the database; called before the services stop."""
        with self._lock:
            self._is_stopping = True
            running = list(self._runs.values())
        for run, _ in running:
            run.stop(None, STOPPED_CAUSE)

    def join(self) -> None:
        """Wait a few seconds for the threads of stopped executions."""
        with self._lock:
            running = list(self._runs.values())
        until = time.monotonic() + JOIN_S
        for _, thread in running:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, run: Run) -> None:
        try:
            outcome, history, runs = run.run_and_record()
            # Made before moto's lock is taken: a history may have 25,000 events.
            events = zlib.compress(history.encode(), 1) if history != "[]" else None
            is_final = outcome.status == "SUCCEEDED" or run.started.is_express
            place = None if is_final else run.place()
            if not self._is_stopping:
                self._store(lambda: self._finish(run.started, outcome, events, runs, place))
        except Exception:
            # It no longer runs, and the next read shows that.
            if not self._is_stopping:
                log.exception("the execution %s could not be stored", run.started.arn)
        finally:
            self._forget(run.started.arn)

    def _finish(
        self,
        started: ExecutionInput,
        outcome: Outcome,
        events: bytes | None,
        runs: list[dict[str, Any]],
        place: dict[str, Any] | None,
    ) -> None:
        self._forget(started.arn)
        execution = _find(started)
        if execution is not None:
            if execution.status == "RUNNING":
                end(execution, outcome)
            if events is None:
                return  # it did not begin; a redriven one keeps its history, and where it goes on
            execution.events = events
            map_runs.store(execution, runs)
            if place is not None:
                place["started"] = {**asdict(started), "start_date": None}
            redrives.note_place(execution, place)

    def _forget(self, arn: str) -> None:
        with self._lock:
            self._runs.pop(arn, None)


def build_input(
    machine: Any, version: Any, arn: str, name: str, input_text: str, start_date: datetime
) -> ExecutionInput:
    """Return what an execution of moto's machine runs: one of its versions, or the machine as it is."""
    from headrace.services.stepfunctions.interpreter.run import ExecutionInput

    parts = arn.split(":")
    return ExecutionInput(
        arn=arn,
        name=name,
        machine_arn=machine.arn,
        machine_name=machine.name,
        definition=version.definition,
        role_arn=version.roleArn,
        account=parts[4],
        region=parts[3],
        input=input_text,
        is_express=machine.type == "EXPRESS",
        start_date=start_date,
        logging=machine.loggingConfiguration,
    )


def end(execution: Any, outcome: Outcome) -> None:
    """Store an outcome in moto's execution."""
    execution.status = outcome.status
    execution.stop_date = datetime.now(UTC)
    execution.output = outcome.output
    execution.output_details = {"included": True} if outcome.output is not None else None
    execution.error, execution.cause = outcome.error, outcome.cause
    announce(execution)


def announce(execution: Any) -> None:
    """Tell the default bus of the state that an execution has entered, and count it; called under moto's lock.

    Documented: docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html, which says that express
    workflows send no events, and procedure-cw-metrics.html.
    """
    if not getattr(execution, "is_express", False) and CURRENT.control is not None:
        _queue_event(execution)
    metrics = [_METRICS[execution.status]]
    if getattr(execution, "redrives", 0):
        # The metric of its state stays with an end; a redrive is no start (assumed).
        redriven = _REDRIVEN_METRICS[execution.status]
        metrics = [redriven] if execution.status == "RUNNING" else [*metrics, redriven]
    for metric in metrics:
        CURRENT.handled.note(execution.state_machine_arn, metric)


def _queue_event(execution: Any) -> None:
    """Queue the event of an execution's state, without what is too large for one (documented there too)."""
    is_over = execution.stop_date is not None
    output_bytes = _count_escaped(execution.output)
    has_output = output_bytes <= _MOST_TOLD_BYTES
    has_input = _count_escaped(execution.execution_input) + output_bytes <= _MOST_TOLD_BYTES
    detail: dict[str, Any] = {
        "executionArn": execution.execution_arn,
        "stateMachineArn": execution.state_machine_arn,
        "name": execution.name,
        "status": execution.status,
        "startDate": _ms_of(execution.start_date),
        "stopDate": _ms_of(execution.stop_date) if is_over else None,
        "input": execution.execution_input if has_input else None,
        "output": execution.output if has_output else None,
        "inputDetails": {"included": has_input},
        "outputDetails": {"included": has_output} if execution.output is not None else None,
        "error": execution.error,
        "cause": execution.cause,
    }
    queue_service_event(
        f"The execution {execution.name}",
        "aws.states",
        "Step Functions Execution Status Change",
        detail,
        resources=[execution.execution_arn],
        account=execution.account_id,
        region=execution.region_name,
    )


def _count_escaped(text: str | None) -> int:
    return len(json.dumps(text)) if text else 0


def _ms_of(moment: datetime) -> int:
    # moto's dates have no zone.
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def settle(execution: Any, executions: RunningExecutions | None) -> None:
    """End an execution that was running when headrace stopped."""
    if execution.status == "RUNNING" and (
        executions is None or executions.run_of(execution.execution_arn) is None
    ):
        from headrace.services.stepfunctions.interpreter.run import RUNTIME_ERROR, Outcome

        end(execution, Outcome("FAILED", error=RUNTIME_ERROR, cause=STOPPED_CAUSE))


def trim(finished_and_running: list[Any]) -> None:
    """Drop a machine's oldest finished executions, in place."""
    finished = [execution for execution in finished_and_running if execution.status != "RUNNING"]
    for execution in finished[: max(0, len(finished) - MOST_FINISHED)]:
        finished_and_running.remove(execution)


def _find(started: ExecutionInput) -> Any:
    """Return moto's execution; None when its machine is deleted."""
    from moto.stepfunctions.models import stepfunctions_backends

    backends: Any = stepfunctions_backends
    for machine in backends[started.account][started.region].state_machines:
        for execution in machine.executions:
            if execution.execution_arn == started.arn:
                return execution
    return None
