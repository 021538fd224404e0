"""EventBridge Scheduler: invalid schedule expressions are refused, and an update changes what follows the end."""

from __future__ import annotations

import functools
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.schedule_expressions import BadExpression, check_expression


def patch(module: Any) -> None:
    """Patch `moto.scheduler.models`."""
    backend = module.EventBridgeSchedulerBackend
    for name in ("create_schedule", "update_schedule"):
        setattr(backend, name, _checked(getattr(backend, name)))


def update_actions(module: Any) -> None:
    """Let UpdateSchedule set ActionAfterCompletion, which moto takes only at the creation."""
    update = module.EventBridgeSchedulerResponse.update_schedule

    @functools.wraps(update)
    def update_schedule(self: Any) -> Any:
        answer = update(self)
        name = self.uri.partition("?")[0].rpartition("/")[2]
        schedule = self.scheduler_backend.get_schedule(self._get_param("GroupName"), name)
        # Documented: an update replaces the whole schedule.
        schedule.action_after_completion = self._get_param("ActionAfterCompletion")
        return answer

    module.EventBridgeSchedulerResponse.update_schedule = update_schedule


def _checked(method: Any) -> Any:
    @functools.wraps(method)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        expression = str(named["schedule_expression"])
        zone = str(named.get("schedule_expression_timezone") or "UTC")
        try:
            check_expression(expression, zone=zone)
        except BadExpression as error:
            # Recorded; for an unknown time zone the same sentence is assumed.
            message = f"Invalid Schedule Expression {expression}."
            raise AwsError("ValidationException", message) from error
        return method(self, *args, **named)

    return checked
