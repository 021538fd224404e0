"""Forms of Kinesis Analytics' SQL that say what other expressions say: TIMESTAMP '..', TRIM, OVERLAY, CEIL .. TO."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# re2 has no types.
from __future__ import annotations

import re2

from headrace.sql.conversions import cast
from headrace.sql.statements import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Interval,
    Literal,
    Operation,
    Tick,
)
from headrace.sql.types import DATE, INT, STRING, TIME, TIMESTAMP, Place, SqlError

_TIMES = {"TIMESTAMP": TIMESTAMP, "DATE": DATE, "TIME": TIME}
_SIDES = ("BOTH", "LEADING", "TRAILING")


def typed_constant(word: str, text: str, place: Place) -> Expression:
    """Return the constant that TIMESTAMP '..' is, or a side of TRIM with its character; raises SqlError."""
    if word in _SIDES:
        return Call(word, (Literal(text, STRING, place=place),), place=place)
    type_ = _TIMES.get(word)
    if type_ is None:
        raise SqlError(f"'{text}' does not belong here", place)
    try:
        cast(text, type_)
    except ValueError:
        raise SqlError(f"'{text}' is no {word}", place) from None
    return Cast(Literal(text, STRING, place=place), type_, place=place)


def trim(what: Expression, of: Expression, place: Place) -> Expression:
    """Return TRIM(side 'c' FROM text), of which the side, or the character, may be missing."""
    side, character = "BOTH", " "
    if isinstance(what, Call) and what.name in _SIDES:
        side, what = what.name, what.arguments[0]
    elif isinstance(what, Column) and what.name.upper() in _SIDES:
        side, what = what.name.upper(), Literal(" ", STRING)
    if isinstance(what, Literal):
        character = str(what.value)
    if not isinstance(what, Literal) or len(character) != 1:
        raise SqlError("TRIM takes off a character, such as TRIM(BOTH ' ' FROM text)", place)
    run = f"(?:{re2.escape(character)})+"
    parts = [f"^{run}"] * (side != "TRAILING") + [f"{run}\\z"] * (side != "LEADING")
    pattern = Literal("|".join(parts), STRING)
    return Call("REGEXP_REPLACE", (of, pattern, Literal("", STRING)), place=place)


def overlay(
    of: Expression, new: Expression, start: Expression, length: Expression | None, place: Place
) -> Expression:
    """Return a text with another one in the place of some characters, of as many as it has if nothing is said."""
    one = Literal(1, INT)
    before = Call("SUBSTRING", (of, one, Operation("-", (start, one), place=place)), place=place)
    end = Operation("+", (start, length or Call("LEN", (new,), place=place)), place=place)
    after = Call("SUBSTRING", (of, end), place=place)
    return Operation("||", (Operation("||", (before, new), place=place), after), place=place)


def ceil(of: Expression, duration_ms: int, place: Place) -> Expression:
    """Return a time rounded up."""
    floor = Tick(of, duration_ms, place=place)
    later = Operation("+", (floor, Interval(duration_ms, place=place)), place=place)
    return Case(((Operation("=", (floor, of), place=place), of),), later, place=place)


def tick_of_difference(
    difference: Expression, duration_ms: int, is_same: bool, place: Place
) -> Expression:
    """Return FLOOR((time - TIMESTAMP '1970-01-01 00:00:00') SECOND / 10 TO SECOND): a time rounded to ten seconds."""
    if isinstance(difference, Operation) and difference.operator == "-" and is_same:
        time, *rest = difference.operands
        since_1970 = typed_constant("TIMESTAMP", "1970-01-01 00:00:00", place)
        if rest == [since_1970] and duration_ms:
            return Tick(time, duration_ms, place=place)
    raise SqlError(
        "a time is rounded by STEP(time BY INTERVAL '10' SECOND), or by "
        "FLOOR((time - TIMESTAMP '1970-01-01 00:00:00') SECOND / 10 TO SECOND)",
        place,
    )
