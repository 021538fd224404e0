"""Expressions of CloudWatch Logs Insights: reads them from the left, and evaluates them over a row in bounded time.

Source: docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html (documented).
"""
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.core.patterns import MatchingBudget, PatternRefused, glob_matches, java_pattern

_MOST_LEVELS = 50
# headrace's bound for one query: moto answers nobody else meanwhile.
MOST_SECONDS = 3.0
# headrace's bound for the texts that one query makes: `replace(a, '', a)` is as long as a's square.
MOST_MADE_CHARACTERS = 2**27

Value = str | float | bool | None
Row = dict[str, Value]


class QueryRefused(ValueError):
    """A query cannot be read or run; the message says why."""


class QueryTooLong(Exception):
    """A query takes more time than it may."""


_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<quoted>`[^`]+`)"
    r"|(?P<number>\d+(?:\.\d+)?(?![A-Za-z_.]))|(?P<name>[@A-Za-z_][@A-Za-z0-9_.]*|\d+[a-z]+)"
    r"|(?P<sign>=~|!=|<=|>=|[-+*/%^=<>(),\[\]]))"
)
_PATTERN = re.compile(r"\s*/((?:[^/\\\n]|\\.)*)/")


class Reader:
    """The words of one command, read from the left."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.level = text, 0, 0

    def peek(self) -> tuple[str, str]:
        """Return the next token's kind and text; empty at the end."""
        if not self.text[self.at :].strip():
            return "", ""
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise QueryRefused(
                f"unexpected symbol found {self.text[self.at :].strip()[:20]} in: {self.text[:200]}"
            )
        return str(match.lastgroup), match[str(match.lastgroup)]

    def take(self) -> tuple[str, str]:
        """Read the next token."""
        kind, text = self.peek()
        if not kind:
            raise QueryRefused(f"unexpected end of: {self.text[:200]}")
        match = _TOKEN.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return kind, text

    def skip(self, *words: str) -> bool:
        """Skip words, in any case, if the text goes on with them."""
        begin = self.at
        for word in words:
            if self.peek()[1].lower() != word:
                self.at = begin
                return False
            self.take()
        return True

    def has_pattern(self) -> bool:
        """Whether a regular expression between slashes follows."""
        return _PATTERN.match(self.text, self.at) is not None

    def pattern(self) -> str | None:
        """Read a regular expression between slashes, if there is one."""
        match = _PATTERN.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[1].replace("\\/", "/")

    def expect(self, sign: str) -> None:
        """Read a sign."""
        kind, text = self.take()
        if text != sign:
            raise QueryRefused(
                f"unexpected symbol found {text} ({kind}), expected {sign} in: {self.text[:200]}"
            )

    def descend(self, read: Callable[[Reader], Expression]) -> Expression:
        """Read what is a level deeper. Raises QueryRefused for too many levels."""
        self.level += 1
        if self.level > _MOST_LEVELS:
            raise QueryRefused(f"An expression has at most {_MOST_LEVELS} levels")
        expression = read(self)
        self.level -= 1
        return expression

    def is_done(self) -> bool:
        """Whether nothing follows."""
        return not self.peek()[0]


Expression = Callable[["Row", "Run"], Value]


@dataclass(slots=True)
class Run:
    """What one run may still spend."""

    budget: MatchingBudget = field(default_factory=MatchingBudget)
    until_s: float = field(default_factory=lambda: time.thread_time() + MOST_SECONDS)
    steps: int = 0
    made_characters: int = 0

    def make(self, characters: int) -> None:
        """Count a text that is about to be made. Raises QueryTooLong."""
        self.made_characters += characters
        if self.made_characters > MOST_MADE_CHARACTERS:
            raise QueryTooLong

    def step(self) -> None:
        self.steps += 1
        if not self.steps % 256 and time.thread_time() > self.until_s:
            raise QueryTooLong


# Expressions


def read_expression(reader: Reader) -> Expression:
    """Read an expression. Raises QueryRefused."""
    return reader.descend(_either)


def _either(reader: Reader) -> Expression:
    terms = [_both(reader)]
    while reader.skip("or"):
        terms.append(_both(reader))
    if len(terms) == 1:
        return terms[0]
    return lambda row, run: any(is_true(term(row, run)) for term in terms)


def _both(reader: Reader) -> Expression:
    terms = [_read_negation(reader)]
    while reader.skip("and"):
        terms.append(_read_negation(reader))
    if len(terms) == 1:
        return terms[0]
    return lambda row, run: all(is_true(term(row, run)) for term in terms)


def _read_negation(reader: Reader) -> Expression:
    if reader.skip("not"):
        inner = reader.descend(_read_negation)
        return lambda row, run: not is_true(inner(row, run))
    return _comparison(reader)


def _comparison(reader: Reader) -> Expression:
    left = _sum(reader)
    negative = reader.skip("not")
    if reader.skip("like") or (not negative and reader.skip("=~")):
        matches = _like(reader, left)
        return (lambda row, run: not matches(row, run)) if negative else matches
    if reader.skip("in"):
        reader.expect("[")
        items: list[Expression] = []
        while not reader.skip("]"):
            items.append(_sum(reader))
            if not reader.skip(",") and reader.peek()[1] != "]":
                reader.expect("]")
        return lambda row, run: (
            any(_equal(left(row, run), item(row, run)) for item in items) is not negative
        )
    if negative:
        raise QueryRefused(f"unexpected symbol found not in: {reader.text[:200]}")
    sign = reader.peek()[1]
    if sign not in _COMPARISONS:
        return left
    reader.take()
    right, compare = _sum(reader), _COMPARISONS[sign]
    return lambda row, run: compare(left(row, run), right(row, run))


def _like(reader: Reader, left: Expression) -> Expression:
    pattern = reader.pattern()
    if pattern is None:
        kind, text = reader.take()
        if kind != "text":
            raise QueryRefused(
                f"like needs a string or a regular expression in: {reader.text[:200]}"
            )
        wanted = unquote(text)
        if "%" in wanted:
            return lambda row, run: glob_matches(
                wanted, text_of(left(row, run)), any_run="%", any_one=""
            )
        return lambda row, run: wanted in text_of(left(row, run))
    try:
        compiled = java_pattern(f"(?s).*(?:{pattern}).*")
    except PatternRefused as refusal:
        raise QueryRefused(f"Invalid regular expression {pattern[:100]}: {refusal}") from None

    def matches(row: Row, run: Run) -> bool:
        value = left(row, run)
        return value is not None and compiled.matches(text_of(value), run.budget)

    return matches


def _compare(compare: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    def apply(left: Value, right: Value) -> bool:
        if left is None or right is None:
            return False
        numbers = number_of(left), number_of(right)
        if numbers[0] is not None and numbers[1] is not None:
            return compare(numbers[0], numbers[1])
        return compare(text_of(left), text_of(right))

    return apply


_equal = _compare(lambda a, b: a == b)
_COMPARISONS: dict[str, Callable[[Value, Value], bool]] = {
    "=": _equal,
    "!=": lambda a, b: not _equal(a, b),
    "<": _compare(lambda a, b: a < b),
    "<=": _compare(lambda a, b: a <= b),
    ">": _compare(lambda a, b: a > b),
    ">=": _compare(lambda a, b: a >= b),
}


def _arithmetic(compute: Callable[[float, float], float]) -> Callable[[Value, Value], Value]:
    def apply(left: Value, right: Value) -> Value:
        a, b = number_of(left), number_of(right)
        if a is None or b is None:
            return None
        try:
            result = float(compute(a, b))
        except (ArithmeticError, ValueError, TypeError):
            return None
        return result if math.isfinite(result) else None

    return apply


_OPERATIONS = {
    "+": _arithmetic(lambda a, b: a + b),
    "-": _arithmetic(lambda a, b: a - b),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _arithmetic(lambda a, b: a / b),
    "%": _arithmetic(math.fmod),
    "^": _arithmetic(lambda a, b: math.pow(a, b)),
}


def _chain(reader: Reader, signs: str, inner: Callable[[Reader], Expression]) -> Expression:
    first = inner(reader)
    rest: list[tuple[Callable[[Value, Value], Value], Expression]] = []
    while (sign := reader.peek()[1]) and sign in signs:
        reader.take()
        rest.append((_OPERATIONS[sign], inner(reader)))

    def compute(row: Row, run: Run) -> Value:
        value = first(row, run)
        for operation, term in rest:
            value = operation(value, term(row, run))
        return value

    return compute if rest else first


def _sum(reader: Reader) -> Expression:
    return _chain(
        reader,
        "+-",
        lambda inner: _chain(inner, "*/%", lambda part: _chain(part, "^", read_operand)),
    )


def read_operand(reader: Reader) -> Expression:
    """Read a constant, a field, a call or what stands in brackets. Raises QueryRefused."""
    kind, text = reader.take()
    if kind == "text":
        return _constant(unquote(text))
    if kind == "number":
        return _constant(float(text))
    if text == "-":
        inner = reader.descend(read_operand)
        return lambda row, run: _OPERATIONS["-"](0.0, inner(row, run))
    if text == "(":
        expression = read_expression(reader)
        reader.expect(")")
        return expression
    if kind == "quoted":
        return field_of(text[1:-1])
    if kind != "name":
        raise QueryRefused(f"unexpected symbol found {text} in: {reader.text[:200]}")
    if reader.skip("("):
        return _call(text.lower(), read_arguments(reader))
    return field_of(text)


def field_of(name: str) -> Expression:
    """Return the expression of a row's field."""

    def read(row: Row, run: Run) -> Value:
        run.step()
        return row.get(name)

    return read


def read_arguments(reader: Reader) -> list[Expression]:
    """Read a call's arguments, its opening bracket being read. Raises QueryRefused."""
    arguments: list[Expression] = []
    while not reader.skip(")"):
        kind, text = reader.peek()
        if kind == "name" and text[0].isdigit():
            reader.take()
            arguments.append(_constant(_duration_ms(text)))
        else:
            arguments.append(read_expression(reader))
        if not reader.skip(",") and reader.peek()[1] != ")":
            reader.expect(")")
    return arguments


def _constant(value: Value) -> Expression:
    def read(_row: Row, run: Run) -> Value:
        run.step()
        return value

    return read


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def _duration_ms(text: str) -> float:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(digits) :]
    unit = unit if unit in _UNITS_MS else unit[:1]
    if not digits or len(digits) > 9 or unit not in _UNITS_MS:
        raise QueryRefused(f"{text} is no period of time")
    return float(int(digits) * _UNITS_MS[unit])


def number_of(value: Value) -> float | None:
    """Return a value as a number; None when it is none."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def text_of(value: Value) -> str:
    """Return a value as text; empty for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        return value
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)


def is_true(value: Value) -> bool:
    """Whether a value holds as a condition."""
    return bool(value) and value != "0" and value != "false"


def unquote(text: str) -> str:
    """Return the text of a literal in quotes."""
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _of_number(compute: Callable[..., float]) -> Callable[..., Value]:
    def apply(*values: Value) -> Value:
        numbers = [number_of(value) for value in values]
        if any(number is None for number in numbers):
            return None
        try:
            return float(compute(*numbers))
        except (ArithmeticError, ValueError):
            return None

    return apply


def _substr(text: Value, start: Value, length: Value = None) -> Value:
    at, count = int(number_of(start) or 0), number_of(length)
    return text_of(text)[at:] if count is None else text_of(text)[at : at + int(count)]


def _floor(moment: Value, step: Value) -> Value:
    a, b = number_of(moment), number_of(step)
    return None if a is None or not b else float(a // b * b)


def _ceil(moment: Value, step: Value) -> Value:
    a, b = number_of(moment), number_of(step)
    return None if a is None or not b else float(-(-a // b) * b)


def _coalesce(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "abs": _of_number(math.fabs), "ceil": _of_number(math.ceil), "floor": _of_number(math.floor),
    "sqrt": _of_number(math.sqrt), "log": _of_number(math.log), "greatest": _of_number(max),
    "least": _of_number(min),
    "ispresent": lambda value: value is not None,
    "isempty": lambda value: value is None or value == "",
    "isblank": lambda value: not text_of(value).strip(),
    "coalesce": _coalesce,
    "concat": lambda *values: "".join(map(text_of, values)),
    "strlen": lambda value: float(len(text_of(value))),
    "toupper": lambda value: text_of(value).upper(),
    "tolower": lambda value: text_of(value).lower(),
    "trim": lambda value, signs=" ": text_of(value).strip(text_of(signs)),
    "ltrim": lambda value, signs=" ": text_of(value).lstrip(text_of(signs)),
    "rtrim": lambda value, signs=" ": text_of(value).rstrip(text_of(signs)),
    "substr": _substr,
    "replace": lambda value, old, new: text_of(value).replace(text_of(old), text_of(new)),
    "strcontains": lambda value, part: float(text_of(part) in text_of(value)),
    "frommillis": lambda value: value,
    "tomillis": lambda value: value,
    "datefloor": _floor,
    "dateceil": _ceil,
}  # fmt: skip


# Those that make texts.
_MAKERS = ("concat", "replace", "tolower", "toupper", "trim", "ltrim", "rtrim", "substr")


def _count_made(name: str, values: list[Value]) -> int:
    """Return about how many characters a function makes."""
    if name == "replace" and len(values) == 3:
        text, old, new = map(text_of, values)
        return len(text) + text.count(old) * len(new)
    return sum(len(value) for value in values if isinstance(value, str))


def _call(name: str, arguments: list[Expression]) -> Expression:
    if name == "bin" and len(arguments) == 1:
        return lambda row, run: _floor(row.get("@timestamp"), arguments[0](row, run))
    function = _FUNCTIONS.get(name)
    if function is None:
        raise QueryRefused(f"headrace's Logs Insights does not have the function {name}")

    def apply(row: Row, run: Run) -> Value:
        run.step()
        values = [argument(row, run) for argument in arguments]
        if name in _MAKERS:
            run.make(_count_made(name, values))
        try:
            return function(*values)
        except (ArithmeticError, ValueError):  # a place or a length that no text has
            return None
        except TypeError:
            raise QueryRefused(
                f"{name} has another number of arguments than {len(arguments)}"
            ) from None

    return apply
