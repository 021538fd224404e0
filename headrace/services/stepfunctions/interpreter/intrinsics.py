"""Evaluates intrinsic functions in moto's interpreter: their text, and the functions that moto has otherwise.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/intrinsic-functions.html. The bounds of functions are
in bounds.py. That what is no text in Base64 fails, and bytes that are no UTF-8 become U+FFFD, is assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

# moto has no public attributes for these patches.
import base64
import json
import random
from typing import Any

from headrace.services.stepfunctions.intrinsic_calls import Argument, Call, Path, Text, parse_call

# Documented, in characters.
MOST_ENCODED = 10_000


class Literal(str):
    """A text of a definition; `written` has its escapes."""

    __slots__ = ("written",)
    written: str

    @classmethod
    def of(cls, text: Text) -> Literal:
        """Return a text that remembers how it was written."""
        made = cls(text.value)
        made.written = text.written
        return made


def patch() -> None:
    """Replace parts of moto's interpreter, which is imported. Called once, before the bounds are set."""
    from moto.stepfunctions.parser.asl.component.common.string import string_expression
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction.array import (
        array_get_item,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction.encoding_decoding import (
        base_64_decode,
        base_64_encode,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction.json_manipulation import (
        json_to_string,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction.math_operations import (
        math_random,
    )
    from moto.stepfunctions.parser.asl.parse import preprocessor
    from moto.stepfunctions.parser.asl.utils.encoding import to_json_str

    strings: Any = string_expression

    def visit(_: Any, context: Any) -> Any:
        text = json.loads(context.STRINGINTRINSICFUNC().getText())
        function = _component(parse_call(text)).function
        return strings.StringIntrinsicFunction(
            intrinsic_function_derivation=text, function=function
        )

    parsing: Any = preprocessor.Preprocessor
    parsing.visitString_intrinsic_function = visit
    replaced: dict[Any, Any] = {
        array_get_item.ArrayGetItem: _item,
        base_64_encode.Base64Encode: _encode,
        base_64_decode.Base64Decode: _decode,
        json_to_string.JsonToString: to_json_str,
        math_random.MathRandom: _random,
    }
    for function, evaluate in replaced.items():
        function._eval_body = _with_arguments(evaluate)


def _component(argument: Argument) -> Any:
    """Return moto's component for an argument."""
    from moto.stepfunctions.parser.asl.component.common.query_language import QueryLanguageMode
    from moto.stepfunctions.parser.asl.component.common.string.string_expression import (
        StringVariableSample,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.argument import argument as kinds
    from moto.stepfunctions.parser.asl.component.intrinsic.function.statesfunction.factory import (
        StatesFunctionFactory,
    )
    from moto.stepfunctions.parser.asl.component.intrinsic.functionname import (
        state_function_name_types,
        states_function_name,
    )

    match argument:
        case Call():
            given = kinds.ArgumentList(arguments=[_component(item) for item in argument.arguments])
            kind = state_function_name_types.StatesFunctionNameType[argument.name]
            name = states_function_name.StatesFunctionName(function_type=kind)
            made = StatesFunctionFactory.from_name(func_name=name, argument_list=given)
            return kinds.ArgumentFunction(function=made)
        case Path(text) if text.startswith("$$"):
            return kinds.ArgumentContextPath(context_path=text)
        case Path(text) if text == "$" or text[1] in ".[":
            return kinds.ArgumentJsonPath(json_path=text)
        case Path(text):
            sample = StringVariableSample(
                query_language_mode=QueryLanguageMode.JSONPath, expression=text
            )
            return kinds.ArgumentVar(string_variable_sample=sample)
        case Text():
            return kinds.ArgumentLiteral(definition_value=Literal.of(argument))
        case _:
            return kinds.ArgumentLiteral(definition_value=argument)


def _with_arguments(evaluate: Any) -> Any:
    def evaluate_function(self: Any, env: Any) -> None:
        self.argument_list.eval(env=env)
        env.stack.append(evaluate(*env.stack.pop()))

    return evaluate_function


def _item(items: Any, index: Any) -> Any:
    if not isinstance(items, list):
        raise TypeError("The first argument must be an array")
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(items):
        raise IndexError(f"The array has no item {json.dumps(index)}")
    return items[index]


def _encode(text: Any) -> str:
    return base64.b64encode(_checked(text).encode()).decode()


def _decode(text: Any) -> str:
    return base64.b64decode(_checked(text), validate=True).decode(errors="replace")


def _checked(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError("The argument must be a string")
    if len(text) > MOST_ENCODED:
        raise ValueError(f"The string has more than {MOST_ENCODED} characters")
    return text


def _random(start: Any, end: Any, seed: Any = None) -> int:
    """Return a number from `start` up to, but not including, `end`."""
    numbers = (start, end) if seed is None else (start, end, seed)
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        raise TypeError("All arguments must be numbers")
    return random.Random(seed).randrange(round(start), round(end))
