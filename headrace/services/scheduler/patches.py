"""EventBridge Scheduler: invalid schedule expressions are refused; moto stores any text."""

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
