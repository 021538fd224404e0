"""The history of an execution: its events as AWS writes them, how many they may be, and their log.

The events go to the machine's log group, at its log level. Documented:
https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html; the stream's name is AWS's as users show it (observed
by others).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.evaluation import Ledger, TooMuch
from headrace.moto.current_cloud import CURRENT
from headrace.services.stepfunctions.interpreter.jsonata_states import caller_of

log = logging.getLogger(__name__)

# Documented: the maximum number of events of a standard execution.
MOST_EVENTS = 25_000
# The texts in the histories of executions that run: of one, and of all together.
HISTORIES = Ledger(one=64 * 1024 * 1024, all_together=192 * 1024 * 1024)
_BEGINNINGS = ("ExecutionStarted", "ExecutionRedriven")
# The most events that wait to be written; AWS delivers within seconds, and promises nothing.
MOST_WAITING = 100


def patch() -> None:
    """Patch moto's interpreter, which is imported. Called once, before `jsonata_states` uses what it adds."""
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import (
        distributed_iteration_component,
    )
    from moto.stepfunctions.parser.asl.eval.event import event_manager

    events: Any = event_manager.EventManager
    events.add_evaluation_failure = events.add_event
    events.add_event = _mend_events(events.add_event)
    events._publish_history_event = _bound_event(events._publish_history_event)
    distributed: Any = distributed_iteration_component.DistributedIterationComponent
    distributed._map_run = _count_events(distributed._map_run)


def note_start(environment: Any, input_text: str, role_arn: str) -> None:
    """Write the event of an execution's start."""
    environment.event_manager.add_event(
        context=environment.event_history_context,
        event_type="ExecutionStarted",
        event_details={
            "executionStartedEventDetails": {
                "input": input_text,
                "inputDetails": {"truncated": False},
                "roleArn": role_arn,
            }
        },
        update_source_event_id=False,
    )


def take_up(environment: Any, events: list[dict[str, Any]]) -> None:
    """Begin a redriven execution's history with its earlier events. Raises RuntimeError when they are too large."""
    manager, context = environment.event_manager, environment.event_history_context
    for event in events:
        details = {name: value for name, value in event.items() if isinstance(value, dict)}
        note_event(manager.execution_arn, details)
    manager._history_event_list.extend(events)
    manager._event_id_gen._next_id = len(events) + 1
    context.source_event_id = context.last_published_event_id = len(events)


def note_redrive(environment: Any, count: int) -> None:
    """Write the event of an execution's redrive."""
    environment.event_manager.add_event(
        context=environment.event_history_context,
        event_type="ExecutionRedriven",
        event_details={"executionRedrivenEventDetails": {"redriveCount": count}},
    )


def _mend_events(add: Callable[..., int]) -> Callable[..., int]:
    """Drop moto's own events of failed expressions: it writes them for some states only, and `failure` writes them.

    For `failure`, the event before each state's first one is noted. What follows the end of a Map Run, as on AWS, is
    what follows its start.
    """

    def add_event(self: Any, context: Any, event_type: Any, *args: Any, **named: Any) -> int:
        kind = str(event_type).rpartition(".")[2]
        if kind == "EvaluationFailed":
            return int(context.last_published_event_id)
        if kind.endswith("StateEntered"):
            context.before_entered_id = context.source_event_id
        before = context.source_event_id
        number = add(self, context, event_type, *args, **named)
        if kind == "MapRunSucceeded":
            context.before_run_ended_id = before
        elif kind == "MapStateSucceeded" and hasattr(context, "before_run_ended_id"):
            # Observed (recorded by LocalStack, 2024-11-18): a Map Run's end is before no other event.
            context.source_event_id = context.__dict__.pop("before_run_ended_id")
        return number

    return add_event


def _bound_event(publish: Callable[..., None]) -> Callable[..., None]:
    def publish_bounded(self: Any, *args: Any, **named: Any) -> None:
        kind = str(named.get("event_type")).rpartition(".")[2]
        ends = kind.startswith("Execution") and kind not in _BEGINNINGS
        if len(self._history_event_list) >= MOST_EVENTS and not ends:
            raise RuntimeError(
                f"The execution reached the maximum number of history events ({MOST_EVENTS})."
            )
        if not ends:
            note_event(self.execution_arn, named.get("event_details"))
        publish(self, *args, **named)
        if ends:
            self.ended.set()

    return publish_bounded


def note_event(execution_arn: str, details: Any) -> None:
    """Count an event's texts. Raises RuntimeError when the histories of all executions become too large."""
    size = 1024
    for group in (details or {}).values():
        if isinstance(group, dict):
            texts = cast("dict[str, Any]", group).values()
            size += sum(len(text) for text in texts if isinstance(text, str))
    try:
        HISTORIES.take(execution_arn, size)
    except TooMuch:
        raise RuntimeError(
            "The execution's history has more bytes than headrace keeps in memory."
        ) from None


def _count_events(run: Callable[..., None]) -> Callable[..., None]:
    """Count the events of a distributed Map, which go to a history of their own, as its execution's."""

    @functools.wraps(run)
    def run_and_count(self: Any, env: Any, eval_input: Any) -> None:
        env.event_manager.execution_arn = caller_of(env)
        run(self, env=env, eval_input=eval_input)

    return run_and_count


# --- the log ---------------------------------------------------------------------------------------------


class ExecutionLog:
    """The log of one execution, with the interface of moto's CloudWatchLoggingSession. Thread-safe."""

    def __init__(
        self, arn: str, machine_name: str, started: datetime, config: Mapping[str, Any], group: str
    ) -> None:
        """Take the execution's ARN and start, and its machine's LoggingConfiguration with the group's ARN."""
        self.execution_arn = arn
        self.include_execution_data = bool(config.get("includeExecutionData"))
        self._level = config["level"]
        parts = group.split(":")
        self._account, self._region, self._group = parts[4], parts[3], parts[6]
        minute = started.strftime("%Y-%m-%d-%H-%M")
        self._stream = f"states/{machine_name}/{minute}/{uuid.uuid4().hex[:8]}"
        self._lock = threading.Lock()
        self._waiting: list[dict[str, Any]] = []
        self._has_stream = False

    @property
    def configuration(self) -> ExecutionLog:
        """Read by moto for `include_execution_data`."""
        return self

    def log_level_filter(self, history_event_type: Any) -> bool:
        """Whether events of a type are logged."""
        from moto.stepfunctions.parser.asl.eval.event.logging import is_logging_enabled_for

        return bool(is_logging_enabled_for(self._level, history_event_type))

    def publish_history_log(self, history_log: Mapping[str, Any]) -> None:
        """Take one event; it is written together with others, at the latest by `flush`."""
        at_ms = int(datetime.fromisoformat(str(history_log["event_timestamp"])).timestamp() * 1000)
        message = json.dumps({**history_log, "event_timestamp": str(at_ms)}, default=str)
        with self._lock:
            self._waiting.append({"timestamp": at_ms, "message": message})
            is_full = len(self._waiting) >= MOST_WAITING
        if is_full:
            self.flush()

    def flush(self) -> None:
        """Write the waiting events; those that the group refuses are lost, as on AWS."""
        with self._lock:
            events, self._waiting = self._waiting, []
            has_stream, self._has_stream = self._has_stream, True
        if not events:
            return
        where = {"logGroupName": self._group, "logStreamName": self._stream}
        try:
            if not has_stream:
                self._call("CreateLogStream", where)
            self._call("PutLogEvents", {**where, "logEvents": events})
        except AwsError as error:
            log.warning("%s is not logged in %s: %s", self.execution_arn, self._group, error)

    def _call(self, operation: str, params: dict[str, Any]) -> None:
        if CURRENT.control is not None:
            CURRENT.control.call(
                "logs", operation, params, account=self._account, region=self._region
            )


def log_of(
    arn: str, machine_name: str, started: datetime, config: Mapping[str, Any] | None
) -> ExecutionLog | None:
    """Return the log of an execution; None when its machine has no logging."""
    if not config or config.get("level", "OFF") == "OFF":
        return None
    for destination in config.get("destinations") or []:
        group = str((destination.get("cloudWatchLogsLogGroup") or {}).get("logGroupArn", ""))
        if group.count(":") >= 6:
            return ExecutionLog(arn, machine_name, started, config, group)
    return None
