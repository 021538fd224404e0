"""What the compiler and the runner know of a function of queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.sql.types import SqlType

Result = SqlType | Callable[[Sequence[SqlType]], SqlType]


@dataclass(frozen=True)
class Function:
    """A function.

    Attributes:
        name: as SQL calls it, in upper case.
        parameters: a letter for each: S text, I whole number, N number, B boolean, T timestamp, D date, X bytes,
            A array, M map, C array or map, L lambda, U unit of time, V unit of days or more, E encoding, K a constant,
            * anything; `?` after a letter makes it optional, and a last `+` repeats the letter before.
        result: a type, or a function of the arguments' types.
        spark: Spark SQL's expression with `{0}` for the first argument's, or a function of all of them; it means the
            same in Spark 3.5, 4.0 and 4.1.
        python: gets values that are not None; an exception of it makes the value NULL, as ksqlDB does.
        kind: scalar, aggregate or table.
        takes_null: whether `python` takes None too; `null_from`: only from this argument on.
        takes_rows: whether an aggregate gets a list of rows of arguments, not of the first argument alone.
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
