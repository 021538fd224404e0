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

from headrace.core.evaluation import TooMuch, check_json_size
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
# Documented: Arguments, Output and Assign of a state have at most 256 KiB each. Items may have more.
MOST_VALUES_CHARACTERS = 4 * 256 * 1024
_FREE = ("Arguments", "Output", "Assign", "ItemSelector")


def evaluate(environment: Any, expression: Expression) -> Any:
    """Return an expression's value in a state. On failure writes the event and raises moto's FailureEventException."""
    subject = f"The JSONata expression '{expression.text}' specified for the field '{expression.location}'"
    try:
        value = EVALUATOR.value(
            expression.text, _variables(environment, expression), caller_of(environment)
        )
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
    if expression.location != "Items":
        _count(environment, value, expression)
    problem = _misfit(value, expression.location)
    if problem:
        raise failure(environment, f"{subject} {problem}", expression)
    return value


def _count(environment: Any, value: Any, expression: Expression) -> None:
    """Count a value of a state; raises its failure when all values together are too large."""
    left = getattr(environment, "characters_left", MOST_VALUES_CHARACTERS)
    try:
        environment.characters_left = left - check_json_size(value, left)
    except TooMuch:
        name = environment.next_state_name
        raise failure(
            environment,
            f"The state/task '{name}' returned a result with a size exceeding the maximum number of"
            " bytes service limit.",
            expression,
            "States.DataLimitExceeded",
        ) from None


def _misfit(value: Any, location: str) -> str:
    """Return why a field does not accept a value's type; an empty text when it does."""
    if location.startswith(_FREE) or "]/Output" in location or "]/Assign" in location:
        return ""
    field = location.rpartition("/")[2]
    expected = "number" if field in _NUMBERS else _TYPES.get(field)
    actual = _type_of(value)
    if expected is None or actual == expected:
        return ""
    shown = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return (
        f"returned an unexpected result type. Expected '{expected}', but was '{actual}' for value:"
        f" {shown}"
    )


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "number")


def _variables(environment: Any, expression: Expression) -> dict[str, Any]:
    location = expression.location
    is_output = location.partition("/")[0] == "Output" or "]/Output" in location
    before: dict[str, Any] | None = getattr(environment, "before_assign", None)
    seen = before if is_output and before is not None else read_variables(environment)
    text = expression.text
    variables = {name: value for name, value in seen.items() if f"${name}" in text}
    if "$states" in text:
        data = environment.states._states_data
        states = {"input": data["input"], "context": data["context"]}
        for name in ("result", "errorOutput"):
            if data.get(name) is not None:
                states[name] = data[name]
        variables["states"] = states
    return variables


def caller_of(environment: Any) -> str:
    """Return whose evaluations a state's are: its execution's ARN."""
    return str(environment.states.context_object.context_object_data["Execution"]["Id"])


def read_variables(environment: Any) -> dict[str, Any]:
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
