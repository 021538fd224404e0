"""Kinesis Analytics' functions that make columns of a line of a log, as a STRUCT of SQL's own functions.

Documented: AWS's SQL reference, of the functions' arguments and COLUMN1 and so on. Assumed: a pattern is found anywhere
in the text, as in Java's Matcher.find(), and a line that it does not match gives NULLs.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# re2 has no types.
from __future__ import annotations

from collections.abc import Sequence

import re2

from headrace.sql.statements import Call, Cast, Expression, Item, Literal, Struct
from headrace.sql.types import INT, STRING, Place, SqlError, SqlType, scalar

_MOST_COLUMNS = 100
_WORD, _QUOTED = r"(\S+)", r'"([^"]*)"'
_COMMON = rf"{_WORD} {_WORD} {_WORD} \[([^\]]*)\] {_QUOTED} {_WORD} {_WORD}"
# Apache's formats, by the names that AWS's reference has.
_FORMATS = {
    "COMMON": f"^{_COMMON}",
    "COMMON WITH VHOST": f"^{_WORD} {_COMMON}",
    "NCSA EXTENDED": f"^{_COMMON} {_QUOTED} {_QUOTED}",
    "REFERER": rf"^{_WORD} -+> {_WORD}",
    "AGENT": "^(.*)$",
}
_COLUMN = (
    r'(?i)"?(\w+)"?(?:\s+TYPE\s+(\w+)\s*(?:\((\d{1,9})(?:,\s*(\d{1,9}))?\))?(?:\s+NOT\s+NULL)?)?'
)
LOG_FUNCTIONS = frozenset({
    "REGEX_LOG_PARSE", "FAST_REGEX_LOG_PARSER", "W3C_LOG_PARSE", "VARIABLE_COLUMN_LOG_PARSE", "COLUMN_LOG_PARSE",
})  # fmt: skip


def parse_log(name: str, arguments: Sequence[Expression], place: Place) -> Expression:
    """Return the STRUCT that a call of one of LOG_FUNCTIONS is; raises SqlError."""
    if name.endswith("COLUMN_LOG_PARSE"):
        return _split(name, arguments, place)
    if len(arguments) != 2:
        raise SqlError(f"{name} takes a text and a {_argument_name(name)}, not names for columns", place)
    line, constant = arguments
    pattern = _text(name, constant, _argument_name(name))
    if name == "W3C_LOG_PARSE":
        if pattern.upper() not in _FORMATS:
            raise SqlError(
                f"W3C_LOG_PARSE reads {', '.join(_FORMATS)}; REGEX_LOG_PARSE takes a pattern",
                constant.place,
            )
        pattern = _FORMATS[pattern.upper()]
    try:
        count = re2.compile(pattern).groups
    except re2.error:
        raise SqlError(
            f"{pattern!r} is no pattern that the runner and Spark read alike (RE2's)",
            constant.place,
        ) from None
    if not 1 <= count <= _MOST_COLUMNS:
        raise SqlError(
            f"each group of a pattern is a column: 1 to {_MOST_COLUMNS}, not {count}",
            constant.place,
        )
    fields = [
        Call("REGEXP_EXTRACT", (Literal(pattern, STRING), line, Literal(group, INT)), place=place)
        for group in range(1, count + 1)
    ]
    return Struct(_names(count), tuple(fields), place=place)


def _argument_name(name: str) -> str:
    return "format" if name == "W3C_LOG_PARSE" else "pattern"


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"COLUMN{number}" for number in range(1, count + 1))


def _split(name: str, arguments: Sequence[Expression], place: Place) -> Expression:
    """Return the fields of a delimited line: so many, or those of a list such as 'a TYPE INTEGER, b'."""
    if len(arguments) != 3:
        raise SqlError(
            f"{name} takes a text, columns and a delimiter; of lines with quotes REGEX_LOG_PARSE makes columns",
            place,
        )
    line, columns, delimiter = arguments
    fields = Call(
        "SPLIT", (line, Literal(_text(name, delimiter, "delimiter"), STRING)), place=place
    )
    if isinstance(columns, Literal) and isinstance(columns.value, int):
        if not 1 <= columns.value <= _MOST_COLUMNS:
            raise SqlError(f"a line has 1 to {_MOST_COLUMNS} columns", columns.place)
        declared = [(one, STRING) for one in _names(columns.value)]
    else:
        parts = _split_columns(_text(name, columns, "list"))
        if len(parts) > _MOST_COLUMNS:
            raise SqlError(f"a line has 1 to {_MOST_COLUMNS} columns", columns.place)
        declared = [_parse_column(one, columns.place) for one in parts]
    values: list[Expression] = []
    for number, (_, type_) in enumerate(declared, 1):
        field = Item(fields, Literal(number, INT), place=place)
        values.append(field if type_ == STRING else Cast(field, type_, place=place))
    return Struct(tuple(column for column, _ in declared), tuple(values), place=place)


def _split_columns(columns: str) -> list[str]:
    """Return the parts of a list of columns; the commas of DECIMAL(5, 2) divide none."""
    return [one.replace(";", ",") for one in re2.sub(r"(\(\d+),", r"\1;", columns).split(",")]


def _parse_column(column: str, place: Place) -> tuple[str, SqlType]:
    match = re2.fullmatch(_COLUMN, column.strip())
    type_ = match and scalar(
        match[2] or "VARCHAR", tuple(int(one) for one in match.groups()[2:] if one)
    )
    if not match or type_ is None:
        raise SqlError(f"{column.strip()!r} is no column, such as 'price TYPE DOUBLE'", place)
    return str(match[1]), type_  # pyrefly: ignore[bad-return]


def _text(name: str, argument: Expression, what: str) -> str:
    if (
        not isinstance(argument, Literal)
        or not isinstance(argument.value, str)
        or not argument.value
    ):
        raise SqlError(f"{name}'s {what} is a text, not a column", argument.place)
    return argument.value
