"""Evaluates JSONata for moto's interpreter of the Amazon States Language, which would otherwise need a Java program.

The definition comes from `asl_languages.marked`, so each expression carries its place. The results of expressions, and
the causes of failures: documented, https://docs.aws.amazon.com/step-functions/latest/dg/transforming-data.html and
workflow-variables.html; the sentences: observed by others on AWS (github.com/floci-io/floci, issues 2665 and 2736).

Evaluates JSONata for moto's interpreter, with a state's variables, and with AWS's causes of failures.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/transforming-data.html; the sentences: observed by
others on AWS (github.com/floci-io/floci, issues 2665 and 2736).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

# moto has no public attributes for these patches.
# moto has no public attributes for these patches.
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from headrace.core.evaluation import TooMuch, check_json_size
from headrace.services.stepfunctions.interpreter.json_paths import extract_json
from headrace.services.stepfunctions.jsonata_expressions import (
    EVALUATOR,
    Expression,
    NoValue,
    QueryFailed,
    parse_marked,
)

# Documented: the limits for one variable, and for all variables of one Assign.
MOST_VARIABLE_BYTES = 256 * 1024
# Documented: the limit for all variables of an execution.
MOST_VARIABLES_BYTES = 10 * 1024 * 1024


# --- patches of the interpreter -------------------------------------------------------------------------


def patch() -> None:
    """Add JSONata to moto's interpreter, which is imported. Called once."""
    from moto.stepfunctions.parser.asl.component.common.assign import assign_decl
    from moto.stepfunctions.parser.asl.component.common.error_name import failure_event
    from moto.stepfunctions.parser.asl.component.common.string import string_expression
    from moto.stepfunctions.parser.asl.component.state.choice import state_choice
    from moto.stepfunctions.parser.asl.component.state.exec.state_parallel import state_parallel
    from moto.stepfunctions.parser.asl.component.state.wait.wait_function import timestamp
    from moto.stepfunctions.parser.asl.parse import preprocessor

    strings: Any = string_expression
    strings.StringJSONata._eval_body = _eval_expression
    strings.StringVariableSample._eval_body = _eval_variable
    assign: Any = assign_decl.AssignDecl
    assign._eval_body = _assign
    parallel: Any = state_parallel.StateParallel
    parallel.from_state_props = _arguments_later(parallel.from_state_props)
    parallel._eval_execution = _with_arguments(parallel._eval_execution)
    waiting: Any = timestamp.Timestamp
    waiting._get_wait_seconds = _wait_seconds
    waiting._from_timestamp_string = staticmethod(_instant)
    choice: Any = state_choice.StateChoice
    choice._eval_state = _choose
    choice._eval_state_output = _apply_default(choice._eval_state_output)
    failures: Any = failure_event.FailureEventException
    failures.get_execution_failed_event_details = _once_decorated(
        failures.get_execution_failed_event_details
    )
    _patch_parsing(preprocessor.Preprocessor)


def _patch_parsing(preprocessor: Any) -> None:
    from moto.stepfunctions.parser.asl.antlt4utils.antlr4utils import from_string_literal
    from moto.stepfunctions.parser.asl.component.common import query_language as language
    from moto.stepfunctions.parser.asl.component.common.assign import (
        assign_template_value_terminal as terminal,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_map import tolerated_failure

    literal: Any = terminal.AssignTemplateValueTerminalLit
    count: Any = tolerated_failure.ToleratedFailureCountStringJSONata
    open_scope = preprocessor._open_query_language_scope
    visit_result_writer = preprocessor.visitResult_writer_decl

    def open_own_scope(self: Any, tree: Any) -> None:
        # Each state has its own language, whatever language encloses it, as on AWS.
        around, self._query_language_per_scope = self._query_language_per_scope, []
        open_scope(self, tree)
        self._query_language_per_scope = around + self._query_language_per_scope

    def visit_text(self: Any, context: Any) -> Any:
        return literal(value=from_string_literal(context.string_literal()))

    def visit_count(self: Any, context: Any) -> Any:
        # moto reads it as a percentage, and so ignores it.
        return count(string_jsonata=self.visitString_jsonata(ctx=context.string_jsonata()))

    def visit_writer(self: Any, context: Any) -> Any:
        # Its arguments are packed into Parameters, which the grammar has only for JSONPath.
        self._query_language_per_scope.append(language.QueryLanguage())
        try:
            return visit_result_writer(self, context)
        finally:
            self._query_language_per_scope.pop()

    preprocessor.visitResult_writer_decl = visit_writer
    preprocessor._open_query_language_scope = open_own_scope
    preprocessor.visitAssign_template_value_terminal_string_literal = visit_text
    preprocessor.visitTolerated_failure_count_string_jsonata = visit_count


def _eval_expression(self: Any, env: Any) -> None:
    env.stack.append(evaluate(env, parse_marked(self.expression)))


def _eval_variable(self: Any, env: Any) -> None:
    """Push a variable of a JSONPath state, or a value in it; OutputPath sees it as before Assign (recorded)."""
    text: str = self.expression
    end = min((at for mark in ".[" if (at := text.find(mark)) > 0), default=len(text))
    name = text[1:end]
    before = getattr(env, "before_assign", None)
    variables = read_variables(env) if before is None else before
    if name not in variables:
        raise failure(
            env,
            f"The variable '${name}' is not defined.",
            Expression(text, env.next_field_name or ""),
            "States.Runtime",
        )
    path: Any = f"${text[end:]}"
    env.stack.append(variables[name] if path == "$" else extract_json(path, variables[name]))


def _assign(self: Any, env: Any) -> None:
    """Set variables; all expressions see the previous values, and so does the state's output (documented)."""
    assigned: dict[str, Any] = {}
    for binding in self.declaration_bindings:
        binding.eval(env=env)
        assigned.update(env.stack.pop())
    env.before_assign = read_variables(env)
    for values, most in (
        (assigned, MOST_VARIABLE_BYTES),
        ({**env.before_assign, **assigned}, MOST_VARIABLES_BYTES),
    ):
        try:
            check_json_size(values, most)
        except TooMuch:
            raise failure(
                env,
                f"The variables have more than {most} bytes.",
                Expression("", "Assign"),
                "States.DataLimitExceeded",
            ) from None
    for name, value in assigned.items():
        env.variable_store.set(variable_identifier=name, variable_value=value)


def _arguments_later(take: Callable[..., None]) -> Callable[..., None]:
    def take_properties(self: Any, state_props: Any) -> None:
        take(self, state_props)
        self.arguments = None
        if not self._is_language_query_jsonpath():
            self.arguments, self.parargs = self.parargs, None

    return take_properties


def _with_arguments(evaluate: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Evaluate a Parallel's Arguments inside the state, so that Retry and Catch handle a failure."""

    def with_arguments(self: Any, env: Any) -> None:
        if self.arguments is not None:
            self.arguments.eval(env=env)
            value = env.stack.pop()
            env.stack.pop()
            env.stack.append(value)
        evaluate(self, env)

    return with_arguments


def _once_decorated(details_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Name the failed state in a cause only once: Map and Parallel pass on the cause of an inner state."""

    def once(self: Any) -> Any:
        details = details_of(self)
        pair = cast("tuple[str | None, str | None] | None", self.extract_error_cause_pair())
        if details and pair and (pair[1] or "").startswith(DECORATED):
            details["cause"] = pair[1]
        return details

    return once


def _choose(self: Any, env: Any) -> None:
    """Take the first matching rule, else the default; moto treats a rule with the default's target as the default."""
    for rule in self.choices_decl.rules:
        rule.eval(env)
        if env.stack.pop() is True:
            env.has_rule = True
            env.stack.append(rule.next_stmt.name)
            return
    env.has_rule = False
    if self.default_state is None:
        # Documented; the sentence is assumed.
        cause = "No choice rule matched, and there is no Default."
        raise failure(env, cause, Expression("", "Choices"), "States.NoChoiceMatched")
    env.stack.append(self.default_state.state_name)


def _apply_default(leave: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Apply the state's Assign and Output only when no rule has matched."""

    def leave_choice(self: Any, env: Any) -> None:
        if not env.has_rule:
            leave(self, env)
            return
        name = env.stack.pop()
        if self._is_language_query_jsonpath():
            self.output_path.eval(env=env)
        env.next_state_name = name

    return leave_choice


def _instant(text: Any) -> datetime | None:
    """Return the instant of an ISO 8601 text; None for another text, or without an offset."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else None


def _wait_seconds(self: Any, env: Any) -> int:
    """Return a Wait's seconds; moto takes local time for UTC, and no other offset than Z."""
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEventException,
    )

    self.string.eval(env=env)
    text = env.stack.pop()
    until = _instant(text)
    if until is None:
        raise FailureEventException(self._create_failure_event(env, text))
    return max(0, math.ceil((until - datetime.now(UTC)).total_seconds()))


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
    context = environment.event_history_context
    if context.source_event_id == entered:
        # Observed (recorded by LocalStack, 2024-11-21): it follows the event before the state's first one.
        context.source_event_id = environment.before_entered_event_id
    publish(context=context, event_type=kind, event_details=event)
    return FailureEventException(
        FailureEvent(
            env=environment,
            error_name=name_of(error),
            event_type=kind,
            event_details=event,
        )
    )
