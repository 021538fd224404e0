"""Evaluates JSONata expressions: an engine of `headrace.core.evaluation.child`, whose requests and answers are JSON.

The functions that Step Functions adds, and `$eval`, which it lacks: documented,
https://docs.aws.amazon.com/step-functions/latest/dg/transforming-data.html. The limits on an expression's depth and its
values' size, and the results of `$range` and `$random`: observed by others on AWS (github.com/floci-io/floci, issues
2662 and 2737).
"""

# jsonata has no useful type annotations.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, cast

import regex
from jsonata.jexception import JException
from jsonata.jsonata import Jsonata
from jsonata.regex_engine import RegexFlags
from jsonata.utils import Utils

# A number counts as eight bytes, a character as one.
MOST_VALUE_BYTES = 6_990_256
# A character of a value has at most six as JSON in ASCII; no state may have so much.
MOST_ANSWER_BYTES = 8 * 1024 * 1024
MOST_RANGE_ITEMS = 360_145
MOST_DEPTH = 100
_LONGEST_INTEGER = 2**63
_TOO_LARGE = "Expression evaluation memory limit exceeded"
_HASHES = {
    "MD5": hashlib.md5,
    "SHA-1": hashlib.sha1,
    "SHA-256": hashlib.sha256,
    "SHA-384": hashlib.sha384,
    "SHA-512": hashlib.sha512,
}
# JSONata's names of item types in messages about array arguments.
_ITEMS = {
    "a": "arrays", "b": "booleans", "f": "functions", "n": "numbers", "o": "objects", "s": "strings",
}  # fmt: skip
_PLACEHOLDER = re.compile(r"\{\{\{?(\w+)\}?\}\}")


def _engine(pattern: str, flags: RegexFlags) -> Any:
    """Compile a pattern of an expression; the module `re` lacks much of Java's syntax."""
    case = regex.IGNORECASE if flags.case_insensitive else 0
    return regex.compile(pattern, case | (regex.MULTILINE if flags.multiline else 0))


class _Refused(Exception):
    """The expression exceeds a limit; the message is AWS's."""


# --- the functions of Step Functions --------------------------------------------------------------------


def _parse(text: str | None) -> Any:
    return None if text is None else _from_json(json.loads(text))


def _partition(items: list[Any] | None, size: float | None) -> Any:
    count = int(size or 0)
    if not items or count <= 0:
        return None
    values = list(items)
    return [values[start : start + count] for start in range(0, len(values), count)]


def _range(first: float | None, last: float | None, step: float | None) -> Any:
    if first is None or last is None or not step or not int(step):
        return None
    low, high, by = int(first), int(last), int(step)
    numbers = range(low, high + (1 if by > 0 else -1), by)
    if len(numbers) > MOST_RANGE_ITEMS:
        raise _Refused(_TOO_LARGE)
    # A sequence: one of a single number is that number.
    return Utils.create_sequence_from_iter(numbers) if numbers else None


def _hash(text: str | None, algorithm: str | None) -> Any:
    if text is None or algorithm is None:
        return None
    if algorithm not in _HASHES:
        raise JException("D3141", -1, f"Unsupported hash algorithm: {algorithm}")
    return _HASHES[algorithm](text.encode()).hexdigest()


def _random(seed: float | None) -> float:
    """Return a number as java.util.Random's nextDouble does with this seed."""
    if seed is None:
        return random.random()
    state = (int(seed) ^ 0x5DEECE66D) & (2**48 - 1)
    parts: list[int] = []
    for bits in (26, 27):
        state = (state * 0x5DEECE66D + 0xB) & (2**48 - 1)
        parts.append(state >> (48 - bits))
    return ((parts[0] << 27) + parts[1]) / (1 << 53)


class _Call:
    """The callable that jsonata needs: it always gets as many arguments as the function has parameters."""

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        self._function, self._count = function, count

    def call(self, _input: Any, call_arguments: Any) -> Any:
        arguments = [
            None if argument is Utils.NULL_VALUE else argument for argument in call_arguments or ()
        ]
        arguments += [None] * (self._count - len(arguments))
        return self._function(*arguments[: self._count])


def _functions() -> dict[str, Any]:
    signatures: dict[str, tuple[Callable[..., Any], str, int]] = {
        "parse": (_parse, "<s?:x>", 1),
        "partition": (_partition, "<a?n?:a>", 2),
        "range": (_range, "<n?n?n?:a>", 3),
        "hash": (_hash, "<s?s?:s>", 2),
        "random": (_random, "<n?:n>", 1),
        "uuid": (lambda: str(uuid.uuid4()), "<:s>", 0),
    }
    functions: dict[str, Any] = {
        name: Jsonata.JFunction(cast("Any", _Call(function, count)), signature)
        for name, (function, signature, count) in signatures.items()
    }
    return {**functions, "eval": None}


_FUNCTIONS = _functions()


# --- evaluation -----------------------------------------------------------------------------------------


def _from_json(value: Any) -> Any:
    """Return a JSON value in jsonata's form, which distinguishes nothing and null."""
    if value is None:
        return Utils.NULL_VALUE
    if isinstance(value, dict):
        return {
            name: _from_json(element) for name, element in cast("dict[str, Any]", value).items()
        }
    if isinstance(value, list):
        return [_from_json(element) for element in cast("list[Any]", value)]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _LONGEST_INTEGER:
        return float(value)
    return value


class _NoJson(Exception):
    """The result is or contains a function or a regular expression."""


def _to_json(value: Any) -> Any:
    """Return a result as JSON. Raises _NoJson."""
    if value is Utils.NULL_VALUE or value is None:
        return None
    if isinstance(value, bool | str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int | float):
        return value
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _to_json(element) for name, element in members.items() if element is not None}
    if isinstance(value, list):
        return [_to_json(element) for element in cast("list[Any]", value)]
    raise _NoJson


class _Bounds:
    """Stops an expression that nests too deeply, or whose values become too large."""

    def __init__(self) -> None:
        self._depth = 0

    def enter(self, *_: Any) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise _Refused(
                "Stack overflow error: Check for non-terminating recursive function."
                f" Consider rewriting as tail-recursive. Depth={self._depth} max={MOST_DEPTH}"
            )

    def leave(self, _expression: Any, _input: Any, _frame: Any, result: Any) -> None:
        self._depth -= 1
        if isinstance(result, str):
            size = len(result)
        elif isinstance(result, list) and not isinstance(result, Utils.RangeList):
            size = 8 * len(cast("list[Any]", result))
        else:
            return
        if size > MOST_VALUE_BYTES:
            raise _Refused(_TOO_LARGE)


def _evaluate(request: dict[str, Any]) -> dict[str, Any]:
    program = Jsonata(request["expression"], _engine)
    program.set_output_convert_nulls(False)
    bounds = _Bounds()
    program.environment.set_evaluate_entry_callback(bounds.enter)
    program.environment.set_evaluate_exit_callback(bounds.leave)
    variables = {name: _from_json(value) for name, value in request["variables"].items()}
    outcome = program.evaluate(None, {**_FUNCTIONS, **variables})
    if outcome is None:
        return {"nothing": True}
    try:
        return {"value": _to_json(outcome)}
    except _NoJson:
        return {"unsupported": True}


# --- validating an expression before it runs ------------------------------------------------------------


def _check(request: dict[str, Any]) -> dict[str, Any]:
    """Answer with the names that an expression reads, of those that Step Functions may not provide."""
    program = Jsonata(request["expression"], _engine)
    return {"roots": sorted(set(_roots(program.ast)))}


_BRANCHES = (
    "lhs", "rhs", "expression", "expressions", "arguments", "procedure", "body", "condition", "then", "_else",
    "else", "lhs_object",
)  # fmt: skip


def _roots(node: Any) -> Iterator[str]:
    """Return each name at the start of a path, and `$states.` with the name that follows."""
    if isinstance(node, (list, tuple)):
        for child in cast("list[Any]", node):
            yield from _roots(child)
        return
    kind = getattr(node, "type", None)
    if kind == "path":
        steps = node.steps
        first = steps[0]
        if first.type == "variable" and first.value == "states" and len(steps) > 1:
            if steps[1].type == "name":
                yield f"$states.{steps[1].value}"
        else:
            yield from _roots(first)
    elif kind == "name":
        yield str(node.value)
    elif kind == "variable" and node.value in ("", "$"):
        yield f"${node.value}"
    elif kind is not None:
        for name in _BRANCHES:
            branch = getattr(node, name, None)
            if branch is not None:
                yield from _roots(branch)


# --- errors ---------------------------------------------------------------------------------------------


def _words_of(error: JException) -> str:
    """Return JSONata's message with its arguments filled in, as JSONata itself writes it."""
    code = error.error
    template = JException.error_codes.get(code)
    if template is None:
        return str(code)
    arguments: list[Any] = [error.current, error.expected, error.extra]
    if code == "T0412":
        arguments[2] = _ITEMS.get(str(error.extra)[:1], str(error.extra))
    elif code == "D1002":
        arguments[0] = error.expected
    left = iter(arguments)

    def of(match: re.Match[str]) -> str:
        value = next(left, None)
        if match[0].startswith("{{{"):
            return str(value)
        try:
            return json.dumps(_to_json(value), ensure_ascii=False)
        except _NoJson:
            return '""'

    # The library calls functions Objects.
    return _PLACEHOLDER.sub(of, template.replace("Object ", "function "))


def _answer_to(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _check(request) if request["is_check"] else _evaluate(request)
    except _Refused as error:
        return {"code": "", "message": str(error)}
    except JException as error:
        is_code = error.error in JException.error_codes
        return {"code": error.error if is_code else "", "message": _words_of(error)}
    except RecursionError:
        return {"code": "", "message": "The expression is nested too deeply"}
    except MemoryError:
        return {"code": "", "message": _TOO_LARGE}
    except ZeroDivisionError:
        return {"code": "D1001", "message": "Number out of range"}
    except ValueError as error:
        text = str(error).partition("convert string to float: ")[2].strip("'")
        if text:
            return {"code": "D3030", "message": f'Unable to cast value to a number: "{text}"'}
        return {"code": "", "message": str(error)}
    except Exception as error:  # noqa: BLE001 - any other error of the library fails the expression
        return {"code": "", "message": str(error) or type(error).__name__}


def answer(request: bytes) -> bytes:
    """Answer a request: `value`, `nothing` or `unsupported`; `roots` of a check; or `code` and `message`."""
    answered = json.dumps(_answer_to(json.loads(request))).encode()
    if len(answered) > MOST_ANSWER_BYTES:
        answered = json.dumps({"code": "", "message": _TOO_LARGE}).encode()
    return answered
