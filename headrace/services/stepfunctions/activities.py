"""Passes the tasks of Step Functions' activities from executions to the workers that call GetActivityTask.

Tasks wait in memory, because executions run there; moto stores the activities. Documented:
https://docs.aws.amazon.com/step-functions/latest/apireference/API_GetActivityTask.html.

Step Functions' activities: creating one again returns the first, and GetActivityTask gives workers their tasks.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

import functools
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT
from headrace.moto.long_polls import LAST_RECEIVE


def patch(response: Any, backend: Any) -> None:
    """Replace methods of moto's response and of its backend."""
    backend.create_activity = _once(backend.create_activity)
    backend.describe_activity = _word_missing_activity(backend.describe_activity)
    response.get_activity_task = _get_activity_task


def _once(create: Any) -> Any:
    """Return an existing activity with this name (documented: idempotent); moto refuses the second request."""

    def create_activity(self: Any, name: str, *args: Any, **named: Any) -> Any:
        activity = next(
            (activity for activity in self.activities.values() if activity.name == name), None
        )
        return activity or create(self, name, *args, **named)

    return create_activity


def _word_missing_activity(describe: Any) -> Any:
    """Say that an activity does not exist in AWS's words (recorded); moto shows its ARN alone."""

    def describe_activity(self: Any, arn: str) -> Any:
        if f":{_KIND}:" in arn and arn not in self.activities:
            raise AwsError("ActivityDoesNotExist", f"Activity Does Not Exist: '{arn}'")
        return describe(self, arn)

    return describe_activity


def _get_activity_task(self: Any) -> Any:
    """Give a worker the next task; the caller waits while there is none (see `long_poll`)."""
    from moto.core.responses import ActionResult

    activity = self.stepfunction_backend.describe_activity(self._get_param("activityArn"))
    running = CURRENT.executions
    worker = self._get_param("workerName")
    task = None if running is None else running.take_task(activity.arn, worker)
    LAST_RECEIVE.wait_s, LAST_RECEIVE.found, LAST_RECEIVE.again_ms = WAITS_S, task is not None, None
    if task is None:
        return ActionResult({})
    return ActionResult({"taskToken": task[0], "input": task[1]})


_KIND = "activity"
# Documented: how long GetActivityTask waits for a task.
WAITS_S = 60.0


class Activities:
    """The tasks that wait for a worker, by the activity's ARN, in order. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, deque[tuple[str, str]]] = defaultdict(deque)

    def add(self, arn: str, token: str, input_text: str) -> None:
        """Add a task, and wake the workers that wait for one."""
        with self._lock:
            self._waiting[arn].append((token, input_text))
        CURRENT.message_arrived()

    def take(self, arn: str) -> tuple[str, str] | None:
        """Remove the first task, and return its token and input."""
        with self._lock:
            waiting = self._waiting.get(arn)
            return waiting.popleft() if waiting else None


def patch_interpreter() -> None:
    """Make moto's interpreter, which is imported, pass its activity tasks to `Activities`. Called once."""
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import (
        state_task,
        state_task_activitiy,
    )
    from moto.stepfunctions.parser.asl.eval.callback import callback

    manager: Any = callback.CallbackPoolManager
    manager.add_activity_task = _add_task
    tasks: list[Any] = [state_task.StateTask, state_task_activitiy.StateTaskActivity]
    for task in tasks:
        task._from_error = _named_for_heartbeat(task._from_error)
    waiting: Any = callback.CallbackEndpoint
    waiting.setup_heartbeat_endpoint = with_early_answer(waiting.setup_heartbeat_endpoint)
    starting: Any = callback.ActivityTaskStartEndpoint
    starting._outcome = None  # which moto reads when no worker has come
    of_activity: Any = state_task_activitiy.StateTaskActivity
    of_activity._eval_execution = _with_arn(of_activity._eval_execution)


def with_early_answer(set_up: Callable[..., Any]) -> Callable[..., Any]:
    """Let a wait with heartbeats end at once if the task was answered before it began; moto would miss the answer."""

    @functools.wraps(set_up)
    def set_up_heartbeats(self: Any, *args: Any, **named: Any) -> Any:
        heartbeats = set_up(self, *args, **named)
        if self._notify_event.is_set():
            heartbeats.notify()
        return heartbeats

    return set_up_heartbeats


def _with_arn(run: Callable[..., None]) -> Callable[..., None]:
    """Let the error of an activity that is gone name it, where moto has a stand-in for its ARN (recorded)."""
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEventException,
    )

    @functools.wraps(run)
    def run_activity(self: Any, env: Any) -> None:
        try:
            run(self, env)
        except FailureEventException as failure:
            details: Any = failure.failure_event.event_details or {}
            failed = details.get("executionFailedEventDetails") or {}
            if isinstance(cause := failed.get("cause"), str):
                named = str(self.resource.resource_arn)
                failed["cause"] = cause.replace("activity activity_arn", f"activity {named}")
            raise

    return run_activity


def _named_for_heartbeat(from_error: Callable[..., Any]) -> Callable[..., Any]:
    """Let States.HeartbeatTimeout in a Retry or Catch take a missed heartbeat, as well as States.Timeout.

    Documented: https://states-language.net/spec.html (Appendix A) has both names for it. The history shows the latter.
    """
    from moto.stepfunctions.parser.asl.component.common.error_name import (
        states_error_name,
        states_error_name_type,
    )
    from moto.stepfunctions.parser.asl.eval.callback import callback

    names: Any = states_error_name_type.StatesErrorNameType
    kind: Any = states_error_name.StatesErrorName

    class MissedHeartbeat(kind):
        """The name of a missed heartbeat."""

        __hash__: Any = None

        def __eq__(self, other: object) -> bool:
            name = getattr(other, "error_name", None)
            return name in (self.error_name, "States.HeartbeatTimeout")

    @functools.wraps(from_error)
    def from_named_error(self: Any, env: Any, ex: Exception) -> Any:
        event = from_error(self, env, ex)
        if isinstance(ex, callback.HeartbeatTimeoutError):
            event.error_name = MissedHeartbeat(names.StatesTimeout)
        return event

    return from_named_error


def _add_task(self: Any, callback_id: str, activity_arn: str, activity_input: str) -> Any:
    from moto.stepfunctions.parser.api import ActivityDoesNotExist
    from moto.stepfunctions.parser.asl.eval.callback import callback

    if not _is_there(activity_arn):
        raise ActivityDoesNotExist(activity_arn)
    endpoint = callback.ActivityCallbackEndpoint(
        callback_id=callback_id, activity_input=activity_input
    )
    # A worker may answer at once, so the token is registered before a worker can get the task.
    self._pool[callback_id] = endpoint
    self._activity_store.add(activity_arn, callback_id, activity_input)
    return endpoint


def _is_there(arn: str) -> bool:
    from moto.stepfunctions.models import stepfunctions_backends

    parts = arn.split(":")
    backends: Any = stepfunctions_backends
    return arn in backends[parts[4]][parts[3]].activities


def interrupt(pool: Any) -> None:
    """End the waits for tokens and workers when an execution ends."""
    for endpoint in list(pool._pool.values()):
        endpoint.interrupt_all()
        start = getattr(endpoint, "_activity_task_start_endpoint", None)
        if start is not None:
            start._next_activity_task_start_event.set()
