"""Writes the events of Step Functions' executions to their machine's log group, at its log level.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html; the stream's name is AWS's as users
show it (observed by others).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT

log = logging.getLogger(__name__)
# The most events that wait to be written; AWS delivers within seconds, and promises nothing.
MOST_WAITING = 100


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
