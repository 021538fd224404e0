"""EventBridge: updates of buses, their policies, buses of other accounts, TestEventPattern."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import importlib
import json
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.event_patterns import BadEventPattern, compile_pattern, matches_event
from headrace.core.schedule_expressions import BadExpression, check_expression
from headrace.moto.other_accounts import patch_buses
from headrace.services.events import bus_policies, checks
from headrace.services.events.patterns import check_pattern


def patch_responses(module: Any) -> None:
    """Allow updates of event buses, with their policies, and buses of other accounts; answer TestEventPattern."""

    def update_event_bus(self: Any) -> str:
        bus = self.events_backend.describe_event_bus(self._get_param("Name"))
        bus.description = self._get_param("Description")
        bus.kms_key_identifier = self._get_param("KmsKeyIdentifier")
        bus.dead_letter_config = self._get_param("DeadLetterConfig")
        return json.dumps({"Arn": bus.arn, "Name": bus.name})

    def test_event_pattern(self: Any) -> str:
        from moto.events.exceptions import InvalidEventPatternException, ValidationException

        pattern, text = self._get_param("EventPattern") or "", self._get_param("Event") or ""
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise ValidationException("Parameter Event is not valid.")  # recorded
        try:
            check_pattern(pattern)
        except BadEventPattern as error:
            raise InvalidEventPatternException(reason=str(error)) from error
        return json.dumps({"Result": matches_event(compile_pattern(pattern), event)})

    module.EventsHandler.update_event_bus = update_event_bus
    module.EventsHandler.test_event_pattern = test_event_pattern
    models = importlib.import_module("moto.events.models")
    _refuse_details(models.EventsBackend)
    _check_schedules(models.EventsBackend)
    bus_policies.patch(models.EventBus, module.EventsHandler)
    patch_buses(models, module.EventsHandler)
    checks.patch(module.EventsHandler)


def _check_schedules(backend: Any) -> None:
    """Refuse cron expressions that are none (recorded), and `rate(1 minutes)` or `rate(5 minute)` (documented)."""
    put = backend.put_rule

    @functools.wraps(put)
    def put_rule(self: Any, *args: Any, **named: Any) -> Any:
        expression = str(named.get("scheduled_expression") or "")
        if expression and named.get("event_bus_arn") in (None, "default"):
            try:
                check_expression(expression)
            except BadExpression as error:
                raise _bad_schedule() from error
            amount, _, unit = expression.removeprefix("rate(").removesuffix(")").partition(" ")
            if expression.startswith("rate(") and (int(amount) == 1) == unit.endswith("s"):
                raise _bad_schedule()
        return put(self, *args, **named)

    backend.put_rule = put_rule


def _bad_schedule() -> AwsError:
    return AwsError("ValidationException", "Parameter ScheduleExpression is not valid.")


def _refuse_details(backend: Any) -> None:
    """Refuse events whose detail is JSON but not an object (recorded: MalformedDetail); moto accepts them."""
    put = backend.put_events

    def is_other(text: Any) -> bool:
        try:
            return not isinstance(json.loads(text), dict)
        except (TypeError, ValueError):
            return False

    @functools.wraps(put)
    def put_objects(self: Any, events: list[dict[str, Any]]) -> Any:
        # moto refuses an event whose detail is not JSON at all, in its place among the others.
        return put(
            self, [{**one, "Detail": "{"} if is_other(one.get("Detail")) else one for one in events]
        )

    backend.put_events = put_objects
