"""Evaluates JSONata for moto's interpreter, with a state's variables, and with AWS's causes of failures.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/transforming-data.html; the sentences: observed by
others on AWS (github.com/floci-io/floci, issues 2665 and 2736).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false
# moto has no public attributes for these patches.

from __future__ import annotations

import json
from typing import Any

from headrace.services.stepfunctions.jsonata.evaluator import EVALUATOR, NoValue, QueryFailed
from headrace.services.stepfunctions.query_languages import Expression

QUERY_ERROR = "States.QueryEvaluationError"
DECORATED = "An error occurred while executing the state '"
_NUMBERS = {
    "Seconds", "TimeoutSeconds", "HeartbeatSeconds", "MaxConcurrency", "MaxItems",
    "ToleratedFailureCount", "ToleratedFailurePercentage",
}  # fmt: skip
_TYPES = {
    "Condition": "boolean", "Items": "array", "Timestamp": "string", "Error": "string", "Cause": "string",
}  # fmt: skip
_FREE = ("Arguments", "Output", "Assign", "ItemSelector")


def evaluated(environment: Any, expression: Expression) -> Any:
    """Return an expression's value in a state. On failure writes the event and raises moto's FailureEventException."""
    subject = f"The JSONata expression '{expression.text}' specified for the field '{expression.location}'"
    try:
        value = EVALUATOR.value(expression.text, _variables(environment, expression))
    except QueryFailed as error:
        how = f". {error.code}: {error.message}" if error.code else f": {error.message}"
        raise failure(
            environment, f"{subject} threw an error during evaluation{how}", expression
        ) from error
    if isinstance(value, NoValue):
        what = "returned nothing (undefined)" if value.is_nothing else None
        raise failure(
            environment, f"{subject} {what or 'returned an unsupported result type'}.", expression
        )
    problem = _misfit(value, expression.location)
    if problem:
        raise failure(environment, f"{subject} {problem}", expression)
    return value


def _misfit(value: Any, location: str) -> str:
    """Return why a field does not accept a value's type; an empty text when it does."""
    if location.startswith(_FREE) or "]/Output" in location or "]/Assign" in location:
        return ""
    field = location.rpartition("/")[2]
    wanted = "number" if field in _NUMBERS else _TYPES.get(field)
    given = _type_of(value)
    if wanted is None or given == wanted:
        return ""
    shown = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return (
        f"returned an unexpected result type. Expected '{wanted}', but was '{given}' for value:"
        f" {shown}"
    )


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "number")


def _variables(environment: Any, expression: Expression) -> dict[str, Any]:
    place = expression.location
    is_output = place.partition("/")[0] == "Output" or "]/Output" in place
    before: dict[str, Any] | None = getattr(environment, "before_assign", None)
    seen = before if is_output and before is not None else stored(environment)
    text = expression.text
    found = {name: value for name, value in seen.items() if f"${name}" in text}
    if "$states" in text:
        data = environment.states._states_data
        states = {"input": data["input"], "context": data["context"]}
        for name in ("result", "errorOutput"):
            if data.get(name) is not None:
                states[name] = data[name]
        found["states"] = states
    return found


def stored(environment: Any) -> dict[str, Any]:
    """Return the variables that are visible to a state."""
    store = environment.variable_store
    return {**store._outer_scope, **store._inner_scope}


def failure(
    environment: Any, cause: str, expression: Expression, error: str = QUERY_ERROR
) -> Exception:
    """Write the event of a state's failure, and return moto's exception for it."""
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEvent,
        FailureEventException,
    )
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    state = environment.next_state_name
    entered = getattr(environment, "entered_event_id", 0)
    details: Any = {
        "error": error,
        "cause": f"{DECORATED}{state}' (entered at the event id #{entered}). {cause}",
        "location": expression.location,
        "state": state,
    }
    details_of: Any = EventDetails
    name_of: Any = type("QueryErrorName", (ErrorName,), {})
    kind: Any = HistoryEventType.EvaluationFailed
    event: Any = details_of(evaluationFailedEventDetails=details)
    publish: Any = environment.event_manager.add_evaluation_failure
    publish(context=environment.event_history_context, event_type=kind, event_details=event)
    return FailureEventException(
        FailureEvent(
            env=environment,
            error_name=name_of(error),
            event_type=kind,
            event_details=event,
        )
    )
