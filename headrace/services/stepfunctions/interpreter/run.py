"""Runs state machines in moto's interpreter of the Amazon States Language; its AWS calls go to this cloud.

moto's interpreter would call AWS's clients at the address of moto's own server, keep every thread that it ever started,
and sleep through retries; here its calls go to the control plane with the machine's role, and every wait can be
stopped. Waits take real time.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import importlib
import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.moto_imports import IMPORTING
from headrace.core.evaluation import TooMuch
from headrace.services.stepfunctions import map_runs
from headrace.services.stepfunctions.activities import Activities, interrupt, patch_interpreter
from headrace.services.stepfunctions.interpreter import (
    bounds,
    history,
    inspections,
    intrinsics,
    jsonata_states,
    maps,
    service_calls,
    state_data,
)
from headrace.services.stepfunctions.interpreter.inspections import Inspection
from headrace.services.stepfunctions.interpreter.json_paths import extract_json
from headrace.services.stepfunctions.interpreter.service_calls import (
    asking_for_roles,
    client_of_cloud,
    sdk_client_of_cloud,
)
from headrace.services.stepfunctions.interpreter.tasks import task_maker
from headrace.services.stepfunctions.jsonata_expressions import mark_expressions

log = logging.getLogger(__name__)

RUNTIME_ERROR = "States.Runtime"
# Documented: the longest time of an express execution.
EXPRESS_LASTS_S = 300
LAST_EVENT_WITHIN_S = 1.0
# Documented for an inline Map; AWS runs 10,000 iterations of a distributed one at a time, headrace as many as inline.
MOST_ITERATIONS_AT_A_TIME = 40


@dataclass(frozen=True, slots=True)
class ExecutionInput:
    """The input of an execution; `is_express` is its machine's type, `logging` its machine's configuration."""

    arn: str
    name: str
    machine_arn: str
    machine_name: str
    definition: str
    role_arn: str
    account: str
    region: str
    input: str
    is_express: bool
    start_date: datetime
    logging: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an execution ended: AWS's status; `output` is JSON text when it SUCCEEDED."""

    status: str
    output: str | None = None
    error: str | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Redrive:
    """Where a redriven execution goes on: its history so far, the event that entered the state, the variables then."""

    events: list[dict[str, Any]]
    entered: int
    variables: Mapping[str, Any]
    count: int
    date: datetime

    @property
    def state(self) -> Mapping[str, Any]:
        """The name and the input of the state."""
        return cast("Mapping[str, Any]", self.events[self.entered]["stateEnteredEventDetails"])


class Run:
    """One execution. `run` is called once, on a thread of the caller; any thread may call the other methods."""

    def __init__(
        self,
        started: ExecutionInput,
        activities: Activities | None = None,
        inspection: Inspection | None = None,
        redrive: Redrive | None = None,
    ) -> None:
        """Take the execution's input, the queue of its activity tasks, what TestState asks of it, its redrive."""
        self.started = started
        self._activities = activities or Activities()
        self._inspection = inspection
        self._redrive = redrive
        # The number of events before the last state of the top level, and the variables then.
        self._place: tuple[int, dict[str, Any]] | None = None
        self._log: history.ExecutionLog | None = None
        self._environment: Any = None
        self._lock = threading.Lock()
        self._stop: tuple[str | None, str | None] | None = None

    def run(self) -> Outcome:
        """Run to the end and return the outcome; what the interpreter cannot do becomes a failure with a cause."""
        try:
            return self._outcome()
        finally:
            self._end()

    def run_and_record(self) -> tuple[Outcome, str, list[dict[str, Any]]]:
        """Run as `run` does; return the outcome, `history` and `map_runs`."""
        try:
            return self._outcome(), self.history(), self.map_runs()
        finally:
            self._end()

    def _end(self) -> None:
        history.HISTORIES.give_back(self.started.arn)
        if self._log is not None:
            self._log.flush()

    def _outcome(self) -> Outcome:
        try:
            program, environment = self._prepare()
        except Exception as error:  # noqa: BLE001 - an error in the definition fails the execution
            return Outcome("FAILED", error=RUNTIME_ERROR, cause=_words(error))
        with self._lock:
            self._environment = environment
            # `stop` may have been called before the environment existed.
            stop = self._stop
        if stop is not None:
            return Outcome("ABORTED", error=stop[0], cause=stop[1])
        try:
            if self._redrive is None:
                history.note_start(environment, self.started.input, self.started.role_arn)
            else:
                _go_on(program, environment, self._redrive)
            self._note_places(program, environment)
            program.eval(environment)
            outcome = _outcome_of(environment)
        except Exception as error:  # noqa: BLE001 - as above
            return Outcome("FAILED", error=RUNTIME_ERROR, cause=_words(error))
        if outcome.status == "TIMED_OUT":
            # The interpreter returns before its own thread has written the last event.
            environment.event_manager.ended.wait(LAST_EVENT_WITHIN_S)
        return outcome

    def stop(self, error: str | None, cause: str | None) -> None:
        """Stop the execution: waits end at once; a running function is not waited for."""
        with self._lock:
            self._stop = (error, cause)
            environment = self._environment
        if environment is not None:
            environment.set_stop(stop_date=datetime.now(UTC), error=error, cause=cause)
            interrupt(environment.callback_pool_manager)

    def events(self) -> list[dict[str, Any]]:
        """Return the history so far, in GetExecutionHistory's form, with timestamps as ISO text."""
        return cast("list[dict[str, Any]]", json.loads(self.history()))

    def history(self) -> str:
        """Return the history so far as JSON text, as `events` does."""
        environment = self._environment
        if environment is None:
            return "[]"
        return json.dumps(environment.event_manager.get_event_history(), default=str)

    def place(self) -> dict[str, Any] | None:
        """Return the last state of the top level that was entered: the index of its event, and the variables then."""
        place = self._place
        if place is None or len(self._environment.event_manager._history_event_list) <= place[0]:
            return None
        return {"entered": place[0], "variables": place[1]}

    def _note_places(self, program: Any, environment: Any) -> None:
        get_state, events = program._get_state, environment.event_manager._history_event_list
        variables = environment.variable_store._inner_scope

        def get_and_note(state_name: str) -> Any:
            self._place = len(events), dict(variables)
            return get_state(state_name)

        program._get_state = get_and_note

    def variables(self) -> dict[str, Any]:
        """Return the variables of the whole execution, as they are now."""
        environment = self._environment
        return {} if environment is None else dict(environment.variable_store._inner_scope)

    def map_runs(self) -> list[dict[str, Any]]:
        """Return the Map Runs so far in order, as `map_runs.describe` does."""
        return [map_runs.describe(record) for record in self._map_run_records()]

    def map_run(self, arn: str) -> Any:
        """Return the interpreter's record of a Map Run; None when this execution has no such one."""
        records = self._map_run_records()
        return next((record for record in records if record.map_run_arn == arn), None)

    def _map_run_records(self) -> list[Any]:
        environment = self._environment
        return [] if environment is None else environment.map_run_record_pool_manager.get_all()

    def begin(self, token: str, worker: str | None) -> bool:
        """Note that a worker has taken an activity task; False when the token is not this execution's."""
        if self._environment is None or not self._environment.is_running():
            return False
        endpoint = self._environment.callback_pool_manager.get(token)
        if endpoint is None:
            return False
        endpoint.notify_activity_task_start(worker)
        return True

    def tell(self, token: str, answer: str, **details: Any) -> bool:
        """Pass on SendTask... (`answer` is success, failure or heartbeat); False for another execution's token.

        Raises AwsError when the task no longer waits.
        """
        if self._environment is None:
            return False
        from moto.stepfunctions.parser.asl.eval.callback import callback

        pool = self._environment.callback_pool_manager
        try:
            if answer == "heartbeat":
                # A task without HeartbeatSeconds has no clock to set back; its worker may report all the same.
                return bool(pool.heartbeat(callback_id=token)) or pool.get(token) is not None
            kind: Any = {
                "success": callback.CallbackOutcomeSuccess,
                "failure": callback.CallbackOutcomeFailure,
            }[answer]
            return bool(pool.notify(callback_id=token, outcome=kind(callback_id=token, **details)))
        except callback.CallbackNotifyConsumerError as error:
            if isinstance(error.callback_consumer_error, callback.CallbackConsumerTimeout):
                code, message = (
                    "TaskTimedOut",
                    "Task Timed Out: 'Provided task does not exist anymore'",
                )
            else:
                code, message = (
                    "TaskDoesNotExist",
                    "Task Does Not Exist: 'Provided task does not exist'",
                )
            raise AwsError(code, message) from error

    def _prepare(self) -> tuple[Any, Any]:
        started = self.started
        start_time, redriven = _text_of(started.start_date), _redrive_of(self._redrive)
        definition = json.loads(started.definition)
        load_interpreter()
        from moto.stepfunctions.parser.asl.component.common.timeouts.timeout import TimeoutSeconds
        from moto.stepfunctions.parser.asl.eval.environment import Environment
        from moto.stepfunctions.parser.asl.eval.evaluation_details import AWSExecutionDetails
        from moto.stepfunctions.parser.asl.eval.event.event_manager import EventHistoryContext
        from moto.stepfunctions.parser.asl.eval.states import (
            ContextObjectData,
            ExecutionData,
            StateMachineData,
        )
        from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

        parser: Any = AmazonStateLanguageParser
        program = parser.parse(json.dumps(mark_expressions(definition), ensure_ascii=False))[0]
        if started.is_express:
            own = program.timeout_seconds.timeout_seconds if program.timeout_seconds else None
            program.timeout_seconds = TimeoutSeconds(min(own or EXPRESS_LASTS_S, EXPRESS_LASTS_S))
        context_of: Any = ContextObjectData
        execution_of: Any = ExecutionData  # without RedriveCount, which AWS has
        context: Any = context_of(
            Execution=execution_of(
                Id=started.arn,
                Input=json.loads(started.input),
                Name=started.name,
                RoleArn=started.role_arn,
                StartTime=start_time,
                **({} if started.is_express else redriven),  # recorded
            ),
            StateMachine=StateMachineData(Id=started.machine_arn, Name=started.machine_name),
        )
        kind: Any = "EXPRESS" if started.is_express else "STANDARD"
        self._log = history.log_of(
            started.arn, started.machine_name, started.start_date, started.logging
        )
        environment = Environment(
            aws_execution_details=AWSExecutionDetails(
                account=started.account, region=started.region, role_arn=started.role_arn
            ),
            execution_type=kind,
            context=context,
            event_history_context=EventHistoryContext.of_program_start(),
            cloud_watch_logging_session=cast("Any", self._log),
            activity_store=cast("Any", self._activities),
        )
        manager: Any = environment.event_manager
        manager.ended = threading.Event()
        manager.execution_arn = started.arn
        manager.inspection = self._inspection
        return program, environment


def _text_of(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _redrive_of(redrive: Redrive | None) -> dict[str, Any]:
    """Return the members of the context object; `RedriveTime` is there for a redriven execution only (documented)."""
    if redrive is None:
        return {"RedriveCount": 0}
    return {"RedriveCount": redrive.count, "RedriveTime": _text_of(redrive.date)}


def _go_on(program: Any, environment: Any, redrive: Redrive) -> None:
    """Make the interpreter go on at the state that was not successful, with its input, variables and history."""
    history.take_up(environment, redrive.events)
    history.note_redrive(environment, redrive.count)
    environment.states.reset(json.loads(redrive.state["input"]))
    for name, value in redrive.variables.items():
        environment.variable_store.set(name, value)
    environment.variable_store.reset_tracing()
    program.start_at.start_at_name = redrive.state["name"]


def _words(error: Exception) -> str:
    if isinstance(error, NotImplementedError | TooMuch):
        return str(error)
    # A class of Python's would tell a machine's author nothing; the log has the whole.
    log.error("a state machine cannot be run", exc_info=error)
    return f"The state machine cannot be run: {error}"


def _outcome_of(environment: Any) -> Outcome:
    from moto.stepfunctions.parser.asl.eval import program_state
    from moto.stepfunctions.parser.asl.utils.encoding import to_json_str

    state = environment.program_state()
    if isinstance(state, program_state.ProgramEnded):
        output = to_json_str(environment.states.get_input(), separators=(",", ":"))
        return Outcome("SUCCEEDED", output=output)
    if isinstance(state, program_state.ProgramStopped):
        return Outcome("ABORTED", error=state.error, cause=state.cause)
    if isinstance(state, program_state.ProgramTimedOut):
        return Outcome("TIMED_OUT")
    details: Any = getattr(state, "error", None) or {}
    return Outcome("FAILED", error=details.get("error"), cause=details.get("cause"))


# --- patches of the interpreter -----------------------------------------------------------------------


_LOADED = threading.Event()


def load_interpreter() -> None:
    """Import the interpreter, and connect it to this cloud. This takes a second, once."""
    if _LOADED.is_set():
        return
    with IMPORTING:
        if not _LOADED.is_set():
            importlib.import_module("moto.stepfunctions.parser.models")
            _patch_interpreter()
            history.patch()
            jsonata_states.patch()
            state_data.patch()
            # Before what wraps the same methods in classes that inherit them.
            patch_interpreter()
            maps.patch()
            map_runs.patch_interpreter()
            service_calls.patch()
            intrinsics.patch()
            bounds.patch()
            state_data.bound()
            inspections.patch()
            _LOADED.set()


def _patch_interpreter() -> None:
    from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import (
        inline_iteration_component,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import state_task
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        state_task_service_aws_sdk,
        state_task_service_factory,
    )

    # It logs each failed execution, with the client's data, as an error of its own.
    logging.getLogger("moto.stepfunctions.parser").setLevel(logging.CRITICAL)
    # Many of its modules import these by name.
    instead: dict[str, Any] = {
        "to_json_str": state_data.to_json_str,
        "boto_client_for": client_of_cloud,
        "extract_json": extract_json,
        "is_within_size_quota": state_data.is_within_size_quota,
        "TMP_THREADS": deque[threading.Thread](maxlen=0),  # it keeps none
        "state_task_service_for": task_maker(state_task_service_factory.state_task_service_for),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("moto.stepfunctions.parser."):
            for attribute, value in instead.items():
                if hasattr(module, attribute):
                    setattr(module, attribute, value)
    sdk: Any = state_task_service_aws_sdk
    sdk.boto_client_for = sdk_client_of_cloud
    decl: Any = retrier_decl
    decl.time = SimpleNamespace(sleep=_wait_in_retry)
    any_task: Any = state_task.StateTask
    any_task._eval_state_credentials = asking_for_roles(any_task._eval_state_credentials)
    iterations: Any = inline_iteration_component.InlineIterationComponent
    iterations._launch_worker = _limit_threads(iterations._launch_worker)
    retrier: Any = decl.RetrierDecl
    retrier._eval_body = _retry(retrier._eval_body)


class _Retrying(threading.local):
    """The environment of the execution whose retry this thread waits for."""

    environment: Any = None


_RETRYING = _Retrying()


def _retry(evaluate: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def evaluate_with_retries(self: Any, env: Any) -> None:
        _RETRYING.environment = env
        evaluate(self, env)

    return evaluate_with_retries


def _wait_in_retry(seconds: float) -> None:
    """Wait, but only while the execution runs."""
    environment = _RETRYING.environment
    until = time.monotonic() + seconds
    while environment.is_running() and (left := until - time.monotonic()) > 0:
        # A stop just before this wait is seen after at most a second.
        environment.program_state_event.wait(min(left, 1.0))


def _limit_threads(launch: Callable[..., Any]) -> Callable[..., Any]:
    """Make a Map start a limited number of threads; they share its items."""

    def launch_limited(self: Any, env: Any, eval_input: Any, job_pool: Any) -> Any:
        job_pool.workers = getattr(job_pool, "workers", 0) + 1
        if job_pool.workers > MOST_ITERATIONS_AT_A_TIME:
            return None
        if job_pool.workers == 1 and hasattr(eval_input, "map_run_record"):
            eval_input.map_run_record.progress.launch = functools.partial(
                launch_more, self, env, eval_input, job_pool
            )
        return launch(self, env=env, eval_input=eval_input, job_pool=job_pool)

    def launch_more(self: Any, env: Any, eval_input: Any, job_pool: Any, limit: int) -> None:
        wanted = min(limit or MOST_ITERATIONS_AT_A_TIME, MOST_ITERATIONS_AT_A_TIME)
        while job_pool.workers < wanted:
            launch_limited(self, env, eval_input, job_pool)

    return launch_limited
