"""Bounds what a state makes of its data in moto's interpreter: payload templates and intrinsic functions.

moto measures a value by writing all of it, and only when a state ends. The limits of intrinsic functions are
documented: https://docs.aws.amazon.com/step-functions/latest/dg/intrinsic-functions.html; States.DataLimitExceeded and
States.IntrinsicFailure: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html; the sentence
of the former was observed by others (github.com/jogold/cloudstructs, issue 163); those of the latter are assumed.

Parameters, ResultSelector and ItemSelector of any JSON type, for moto's interpreter, whose grammar has only objects.

Parameters may be a number, text, list, boolean or null (documented: github.com/aws/amazon-states-language-service,
pull request 83); that the other two may be as well is assumed. `mark_expressions` wraps such a value in an object.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

# moto has no public attributes for these patches.
import functools
import json
import re
from collections.abc import Callable
from typing import Any, cast

from headrace.core.evaluation import TooMuch, check_json_size
from headrace.services.stepfunctions.interpreter.intrinsics import Literal
from headrace.services.stepfunctions.interpreter.json_paths import plain_steps
from headrace.services.stepfunctions.interpreter.jsonata_states import failure
from headrace.services.stepfunctions.jsonata_expressions import WRAPPED, Expression

# Documented: the largest input and output of a state, a task and an execution.
MOST_STATE_BYTES = 256 * 1024
# Documented: States.ArrayRange.
MOST_RANGE_ITEMS = 1000
_HOLE = re.compile(r"\\([\\{}'])|\{\}")
# A step of a reference path: .name, ['name'] or [0].
Evaluate = Callable[[Any, Any], None]


class DataLimitExceeded(TooMuch):
    """A state makes more data than it may."""


def is_within_size_quota(value: Any) -> bool:
    """Whether a value is small enough for a state's output, in place of moto's function of this name."""
    from moto.stepfunctions.parser.asl.utils.encoding import to_json_str

    try:
        check_json_size(value, MOST_STATE_BYTES)
    except TooMuch:
        return False
    text = value if isinstance(value, str) else to_json_str(value)
    return len(text.encode("utf-8", "surrogatepass")) < MOST_STATE_BYTES


def patch() -> None:
    """Bound moto's interpreter, which is imported. Called once."""
    from moto.stepfunctions.parser.asl.component.common.path import result_path
    from moto.stepfunctions.parser.asl.component.common.payload.payloadvalue.payloadarr import (
        payload_arr,
    )
    from moto.stepfunctions.parser.asl.component.common.payload.payloadvalue.payloadtmpl import (
        payload_tmpl,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction import (
        states_function,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction.array import (
        array_range,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction.generic import (
        string_format,
    )
    from moto.stepfunctions.parser.asl.component.state import state
    from moto.stepfunctions.parser.asl.component.state.exec import execute_state

    path: Any = result_path.ResultPath
    path._eval_body = _check_path(path._eval_body)
    cast("Any", result_path).parse = _parse_path
    template: Any = payload_tmpl.PayloadTmpl
    template._eval_body = _template
    items: Any = payload_arr.PayloadArr
    items._eval_body = _items
    ranges: Any = array_range.ArrayRange
    ranges._eval_body = _array_range
    format_: Any = string_format.StringFormat
    format_._eval_body = _format
    functions: Any = states_function.StatesFunction
    for function in functions.__subclasses__():
        function._eval_body = _bound_result(function._eval_body)
    common: Any = state.CommonStateField
    common._eval_body = _convert_failure(common._eval_body)
    executing: Any = execute_state.ExecutionState
    executing._from_error = _name_error(executing._from_error)


# --- payload templates ----------------------------------------------------------------------------------


class _Room:
    """The characters that a payload may still have."""

    def __init__(self) -> None:
        self.left = MOST_STATE_BYTES

    def take(self, value: Any) -> None:
        try:
            self.left -= check_json_size(value, self.left)
        except TooMuch:
            raise DataLimitExceeded("") from None


def _template(self: Any, env: Any) -> None:
    """Push an object's members, measuring each as soon as it has a value: together they could fill the memory."""
    room = _Room()
    env.stack.append({})
    for binding in self.payload_bindings:
        binding.eval(env)
        room.take(env.stack[-1].get(binding.field))


def _items(self: Any, env: Any) -> None:
    room, items = _Room(), list[Any]()
    for value in self.payload_values:
        value.eval(env)
        items.append(env.stack.pop())
        room.take(items[-1])
    env.stack.append(items)


# --- intrinsic functions --------------------------------------------------------------------------------


class IntrinsicFailed(Exception):
    """An intrinsic function fails; the message is why."""


# moto's functions end in the last two for what is no object, or not simulated.
_FAILURES = (
    ValueError, TypeError, IndexError, ArithmeticError, RecursionError, AttributeError, NotImplementedError,
)  # fmt: skip


def _bound_result(evaluate: Evaluate) -> Evaluate:
    """Measure a function's result, and name its failure as AWS does."""

    @functools.wraps(evaluate)
    def evaluate_bounded(self: Any, env: Any) -> None:
        try:
            evaluate(self, env)
        except _FAILURES as error:
            # A path that selects nothing is another error, and no ValueError.
            name = self.name.function_type._name_
            raise IntrinsicFailed(
                f"The function 'States.{name}' had the following error: {error}"
            ) from error
        _Room().take(env.stack[-1])

    return evaluate_bounded


def _array_range(self: Any, env: Any) -> None:
    self.argument_list.eval(env=env)
    values = env.stack.pop()
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        raise TypeError("All arguments must be numbers")
    first, last, step = map(round, values)
    if step == 0:
        raise ValueError("The step must not be zero")
    numbers = range(first, last + (1 if step > 0 else -1), step)
    # Its `len` is limited to what the machine can index.
    count = max(0, (last - first) // step + 1)
    if count > MOST_RANGE_ITEMS:
        raise ValueError(f"The range has more than {MOST_RANGE_ITEMS} items")
    env.stack.append(list(numbers))


def _format(self: Any, env: Any) -> None:
    """Put the values into the holes `{}`; moto uses Python's `format`, whose templates can ask for a gigabyte."""
    self.argument_list.eval(env=env)
    template, *values = env.stack.pop()
    if not isinstance(template, str):
        raise TypeError("The template must be a string")
    template = template.written if isinstance(template, Literal) else template
    room = _Room()
    for value in values:
        room.take(value)
    texts = [self._to_str_repr(value) for value in values]
    if sum(match[0] == "{}" for match in _HOLE.finditer(template)) != len(texts):
        raise ValueError("The number of values does not match the number of {} in the template")
    left = iter(texts)
    size = len(template) + sum(map(len, texts))
    if size > MOST_STATE_BYTES:
        raise DataLimitExceeded("")
    env.stack.append(_HOLE.sub(lambda match: match[1] or next(left), template))


# --- ResultPath -----------------------------------------------------------------------------------------


_ABSENT = object()


class PathMismatch(ValueError):
    """A ResultPath cannot be applied to the state's input; the message is AWS's sentence (observed by others)."""


@functools.lru_cache(maxsize=256)
def _parse_path(text: str) -> Any:
    """Return a path as moto's library reads it; it takes a millisecond."""
    from jsonpath_ng.parser import parse

    steps = plain_steps(text)
    if steps is None or None in steps:
        return parse(text)
    return parse(
        "$" + "".join(f"['{step}']" if isinstance(step, str) else f"[{step}]" for step in steps)
    )


def _steps_of(path: Any) -> list[str | int] | None:
    """Return the names and places of a Reference Path; None for another path, which AWS does not take here."""
    match type(path).__name__:
        case "Root":
            return []
        case "Child":
            left, right = _steps_of(path.left), _steps_of(path.right)
            return None if left is None or right is None else left + right
        case "Fields" | "Index":
            steps = getattr(path, "fields", None) or path.indices
            return [steps[0]] if len(steps) == 1 else None
        case _:
            return None


def _check_path(evaluate: Evaluate) -> Evaluate:
    """Fail a state whose ResultPath names a field of what is no object, or a place behind what a list can take."""

    @functools.wraps(evaluate)
    def evaluate_checked(self: Any, env: Any) -> None:
        part = env.states.get_input()
        text = self.result_path_src or "$"
        steps = _steps_of(_parse_path(text))
        if steps is None:
            raise PathMismatch(f"The ResultPath {text} is no Reference Path")
        for step in steps:
            kind = list if isinstance(step, int) else dict
            # What is absent is made on the way, and the places before one in a list would be, too.
            target: Any = kind() if part is _ABSENT else part
            if not isinstance(target, kind) or (
                isinstance(step, int) and not 0 <= step <= len(target)
            ):
                shown = json.dumps(env.states.get_input(), separators=(",", ":"), default=str)
                raise PathMismatch(f'Unable to apply step "{step}" to input {shown}')
            is_known = step < len(target) if isinstance(step, int) else step in target
            part = cast("Any", target)[step] if is_known else _ABSENT
        evaluate(self, env)

    return evaluate_checked


# --- failures -------------------------------------------------------------------------------------------


def _cause_of(state: str, error: Exception) -> tuple[str, str] | None:
    """Return the name and the cause of a failure, None for another error."""
    if isinstance(error, DataLimitExceeded):
        cause = (
            f"The state/task '{state}' returned a result with a size exceeding the maximum number of"
            " bytes service limit."
        )
        return "States.DataLimitExceeded", cause
    if isinstance(error, TooMuch):
        return "States.Runtime", f"{error}."
    if isinstance(error, PathMismatch):
        return "States.ResultPathMatchFailure", str(error)
    return ("States.IntrinsicFailure", str(error)) if isinstance(error, IntrinsicFailed) else None


def _failure_of(self: Any, env: Any, error: Exception) -> Any:
    named = _cause_of(self.name, error)
    if named is None:
        return None
    return failure(env, named[1], Expression("", env.next_field_name or ""), named[0])


def _convert_failure(evaluate: Evaluate) -> Evaluate:
    @functools.wraps(evaluate)
    def evaluate_or_fail(self: Any, env: Any) -> None:
        try:
            evaluate(self, env)
        except (TooMuch, IntrinsicFailed, PathMismatch) as error:
            raise _failure_of(self, env, error) from error

    return evaluate_or_fail


def _name_error(from_error: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(from_error)
    def name_error(self: Any, env: Any, ex: Exception) -> Any:
        error = _failure_of(self, env, ex)
        return from_error(self, env=env, ex=error or ex)

    return name_error


def allow_any_template() -> None:
    """Unwrap the values after their evaluation. Called once, when moto's interpreter is imported."""
    from moto.stepfunctions.parser.asl.component.common import parargs, result_selector
    from moto.stepfunctions.parser.asl.component.state.exec.state_map import item_selector

    kinds: tuple[Any, ...] = (
        parargs.Parameters,
        result_selector.ResultSelector,
        item_selector.ItemSelector,
    )
    for kind in kinds:
        kind._eval_body = _unwrap_errors(kind._eval_body)


def _unwrap_errors(evaluate: Any) -> Any:
    @functools.wraps(evaluate)
    def eval_body(self: Any, env: Any) -> None:
        evaluate(self, env)
        value: Any = env.stack[-1]
        if isinstance(value, dict) and set(value) == {WRAPPED}:
            env.stack[-1] = value[WRAPPED]

    return eval_body
