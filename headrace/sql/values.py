"""Constants and values of expressions without Spark, with Spark's results: NULL for what cannot be computed.

Refuses constants that would end a job, since Spark fails at them, and columns where it wants constants.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false

from __future__ import annotations

# A value of SQL is of any type until it is computed; re2 has no types.
# re2 has no types.
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import re2

from headrace.sql.conversions import cast, millis, pieces, text
from headrace.sql.functions import MOST_CHARACTERS, MOST_ITEMS, function_of
from headrace.sql.functions_times import is_zone
from headrace.sql.operators import BINARY, all_of, distinct, is_between, is_in, moment, negate
from headrace.sql.statements import (
    Array,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    Interval,
    Item,
    Lambda,
    Literal,
    Map,
    Operation,
    Struct,
    Tick,
    walk,
)
from headrace.sql.types import (
    BIGINT,
    DOUBLE,
    INT,
    NULL,
    Function,
    Location,
    SqlError,
    SqlType,
    common,
)

# Of each function: the place of its pattern, and that of its group or its replacement.
_PATTERNS = {
    "REGEXP_EXTRACT": (0, 2),
    "REGEXP_EXTRACT_ALL": (0, 2),
    "REGEXP_REPLACE": (1, 2),
    "REGEXP_SPLIT_TO_ARRAY": (1, 2),
}
_TIME_PATTERNS = frozenset({
    "FORMAT_TIMESTAMP", "PARSE_TIMESTAMP", "TIMESTAMPTOSTRING", "STRINGTOTIMESTAMP", "FORMAT_DATE", "PARSE_DATE",
    "DATETOSTRING", "STRINGTODATE", "FORMAT_TIME", "PARSE_TIME",
})  # fmt: skip
# Of those that read a text, and of those of Kinesis Analytics, whose pattern comes first.
_READERS = frozenset({
    "PARSE_TIMESTAMP", "STRINGTOTIMESTAMP", "PARSE_DATE", "STRINGTODATE", "CHAR_TO_TIMESTAMP", "CHAR_TO_DATE",
    "PARSE_TIME", "CHAR_TO_TIME",
})  # fmt: skip
_PATTERN_FIRST = frozenset({
    "TIMESTAMP_TO_CHAR", "CHAR_TO_TIMESTAMP", "DATE_TO_CHAR", "CHAR_TO_DATE", "TIME_TO_CHAR", "CHAR_TO_TIME",
})  # fmt: skip
_OF_CLOCKS = frozenset({"FORMAT_TIME", "PARSE_TIME", "TIME_TO_CHAR", "CHAR_TO_TIME"})
_MOST_DIGITS = 300
# Functions that look for equal values, and those that want an order of them.
_EQUATING = frozenset({
    "ARRAY_CONTAINS", "ARRAY_DISTINCT", "ARRAY_EXCEPT", "ARRAY_INTERSECT", "ARRAY_REMOVE", "ARRAY_UNION", "ATTR",
    "COLLECT_SET", "COUNT_DISTINCT", "NULLIF",
})  # fmt: skip
# What the constants of functions are, in words, and whether a value is one.
_COUNT = ("a number, 1 to 2147483647", lambda value: type(value) is int and 0 < value < 2**31)
_BY_OFFSET = (
    "a number of values, or a BOOLEAN",
    lambda value: type(value) is bool or _COUNT[1](value),
)
_ORDER = (
    "'ASC' or 'DESC'",
    lambda value: str(value).upper() in ("ASC", "ASCENDING", "DESC", "DESCENDING"),
)
_BYTE_ORDER = ("'BIG_ENDIAN' or 'LITTLE_ENDIAN'", lambda value: isinstance(value, str))
_CHARACTER = (
    "a character or NULL",
    lambda value: value is None or (isinstance(value, str) and len(value) == 1),
)
_CONSTANTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "TOPK": _COUNT, "TOPKDISTINCT": _COUNT, "LATEST_BY_OFFSET": _BY_OFFSET, "EARLIEST_BY_OFFSET": _BY_OFFSET,
    **dict.fromkeys(("MASK", "MASK_LEFT", "MASK_RIGHT", "MASK_KEEP_LEFT", "MASK_KEEP_RIGHT"), _CHARACTER),
    "ARRAY_SORT": _ORDER, "INT_FROM_BYTES": _BYTE_ORDER, "BIGINT_FROM_BYTES": _BYTE_ORDER,
    "DOUBLE_FROM_BYTES": _BYTE_ORDER,
}  # fmt: skip
_OF_AN_ELEMENT = frozenset({"ARRAY_CONTAINS", "ARRAY_REMOVE"})
_COMPARING = _OF_AN_ELEMENT | {"ARRAY_EXCEPT", "ARRAY_INTERSECT", "ARRAY_UNION", "NULLIF"}
_ORDERING = frozenset({
    "ARRAY_MAX", "ARRAY_MIN", "ARRAY_SORT", "GREATEST", "LEAST", "MAX", "MIN", "TOPK", "TOPKDISTINCT",
})  # fmt: skip


def _check_kinds(name: str, first: SqlType, second: SqlType, location: Location) -> None:
    """Refuse values of two types that are not compared, which would end the job."""
    of_first = first.of[0] if name in _OF_AN_ELEMENT and first.of else first
    one, other = of_first, second
    if one.name == other.name == "ARRAY":
        one, other = one.of[0], other.of[0]
    is_wider = one.is_number and other.is_number and (one == of_first or common(one, other) == one)
    if NULL not in (one, other) and one != other and not is_wider:
        raise SqlError(f"{name} compares values of one type, not {of_first} and {second}", location)


def check_compared(function: Function, types: Sequence[SqlType], location: Location) -> None:
    """Refuse values that a function compares or adds, and Spark or the runner does not."""
    if function.name == "SUM_LIST" and types[0].of[0] not in (INT, BIGINT, DOUBLE, NULL):
        raise SqlError(f"SUM_LIST adds INT, BIGINT or DOUBLE, not {types[0].of[0]}", location)
    if function.name in ("LPAD", "RPAD") and NULL not in types and types[0] != types[2]:
        raise SqlError(f"{function.name} pads text with text, and bytes with bytes", location)
    if function.name == "JSON_ARRAY_CONTAINS" and not (
        types[1].is_number or types[1].name in ("STRING", "BOOLEAN", "NULL")
    ):
        raise SqlError(
            f"JSON_ARRAY_CONTAINS looks for a text, a number or a BOOLEAN, not {types[1]}", location
        )
    if function.name in _COMPARING:
        _check_kinds(function.name, types[0], types[1], location)
    if function.name not in _EQUATING | _ORDERING:
        return
    refused = ("MAP", "STRUCT") if function.name in _ORDERING else ("MAP",)
    parts = [types[0]]
    for part in parts:
        if part.name in refused:
            raise SqlError(
                f"{function.name} compares values, and a {part.name} has no order", location
            )
        parts += part.of


def check_constant(name: str, index: int, argument: Expression) -> None:
    """Check the argument number `index` of a function, which a job has in its text; raises SqlError."""
    what, is_one = _CONSTANTS.get(name, ("true or false", lambda value: isinstance(value, bool)))
    if not isinstance(argument, Literal) or not is_one(argument.value):
        raise SqlError(f"argument {index + 1} of {name} is a constant: {what}", argument.location)


def check_constants(name: str, arguments: Sequence[Expression]) -> None:
    """Check the arguments of the function `name`, resolved; raises SqlError."""
    if name in ("ROUND", "TRUNC") and len(arguments) > 1:
        digits = _constant(arguments[1], f"{name}'s digits are a number, not a column")
        parts = [type(part) for part in walk(arguments[1])]
        is_number = parts in ([Literal], [Operation, Literal])
        if digits is None or not is_number or abs(digits) > _MOST_DIGITS:
            raise SqlError(
                f"{name}'s digits are a number, at most {_MOST_DIGITS}", arguments[1].location
            )
    if name not in _PATTERNS:
        return
    of_pattern, of_rest = _PATTERNS[name]
    pattern = _constant(
        arguments[of_pattern],
        f"{name}'s pattern is a text, not a column: one that cannot be read would end the job",
    )
    if pattern is None:
        return
    try:
        groups = re2.compile(pattern).groups
    except re2.error:
        raise SqlError(
            f"{pattern!r} is no pattern that the runner and Spark read alike (RE2's)",
            arguments[of_pattern].location,
        ) from None
    if of_rest >= len(arguments):
        return
    rest = arguments[of_rest]
    if name == "REGEXP_REPLACE":
        _check_replacement(rest, groups)
        return
    group = _constant(rest, "a group is a number, not a column")
    if group is not None and not 0 <= group <= groups:
        raise SqlError(f"{pattern!r} has {groups} groups, and no group {group}", rest.location)


def _check_replacement(expression: Expression, groups: int) -> None:
    new = _constant(
        expression, "a replacement is a text, not a column; REPLACE(text, old, new) takes a column"
    )
    plain = re2.sub(r"\\.", "", new or "")
    numbers = [int(number) for number in re2.findall(r"\$([0-9])", plain)]
    rest = re2.sub(r"\$[0-9]", "", plain)
    if "$" in rest or "\\" in rest or any(number > groups for number in numbers):
        raise SqlError(
            f"a replacement names the pattern's {groups} groups by $1 to $9, and a dollar by \\$",
            expression.location,
        )


def check_time_pattern(function: Function, arguments: list[Expression]) -> None:
    """Refuse a time's pattern that Spark's and the runner's readers do not know alike, and an unknown zone."""
    zones = arguments[2:] if function.name in _TIME_PATTERNS else ()
    for zone in arguments[1:] if function.name == "CONVERT_TZ" else zones:
        if not isinstance(zone, Literal) or not is_zone(str(zone.value)):
            raise SqlError(
                "a time zone is a text such as 'UTC', 'Europe/London' or '+02:00'", zone.location
            )
    if function.name not in _TIME_PATTERNS | _PATTERN_FIRST:
        return
    pattern = arguments[function.name not in _PATTERN_FIRST]
    if not isinstance(pattern, Literal):
        raise SqlError(f"{function.name}'s pattern is a text, not a column", pattern.location)
    check_pattern(str(pattern.value), pattern.location, is_read=function.name in _READERS)
    parts = pieces(str(pattern.value))
    of_day = [text for is_run, text in parts if is_run and text[0] not in "HhmsS"]
    if function.name in _OF_CLOCKS and of_day:
        raise SqlError(f"a time of day has no {of_day[0]!r}", pattern.location)
    if zones and any(is_run and text[0] in "XZ" for is_run, text in parts):
        raise SqlError(
            "a pattern with a zone of its own goes without a time zone", pattern.location
        )


def check_pattern(pattern: str, location: Location, *, is_read: bool = True) -> None:
    """Refuse a time's pattern with letters that are not known, or, if a text is read by it, that say half a time."""
    try:
        parts = pieces(pattern)
    except ValueError as error:
        raise SqlError(str(error), location) from None
    if is_read and any(is_run and text[0] == "h" for is_run, text in parts):
        raise SqlError("hh has no half of the day to read: HH is an hour of 24", location)


def check_escape(pattern: Expression, escape: Expression) -> None:
    """Check LIKE's ESCAPE, and a pattern that is a constant; raises SqlError."""
    character = _constant(escape, "ESCAPE is a character, not a column")
    if character is None or len(character) != 1:
        raise SqlError("ESCAPE is one character", escape.location)
    text = pattern.value if isinstance(pattern, Literal) else None
    if text is not None and (len(text) - len(text.rstrip(character))) % 2:
        raise SqlError(f"a pattern does not end with {character!r}, its ESCAPE", pattern.location)


def _constant(expression: Expression, sentence: str) -> Any:
    if any(isinstance(part, Column) for part in walk(expression)):
        raise SqlError(sentence, expression.location)
    return evaluator(expression)({})


# A row: its values by relation ('' for a group's keys and aggregates, and for a lambda's parameters) and name.
Row = Mapping[tuple[str, str], Any]
Evaluator = Callable[[Row], Any]


class TooLarge(Exception):
    """A value that is larger than a record can be."""


def evaluator(expression: Expression) -> Evaluator:
    """Return the function that computes `expression` for a row; it raises TooLarge alone."""
    inner = _evaluator(expression)

    def evaluate(row: Row) -> Any:
        try:
            return inner(row)
        except TooLarge:
            raise
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, re2.error):
            # What a part of it cannot compute is NULL, as in Spark without ANSI mode and in ksqlDB.
            return None

    return evaluate


def _evaluator(expression: Expression) -> Evaluator:
    match expression:
        case Literal(value=value, type=type_):
            constant = Decimal(value) if type_.name == "DECIMAL" else value
            return lambda _: constant
        case Interval(duration_ms=duration_ms):
            interval = timedelta(milliseconds=duration_ms)
            return lambda _: interval
        case Column(name=name, relation=relation):
            key = (relation or "", name)
            return lambda row: row[key]
        case Field(of=of, name=name):
            return _when_there(lambda value: _field(value, name), evaluator(of))
        case Item(of=of, index=index):
            return _when_there(_item, evaluator(of), evaluator(index))
        case Operation():
            return _operation(expression)
        case Call():
            return _call(expression)
        case Cast(of=of, type=type_):
            return _when_there(lambda value: cast(value, type_), evaluator(of))
        case Case():
            return _case(expression)
        case Struct(names=names, values=values):
            parts = [evaluator(value) for value in values]
            return lambda row: {name: part(row) for name, part in zip(names, parts, strict=False)}
        case Array(values=values):
            parts = [evaluator(value) for value in values]
            return lambda row: [part(row) for part in parts]
        case Map(keys=keys, values=values):
            pairs = [
                (evaluator(key), evaluator(value)) for key, value in zip(keys, values, strict=False)
            ]
            return lambda row: {
                "null" if (k := key(row)) is None else k: v(row) for key, v in pairs
            }
        case Tick(of=of, duration_ms=size):
            return _when_there(lambda value: moment(millis(value) // size * size), evaluator(of))
        case _:
            raise TypeError(expression)


def _when_there(function: Callable[..., Any], *parts: Evaluator) -> Evaluator:
    """Return what computes `function` of the parts, and is None if one of them is."""

    def evaluate(row: Row) -> Any:
        values = [part(row) for part in parts]
        return None if None in values else function(*values)

    return evaluate


def _field(value: Any, name: str) -> Any:
    return value.get(name)


def _item(value: Any, index: Any) -> Any:
    if isinstance(value, dict):
        return value.get(index)
    if index == 0 or abs(index) > len(value):
        return None
    return value[index - 1 if index > 0 else index]


def _call(call: Call) -> Evaluator:
    if call.star:
        return lambda _: 1
    function = function_of(call)
    parts = [
        _lambda(argument) if isinstance(argument, Lambda) else evaluator(argument)
        for argument in call.arguments
    ]

    def evaluate(row: Row) -> Any:
        values = [part(row) for part in parts]
        if function.is_null_of(values):
            return None
        return _check_bounds(function.python(*values))

    return evaluate


def _check_bounds(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise TooLarge(f"a text of {len(value):,} characters; a record has at most 10 MiB")
    if isinstance(value, (list, dict)) and len(value) > MOST_ITEMS:
        raise TooLarge(f"a collection of {len(value):,} items; the most are {MOST_ITEMS:,}")
    return value


def _lambda(function: Lambda) -> Evaluator:
    """Return what makes a row's function of a lambda."""
    body = evaluator(function.body)
    keys = [("", name) for name in function.parameters]
    return lambda row: lambda *values: body({**row, **dict(zip(keys, values, strict=False))})


def _case(case: Case) -> Evaluator:
    branches = [(evaluator(test), evaluator(value)) for test, value in case.branches]
    otherwise = evaluator(case.otherwise or Literal(None, NULL))

    def evaluate(row: Row) -> Any:
        for test, value in branches:
            if test(row):
                return value(row)
        return otherwise(row)

    return evaluate


def _operation(operation: Operation) -> Evaluator:
    parts = [evaluator(operand) for operand in operation.operands]
    match operation.operator:
        case "AND":
            return lambda row: all_of(part(row) for part in parts)
        case "OR":
            return lambda row: negate(all_of(negate(part(row)) for part in parts))
        case "NOT":
            return lambda row: negate(parts[0](row))
        case "IS NULL":
            return lambda row: parts[0](row) is None
        case "IS DISTINCT FROM":
            return lambda row: distinct(parts[0](row), parts[1](row))
        case "IN":
            return lambda row: is_in(*[part(row) for part in parts])
        case "BETWEEN":
            return lambda row: is_between(*[part(row) for part in parts])
        case "LIKE":
            return _when_there(_like, *parts)
        case operator if len(parts) == 1:
            return _when_there(lambda value: -value, *parts)
        case operator:
            return _when_there(_BINARY[operator], *parts)


_BINARY: dict[str, Callable[..., Any]] = {
    **BINARY,
    "||": lambda left, right: _check_bounds(text(left) + text(right)),
}


def _like(value: str, pattern: str, escape: str = "") -> bool:
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if not following:
                raise ValueError(pattern)
            parts.append(re2.escape(following))
        else:
            parts.append({"%": "(?s:.*)", "_": "(?s:.)"}.get(character) or re2.escape(character))
    return re2.fullmatch("".join(parts), value) is not None
