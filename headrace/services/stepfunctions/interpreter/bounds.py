"""Bounds the intrinsic functions of moto's interpreter: what they take, and what they make.

The limits are documented: https://docs.aws.amazon.com/step-functions/latest/dg/intrinsic-functions.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

# moto has no public attributes for these patches.
import functools
import re
from typing import Any

from headrace.services.stepfunctions.interpreter.intrinsics import Literal
from headrace.services.stepfunctions.interpreter.state_data import (
    MOST_STATE_BYTES,
    DataLimitExceeded,
    Evaluate,
    IntrinsicFailed,
    Room,
)

# Documented: States.ArrayRange.
MOST_RANGE_ITEMS = 1000
_HOLE = re.compile(r"\\([\\{}'])|\{\}")


def patch() -> None:
    """Bound moto's interpreter, which is imported. Called once."""
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction import (
        states_function,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction.array import (
        array_range,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction.generic import (
        string_format,
    )

    ranges: Any = array_range.ArrayRange
    ranges._eval_body = _array_range
    format_: Any = string_format.StringFormat
    format_._eval_body = _format
    functions: Any = states_function.StatesFunction
    for function in functions.__subclasses__():
        function._eval_body = _bound_result(function._eval_body)


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
        Room().take(env.stack[-1])

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
    room = Room()
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
