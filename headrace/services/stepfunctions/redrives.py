"""RedriveExecution: an execution that was not successful goes on at the state where it ended.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/redrive-executions.html. headrace does not go on inside
of a Parallel or Map state, of which AWS runs only the branches and iterations that failed: such a redrive is refused.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT

# Documented: how long after its end an execution can be redriven, and how many events it may have.
REDRIVABLE = timedelta(days=14)
MOST_EVENTS = 24_998
# Documented: how many client tokens are remembered, and how long.
TOKENS, TOKEN_LASTS = 10, timedelta(minutes=15)


def note_place(execution: Any, place: dict[str, Any] | None) -> None:
    """Keep with moto's ended execution where it can go on, and what it runs; nothing when it cannot."""
    execution.redrive_place = place and zlib.compress(json.dumps(place).encode(), 1)


def members_of(execution: Any) -> dict[str, Any]:
    """Return what DescribeExecution shows of redrives."""
    reason = _reason_against(execution)
    status = {"redriveStatus": "REDRIVABLE"}
    if reason is not None:
        status = {"redriveStatus": "NOT_REDRIVABLE", "redriveStatusReason": reason}
    return {**count_of(execution), **status}


def count_of(execution: Any) -> dict[str, Any]:
    """Return how often, and when last, an execution was redriven."""
    date = getattr(execution, "redrive_date", None)
    return {
        "redriveCount": getattr(execution, "redrives", 0),
        **({"redriveDate": date} if date else {}),
    }


def _reason_against(execution: Any) -> str | None:
    if execution.status in ("RUNNING", "SUCCEEDED"):
        return f"Execution is {execution.status} and cannot be redriven"
    end = execution.stop_date
    if datetime.now(UTC) - (end if end.tzinfo else end.replace(tzinfo=UTC)) > REDRIVABLE:
        return "Execution redrivable period exceeded"
    running = CURRENT.executions
    if running is None or running.run_of(execution.execution_arn) is not None:
        return "headrace still ends the execution's last step"
    place = getattr(execution, "redrive_place", None)
    if not place:
        return "headrace does not know the state in which the execution ended"
    events = _events_of(execution)
    if len(events) > MOST_EVENTS:
        return "Execution history event limit exceeded"
    entered = events[json.loads(zlib.decompress(place))["entered"]]
    if entered["type"] in ("MapStateEntered", "ParallelStateEntered"):
        kind = entered["type"].removesuffix("StateEntered")
        return f"headrace does not redrive executions that ended in a {kind} state"
    exited = entered["type"].replace("Entered", "Exited")
    if any(event["type"] == exited for event in events[entered["id"] :]):
        return "headrace does not redrive executions that were stopped between two states"
    return None


def _events_of(execution: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(zlib.decompress(execution.events))
    return events


def redrive_execution(self: Any) -> Any:
    """Answer RedriveExecution."""
    from moto.core.responses import ActionResult

    execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    token, now = self._get_param("clientToken"), datetime.now(UTC)
    tokens: list[tuple[str, datetime]] = getattr(execution, "redrive_tokens", [])
    for known, date in tokens:
        if known == token and now - date <= TOKEN_LASTS:
            return ActionResult({"redriveDate": date})
    reason = _reason_against(execution)
    if reason is not None:
        # The sentence is assumed, after that of ExecutionDoesNotExist.
        raise AwsError("ExecutionNotRedrivable", f"Execution Not Redrivable: '{reason}'")
    executions: Any = CURRENT.executions
    place = json.loads(zlib.decompress(execution.redrive_place))
    count = count_of(execution)["redriveCount"] + 1
    executions.redrive(execution, place, _events_of(execution), count, now)
    if token:
        execution.redrive_tokens = [*tokens, (token, now)][-TOKENS:]
    return ActionResult({"redriveDate": now})
