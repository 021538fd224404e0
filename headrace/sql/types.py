"""SQL's types and how Spark writes them; errors of texts with their location; what is known of a function."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Location:
    """Where something stands in a text: its line and column, both from 1."""

    line: int = 1
    column: int = 1


class SqlError(Exception):
    """A text that cannot be run: `message` says why, `location` where."""

    def __init__(self, message: str, location: Location) -> None:
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        return f"line {self.location.line}, column {self.location.column}: {self.message}"


def near(name: str, names: Sequence[str]) -> str:
    """Return "; did you mean ..?" for the nearest of `names`, or what there is."""
    lower = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), list(lower), 1, 0.6)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; there is {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""


_SPARK_NAMES = {"BYTES": "BINARY", "TIME": "STRING"}
_SYNONYMS = {
    "INTEGER": "INT",
    "SMALLINT": "INT",
    "TINYINT": "INT",
    "REAL": "DOUBLE",
    "FLOAT": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "VARBINARY": "BYTES",
    "BINARY": "BYTES",
}
_SCALARS = frozenset({
    "BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP",
})  # fmt: skip
# As SQL may write them.
SCALAR_NAMES = (*sorted(_SCALARS), *sorted(_SYNONYMS))
_WIDER = ("INT", "BIGINT", "DECIMAL", "DOUBLE")


@dataclass(frozen=True)
class SqlType:
    """A type: `name`, the types that it is made of, the names of a STRUCT's fields, a DECIMAL's digits."""

    name: str
    of: tuple[SqlType, ...] = ()
    fields: tuple[str, ...] = ()
    digits: tuple[int, ...] = ()

    @property
    def is_number(self) -> bool:
        """Return whether it is a type of numbers."""
        return self.name in _WIDER

    @property
    def is_integer(self) -> bool:
        """Return whether it is a type of whole numbers."""
        return self.name in ("INT", "BIGINT")

    def field(self, name: str) -> SqlType | None:
        """Return the type of a STRUCT's field, in any letter case; None if it has no such field."""
        names = [field.lower() for field in self.fields]
        return self.of[names.index(name.lower())] if name.lower() in names else None

    def maps(self) -> list[SqlType]:
        """Return the MAPs that it is, or that are within it."""
        parts: list[SqlType] = [self]
        for part in parts:
            parts += part.of
        return [part for part in parts if part.name == "MAP"]

    def __str__(self) -> str:
        """Return the type as SQL, such as ARRAY<STRING>."""
        if self.name == "STRUCT":
            parts = ", ".join(
                f"{name} {type_}" for name, type_ in zip(self.fields, self.of, strict=False)
            )
            return f"STRUCT<{parts}>"
        if self.of:
            return f"{self.name}<{', '.join(map(str, self.of))}>"
        if self.digits:
            return f"{self.name}({', '.join(map(str, self.digits))})"
        return self.name

    def spark(self) -> str:
        """Return the type as Spark's DDL writes it."""
        if self.name == "STRUCT":
            parts = ", ".join(
                f"`{n}`: {t.spark()}" for n, t in zip(self.fields, self.of, strict=False)
            )
            return f"STRUCT<{parts}>"
        if self.of:
            return f"{self.name}<{', '.join(part.spark() for part in self.of)}>"
        if self.digits:
            return str(self)
        return _SPARK_NAMES.get(self.name, self.name)


BOOLEAN, INT, BIGINT, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP = (
    SqlType(name)
    for name in (
        "BOOLEAN",
        "INT",
        "BIGINT",
        "DOUBLE",
        "STRING",
        "BYTES",
        "DATE",
        "TIME",
        "TIMESTAMP",
    )
)
# The type of NULL, which goes with every other.
NULL = SqlType("NULL")


def array_of(type_: SqlType) -> SqlType:
    """Return the type of an array of `type_`."""
    return SqlType("ARRAY", (type_,))


def map_of(key: SqlType, value: SqlType) -> SqlType:
    """Return the type of a map."""
    return SqlType("MAP", (key, value))


def scalar(name: str, digits: tuple[int, ...] = ()) -> SqlType | None:
    """Return the scalar type that SQL calls `name`, in any letter case; None if there is none."""
    canonical = _SYNONYMS.get(name.upper(), name.upper())
    if canonical not in _SCALARS:
        return None
    if canonical == "DECIMAL":
        return SqlType(canonical, digits=digits or (10, 0))
    return SqlType(canonical)


def common(left: SqlType, right: SqlType) -> SqlType | None:
    """Return the type that holds the values of both; None if there is none."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if left.is_number and right.is_number:
        if left.name == right.name == "DECIMAL":
            whole = max(t.digits[0] - t.digits[-1] for t in (left, right))
            scale = max(left.digits[-1], right.digits[-1])
            return SqlType("DECIMAL", digits=(min(38, whole + scale), scale))
        return max(left, right, key=lambda type_: _WIDER.index(type_.name))
    if {left.name, right.name} in ({one, "STRING"} for one in ("TIMESTAMP", "DATE", "TIME")):
        return left if right.name == "STRING" else right
    return None


_LETTERS = {
    "S": "text", "I": "whole", "N": "number", "B": "boolean", "T": "timestamp", "D": "date", "X": "bytes", "A": "array",
    "M": "map", "C": "array or map", "L": "lambda", "U": "unit", "E": "encoding", "K": "constant",
    "F": "field of a time", "G": "unit of a day", "O": "time of day", "H": "text or whole",
    "Y": "text or bytes",
    "*": "any",
}  # fmt: skip


@dataclass(frozen=True)
class OwnFunction:
    """A query's own function: `name` in the Python file `file`, its text, and the types of its parameters."""

    file: str
    source: str
    name: str
    types: tuple[SqlType, ...]


Result = SqlType | Callable[[Sequence[SqlType]], SqlType]


@dataclass(frozen=True)
class Function:
    """A function.

    Attributes:
        name: as SQL calls it, in upper case.
        parameters: a letter for each: S text, I whole number, N number, B boolean, T timestamp, D date, X bytes,
            A array, M map, C array or map, L lambda, U unit of time, E encoding, K a constant,
            F a field of a time, G a unit of less than a day, O a TIME, H text or a whole number, Y text or bytes,
            * anything; `?` after a letter makes it optional, and a last `+` repeats the letter before.
        result: a type, or a function of the arguments' types.
        spark: Spark SQL's expression with `{0}` for the first argument's, or a function of all of them; it means the
            same in Spark 3.5, 4.0 and 4.1.
        python: gets values that are not None; an exception of it makes the value NULL, as ksqlDB does.
        kind: scalar, aggregate or table.
        takes_null: whether `python` takes None too; `null_from`: only from this argument on.
        takes_rows: whether an aggregate gets a list of rows of arguments, not of the first argument alone.
        own: of a function that CREATE FUNCTION has made; its parameters have types, not letters.
    """

    name: str
    parameters: str
    result: Result
    spark: str | Callable[..., str]
    python: Callable[..., Any]
    kind: str = "scalar"
    takes_null: bool = False
    null_from: int | None = None
    takes_rows: bool = False
    own: OwnFunction | None = None

    def is_null_of(self, values: Sequence[Any]) -> bool:
        """Return whether NULL among the arguments makes the result NULL."""
        return not self.takes_null and None in values[: self.null_from]

    def bounds(self) -> tuple[int, float]:
        """Return the least and the most arguments."""
        letters = self.parameters.replace("+", "")
        optional = letters.count("?")
        count = len(letters) - optional
        return count - optional, math.inf if self.parameters.endswith("+") else count

    def parameter(self, index: int) -> str:
        """Return the letter of an argument."""
        letters = self.parameters.replace("+", "").replace("?", "")
        return letters[min(index, len(letters) - 1)]

    def result_type(self, types: Sequence[SqlType]) -> SqlType:
        """Return the type of a call with arguments of `types`."""
        return self.result if isinstance(self.result, SqlType) else self.result(types)

    def spark_text(self, arguments: Sequence[str]) -> str:
        """Return Spark SQL's expression of a call."""
        return (
            self.spark.format(*arguments) if isinstance(self.spark, str) else self.spark(*arguments)
        )


def first(types: Sequence[SqlType]) -> SqlType:
    """Return the first argument's type."""
    return types[0]


def element(types: Sequence[SqlType]) -> SqlType:
    """Return the type of the first argument's elements."""
    return types[0].of[0] if types[0].of else STRING


def widest(types: Sequence[SqlType]) -> SqlType:
    """Return the type that holds every argument's values."""
    result = types[0]
    for type_ in types[1:]:
        result = common(result, type_) or result
    return result


def as_int(number: str) -> str:
    """Return Spark's text of a whole number as the INT that is nearest: of a BIGINT it would take the last 32 bits."""
    if number.isdigit():
        return number
    most = 2**31 - 2
    nearest = f"WHEN {number} > {most} THEN {most} WHEN {number} < -{most} THEN -{most}"
    return f"cast(CASE {nearest} ELSE {number} END AS INT)"


def present(values: Sequence[Any]) -> list[Any]:
    """Return the values that are not None."""
    return [value for value in values if value is not None]


def signature(function: Function) -> str:
    """Return a function's name with words for its parameters, such as LPAD(text, whole, text)."""
    if function.own is not None:
        return f"{function.name}({', '.join(map(str, function.own.types))})"
    letters = function.parameters
    words: list[str] = []
    for index, letter in enumerate(letters):
        following = letters[index + 1 : index + 2]
        if letter in "?+":
            continue
        word = _LETTERS[letter]
        words.append(
            f"[{word}]" if following == "?" else f"{word}, .." if following == "+" else word
        )
    return f"{function.name}({', '.join(words)})"


def result_word(function: Function) -> str:
    """Return the type of a function's result in words."""
    return str(function.result) if isinstance(function.result, SqlType) else "as its arguments"
