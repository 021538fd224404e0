"""Kinesis Analytics' functions of a CURSOR, as the SELECT with a window that says the same.

AWS counts approximately where values are many, as its SQL reference says; here each row counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.sql.functions import NOT_BUILT
from headrace.sql.statements import (
    Call,
    Cast,
    Column,
    Expression,
    Field,
    Lambda,
    Literal,
    Operation,
    Select,
    SelectItem,
    Tick,
)
from headrace.sql.types import BIGINT, BOOLEAN, INT, STRING, Location, SqlError

# AWS's bounds: the most frequent values, and the seconds of a window.
_MOST_ITEMS, _MOST_SECONDS = 100_000, 3_600
_DIGITS = 19


def select_of_cursor(
    name: str, select: Select, arguments: Sequence[Expression], location: Location
) -> Select:
    """Return what a function says of a CURSOR's rows; raises SqlError for one that is not here."""
    if name not in ("TOP_K_ITEMS_TUMBLING", "COUNT_DISTINCT_ITEMS_TUMBLING"):
        reason = NOT_BUILT.get(name, "no function of a CURSOR has this name")
        raise SqlError(f"{name} is refused: {reason}", location)
    words = ("a column's name", "a number of values", "a window's seconds")
    words = words if name.startswith("TOP_K") else (words[0], words[2])
    if len(arguments) != len(words):
        raise SqlError(f"{name} takes a CURSOR, {' and '.join(words)}", location)
    if select.group_by or select.distinct or select.stagger or select.limit or select.joins:
        raise SqlError(
            "a CURSOR chooses and filters the rows of one stream: name others by CREATE STREAM",
            select.location,
        )
    value = _value(select, arguments[0])
    seconds = _number(arguments[-1], words[-1], _MOST_SECONDS)
    if name.startswith("TOP_K"):
        items = _most_frequent(value, _number(arguments[1], words[1], _MOST_ITEMS), location)
    else:
        count = Call("COUNT", (value,), distinct=True, location=location)
        items = {"NUMBER_OF_DISTINCT_ITEMS": count}
    window = Tick(Column("ROWTIME", location=location), seconds * 1000, location=location)
    chosen = tuple(SelectItem(one, named, None, location) for named, one in items.items())
    return replace(select, items=chosen, group_by=(window,))


def _value(select: Select, argument: Expression) -> Expression:
    """Return the value that a CURSOR's rows have under a name."""
    name = argument.value if isinstance(argument, Literal) else None
    if not isinstance(name, str):
        raise SqlError("a column's name is a text, such as 'ticker_symbol'", argument.location)
    for item in select.items:
        of = item.expression
        called = item.alias or (of.name if isinstance(of, Column) else "")
        if of is not None and called.lower() == name.lower():
            return of
    if any(item.expression is None for item in select.items):
        return Column(name, location=argument.location)
    raise SqlError(f"no column {name!r} in the CURSOR", argument.location)


def _number(argument: Expression, what: str, most: int) -> int:
    value = argument.value if isinstance(argument, Literal) else None
    if not isinstance(value, int) or not 1 <= value <= most:
        raise SqlError(f"{what} is from 1 to {most:,}", argument.location)
    return value


def _most_frequent(value: Expression, count: int, location: Location) -> dict[str, Expression]:
    """Return the most frequent values with their numbers, the most frequent first.

    A number with all its digits before the value is a text of the same order.
    """
    counts = Call("HISTOGRAM", (Cast(value, STRING, location=location),), location=location)
    entry = Column("_e", location=location)
    digits = Cast(Field(entry, "V", location=location), STRING, location=location)
    padded = Call("LPAD", (digits, Literal(_DIGITS, INT), Literal("0", STRING)), location=location)
    text = Operation("||", (padded, Field(entry, "K", location=location)), location=location)
    entries = Call("ENTRIES", (counts, Literal(False, BOOLEAN)), location=location)
    texts = Call(
        "TRANSFORM", (entries, Lambda(("_e",), text, location=location)), location=location
    )
    ordered = Call("ARRAY_SORT", (texts, Literal("DESC", STRING)), location=location)
    length = Call("LEAST", (Literal(count, INT), Call("ARRAY_LENGTH", (texts,))), location=location)
    first = Call("SLICE", (ordered, Literal(1, INT), length), location=location)
    one = Column("_t", location=location)
    item = Call("SUBSTRING", (one, Literal(_DIGITS + 1, INT)), location=location)
    number = Call("SUBSTRING", (one, Literal(1, INT), Literal(_DIGITS, INT)), location=location)
    parts = {"ITEM": item, "ITEM_COUNT": Cast(number, BIGINT, location=location)}
    return {
        named: Call(
            "EXPLODE",
            (
                Call(
                    "TRANSFORM",
                    (first, Lambda(("_t",), part, location=location)),
                    location=location,
                ),
            ),
            location=location,
        )
        for named, part in parts.items()
    }
