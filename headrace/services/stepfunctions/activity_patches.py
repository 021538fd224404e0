"""Step Functions' activities: creating one again returns the first, and GetActivityTask gives workers their tasks."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.moto.long_polls import LAST_RECEIVE
from headrace.services.stepfunctions.activities import WAITS_S


def patch(response: Any, backend: Any) -> None:
    """Replace methods of moto's response and of its backend."""
    backend.create_activity = _once(backend.create_activity)
    response.get_activity_task = _get_activity_task


def _once(create: Any) -> Any:
    """Return an existing activity with this name (documented: idempotent); moto refuses the second request."""

    def create_activity(self: Any, name: str, *args: Any, **named: Any) -> Any:
        activity = next(
            (activity for activity in self.activities.values() if activity.name == name), None
        )
        return activity or create(self, name, *args, **named)

    return create_activity


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
