"""What the compiler and the runner know of a function of queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.sql.types import STRING, SqlType

_LETTERS = {
    "S": "text", "I": "whole", "N": "number", "B": "boolean", "T": "timestamp", "D": "date", "X": "bytes", "A": "array",
    "M": "map", "C": "array or map", "L": "lambda", "U": "unit", "V": "unit of days", "E": "encoding", "K": "constant",
    "F": "field of a time",
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
            A array, M map, C array or map, L lambda, U unit of time, V unit of days or more, E encoding, K a constant,
            F a field of a time, * anything; `?` after a letter makes it optional, and a last `+` repeats the letter
            before.
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


def unique(items: Sequence[Any]) -> list[Any]:
    """Return the items, each once, in their order."""
    result: list[Any] = []
    for item in items:
        if item not in result:
            result.append(item)
    return result


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
