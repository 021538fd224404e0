"""Kinesis Analytics' functions that make columns of a line of a log, as a STRUCT of SQL's own functions.

Documented: AWS's SQL reference, of the functions' arguments and COLUMN1 and so on. Assumed: a pattern is found anywhere
in the text, as in Java's Matcher.find(), and a line that it does not match gives NULLs; the year of a line of syslog,
which has none, is its row's.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# re2 has no types.
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import re2

from headrace.sql.statements import Call, Cast, Column, Expression, Item, Literal, Operation, Struct
from headrace.sql.types import INT, STRING, Location, SqlError, SqlType, scalar

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
# Month, day and time, and the rest of a line of syslog.
_SYSLOG = r"^(?:<\d+>)?([A-Z][a-z]{2}) +(\d{1,2}) (\d{2}:\d{2}:\d{2}) (.*)$"
_COLUMN = (
    r'(?i)"?(\w+)"?(?:\s+TYPE\s+(\w+)\s*(?:\((\d{1,9})(?:,\s*(\d{1,9}))?\))?(?:\s+NOT\s+NULL)?'
    r"(?:\s+'([^']*)')?)?(?:\s+START\s+(\d{1,9})(?:\s+FOR\s+(\d{1,9}))?)?"
)
_READERS = {"DATE": "CHAR_TO_DATE", "TIME": "CHAR_TO_TIME", "TIMESTAMP": "CHAR_TO_TIMESTAMP"}
LOG_FUNCTIONS = frozenset({
    "REGEX_LOG_PARSE", "FAST_REGEX_LOG_PARSER", "W3C_LOG_PARSE", "VARIABLE_COLUMN_LOG_PARSE", "COLUMN_LOG_PARSE",
    "FIXED_COLUMN_LOG_PARSE", "SYS_LOG_PARSE",
})  # fmt: skip


def parse_log(name: str, arguments: Sequence[Expression], location: Location) -> Expression:
    """Return the STRUCT that a call of one of LOG_FUNCTIONS is; raises SqlError."""
    if name == "SYS_LOG_PARSE":
        return _read_syslog(arguments, location)
    if name == "FIXED_COLUMN_LOG_PARSE":
        return _cut(arguments, location)
    if name.endswith("COLUMN_LOG_PARSE"):
        return _split(name, arguments, location)
    if len(arguments) != 2:
        raise SqlError(f"{name} takes a text and a {_what(name)}, not names for columns", location)
    line, constant = arguments
    pattern = _text(name, constant, _what(name))
    if name == "W3C_LOG_PARSE":
        if pattern.upper() not in _FORMATS:
            raise SqlError(
                f"W3C_LOG_PARSE reads {', '.join(_FORMATS)}; REGEX_LOG_PARSE takes a pattern",
                constant.location,
            )
        pattern = _FORMATS[pattern.upper()]
    try:
        count = re2.compile(pattern).groups
    except re2.error:
        raise SqlError(
            f"{pattern!r} is no pattern that the runner and Spark read alike (RE2's)",
            constant.location,
        ) from None
    if not 1 <= count <= _MOST_COLUMNS:
        raise SqlError(
            f"each group of a pattern is a column: 1 to {_MOST_COLUMNS}, not {count}",
            constant.location,
        )
    found = [
        Call(
            "REGEXP_EXTRACT",
            (Literal(pattern, STRING), line, Literal(group, INT)),
            location=location,
        )
        for group in range(1, count + 1)
    ]
    return Struct(_names(count), tuple(found), location=location)


def _what(name: str) -> str:
    return "format" if name == "W3C_LOG_PARSE" else "pattern"


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"COLUMN{number}" for number in range(1, count + 1))


def _split(name: str, arguments: Sequence[Expression], location: Location) -> Expression:
    """Return the fields of a delimited line: so many, or those of a list such as 'a TYPE INTEGER, b'."""
    if len(arguments) != 3:
        raise SqlError(
            f"{name} takes a text, columns and a delimiter; of lines with quotes REGEX_LOG_PARSE makes columns",
            location,
        )
    line, columns, delimiter = arguments
    fields = Call(
        "SPLIT", (line, Literal(_text(name, delimiter, "delimiter"), STRING)), location=location
    )
    if isinstance(columns, Literal) and isinstance(columns.value, int):
        if not 1 <= columns.value <= _MOST_COLUMNS:
            raise SqlError(f"a line has 1 to {_MOST_COLUMNS} columns", columns.location)
        declared = [_Declared(one, STRING) for one in _names(columns.value)]
    else:
        declared = _declared_columns(_text(name, columns, "list"), columns.location)
    values = [
        one.read(Item(fields, Literal(number, INT), location=location), location)
        for number, one in enumerate(declared, 1)
    ]
    return Struct(tuple(one.name for one in declared), tuple(values), location=location)


def _cut(arguments: Sequence[Expression], location: Location) -> Expression:
    """Return the fields of a line whose columns have their places, which count from 0."""
    name = "FIXED_COLUMN_LOG_PARSE"
    if len(arguments) != 2:
        raise SqlError(
            f"{name} takes a text and columns, 'a TYPE INTEGER START 0 FOR 4, ..'", location
        )
    line, columns = arguments
    declared = _declared_columns(_text(name, columns, "list"), columns.location)
    values: list[Expression] = []
    for one in declared:
        if one.start is None:
            raise SqlError(f"{name}: {one.name} has no place: START 0 FOR 4", columns.location)
        bounds = (one.start + 1,) if one.length is None else (one.start + 1, one.length)
        part = Call("SUBSTRING", (line, *(Literal(n, INT) for n in bounds)), location=location)
        values.append(one.read(part, location))
    return Struct(tuple(one.name for one in declared), tuple(values), location=location)


def _read_syslog(arguments: Sequence[Expression], location: Location) -> Expression:
    """Return the time of a line of syslog, and the text after it."""
    if len(arguments) != 1:
        raise SqlError("SYS_LOG_PARSE takes a text", location)

    def group(number: int) -> Expression:
        found = (Literal(_SYSLOG, STRING), arguments[0], Literal(number, INT))
        return Call("REGEXP_EXTRACT", found, location=location)

    rowtime = Column("ROWTIME", location=location)
    written: Expression = Call(
        "TIMESTAMP_TO_CHAR", (Literal("yyyy", STRING), rowtime), location=location
    )
    for number in (1, 2, 3):
        spaced = Operation("||", (written, Literal(" ", STRING)), location=location)
        written = Operation("||", (spaced, group(number)), location=location)
    pattern = Literal("yyyy MMM d HH:mm:ss", STRING)
    time = Call("CHAR_TO_TIMESTAMP", (pattern, written), location=location)
    return Struct(_names(2), (time, group(4)), location=location)


@dataclass(frozen=True)
class _Declared:
    """A column of a line: its type, a time's pattern, and its place and length, where they are said."""

    name: str
    type: SqlType
    pattern: str = ""
    start: int | None = None
    length: int | None = None

    def read(self, text: Expression, location: Location) -> Expression:
        """Return the value that a text says."""
        if self.pattern:
            reader = _READERS[self.type.name]
            return Call(
                reader, (Literal(self.pattern, STRING, location=location), text), location=location
            )
        return text if self.type == STRING else Cast(text, self.type, location=location)


def _declared_columns(columns: str, location: Location) -> list[_Declared]:
    # The commas of DECIMAL(5, 2) divide none.
    marked = re2.sub(r"(\(\d+),", "\\1\0", columns)
    parts = [one.replace("\0", ",") for one in marked.split(",")]
    if len(parts) > _MOST_COLUMNS:
        raise SqlError(f"a line has 1 to {_MOST_COLUMNS} columns", location)
    return [_declared(one, location) for one in parts]


def _declared(column: str, location: Location) -> _Declared:
    match = re2.fullmatch(_COLUMN, column.strip())
    groups = match.groups() if match else (None,) * 7
    digits = tuple(int(one) for one in groups[2:4] if one)
    type_ = scalar(groups[1] or "VARCHAR", digits)
    if not match or type_ is None or (groups[4] and type_.name not in _READERS):
        raise SqlError(f"{column.strip()!r} is no column, such as 'price TYPE DOUBLE'", location)
    start, length = (int(one) if one else None for one in groups[5:7])
    return _Declared(str(groups[0]), type_, groups[4] or "", start, length)


def _text(name: str, argument: Expression, what: str) -> str:
    if (
        not isinstance(argument, Literal)
        or not isinstance(argument.value, str)
        or not argument.value
    ):
        raise SqlError(f"{name}'s {what} is a text, not a column", argument.location)
    return argument.value
