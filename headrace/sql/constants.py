"""Refuses constants that would end a job, since Spark fails at them, and columns where it wants constants."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# re2 has no types.
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import re2

from headrace.sql.errors import SqlError
from headrace.sql.expressions import Column, Expression, walk
from headrace.sql.values import evaluator

# Of each function: the place of its pattern, and that of its group or its replacement.
_PATTERNS = {
    "REGEXP_EXTRACT": (0, 2),
    "REGEXP_EXTRACT_ALL": (0, 2),
    "REGEXP_REPLACE": (1, 2),
    "REGEXP_SPLIT_TO_ARRAY": (1, 2),
}
_MOST_DIGITS = 300


def check_constants(name: str, arguments: Sequence[Expression]) -> None:
    """Check the arguments of the function `name`, resolved; raises SqlError."""
    if name == "ROUND" and len(arguments) > 1:
        digits = _constant(arguments[1], "ROUND's digits are a number, not a column")
        if digits is not None and abs(digits) > _MOST_DIGITS:
            raise SqlError(f"ROUND has at most {_MOST_DIGITS} digits", arguments[1].place)
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
            arguments[of_pattern].place,
        ) from None
    if of_rest >= len(arguments):
        return
    rest = arguments[of_rest]
    if name == "REGEXP_REPLACE":
        _check_replacement(rest, groups)
        return
    group = _constant(rest, "a group is a number, not a column")
    if group is not None and not 0 <= group <= groups:
        raise SqlError(f"{pattern!r} has {groups} groups, and no group {group}", rest.place)


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
            expression.place,
        )


def check_escape(pattern: Expression, escape: Expression) -> None:
    """Check LIKE's pattern with ESCAPE; raises SqlError."""
    character = _constant(escape, "ESCAPE is a character, not a column")
    text = _constant(pattern, "a pattern with ESCAPE is a text, not a column")
    if character is None or len(character) != 1:
        raise SqlError("ESCAPE is one character", escape.place)
    characters = iter(text or "")
    for one in characters:
        if one == character and next(characters, "") not in ("%", "_", character):
            raise SqlError(f"{character!r} escapes %, _ and itself alone", pattern.place)


def _constant(expression: Expression, sentence: str) -> Any:
    if any(isinstance(part, Column) for part in walk(expression)):
        raise SqlError(sentence, expression.place)
    return evaluator(expression)({})
