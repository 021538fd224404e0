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
from headrace.sql.types import DATE, INT, STRING, TIME, TIMESTAMP, Location, SqlError

_TIMES = {"TIMESTAMP": TIMESTAMP, "DATE": DATE, "TIME": TIME}
_SIDES = ("BOTH", "LEADING", "TRAILING")


def typed_constant(word: str, text: str, location: Location) -> Expression:
    """Return the constant that TIMESTAMP '..' is, or a side of TRIM with its character; raises SqlError."""
    if word in _SIDES:
        return Call(word, (Literal(text, STRING, location=location),), location=location)
    type_ = _TIMES.get(word)
    if type_ is None:
        raise SqlError(f"'{text}' does not belong here", location)
    try:
        cast(text, type_)
    except ValueError:
        raise SqlError(f"'{text}' is no {word}", location) from None
    return Cast(Literal(text, STRING, location=location), type_, location=location)


def trim(what: Expression, of: Expression, location: Location) -> Expression:
    """Return TRIM(side 'c' FROM text), of which the side, or the character, may be missing."""
    side, character = "BOTH", " "
    if isinstance(what, Call) and what.name in _SIDES:
        side, what = what.name, what.arguments[0]
    elif isinstance(what, Column) and what.name.upper() in _SIDES:
        side, what = what.name.upper(), Literal(" ", STRING)
    if isinstance(what, Literal):
        character = str(what.value)
    if not isinstance(what, Literal) or len(character) != 1:
        raise SqlError("TRIM takes off a character, such as TRIM(BOTH ' ' FROM text)", location)
    run = f"(?:{re2.escape(character)})+"
    parts = [f"^{run}"] * (side != "TRAILING") + [f"{run}\\z"] * (side != "LEADING")
    pattern = Literal("|".join(parts), STRING)
    return Call("REGEXP_REPLACE", (of, pattern, Literal("", STRING)), location=location)


def overlay(
    of: Expression,
    new: Expression,
    start: Expression,
    length: Expression | None,
    location: Location,
) -> Expression:
    """Return a text with another one in the place of some characters, of as many as it has if nothing is said."""
    one = Literal(1, INT)
    before = Call(
        "SUBSTRING", (of, one, Operation("-", (start, one), location=location)), location=location
    )
    end = Operation(
        "+", (start, length or Call("LEN", (new,), location=location)), location=location
    )
    after = Call("SUBSTRING", (of, end), location=location)
    return Operation(
        "||", (Operation("||", (before, new), location=location), after), location=location
    )


def ceil(of: Expression, duration_ms: int, location: Location) -> Expression:
    """Return a time rounded up."""
    floor = Tick(of, duration_ms, location=location)
    later = Operation("+", (floor, Interval(duration_ms, location=location)), location=location)
    return Case(((Operation("=", (floor, of), location=location), of),), later, location=location)


def tick_of_difference(
    difference: Expression, duration_ms: int, is_same: bool, location: Location
) -> Expression:
    """Return FLOOR((time - TIMESTAMP '1970-01-01 00:00:00') SECOND / 10 TO SECOND): a time rounded to ten seconds."""
    if isinstance(difference, Operation) and difference.operator == "-" and is_same:
        time, *rest = difference.operands
        since_1970 = typed_constant("TIMESTAMP", "1970-01-01 00:00:00", location)
        if rest == [since_1970] and duration_ms:
            return Tick(time, duration_ms, location=location)
    raise SqlError(
        "a time is rounded by STEP(time BY INTERVAL '10' SECOND), or by "
        "FLOOR((time - TIMESTAMP '1970-01-01 00:00:00') SECOND / 10 TO SECOND)",
        location,
    )
