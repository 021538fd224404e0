"""Expressions as values: what a query's text says, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.sql.function import Function
from headrace.sql.types import Place, SqlError, SqlType

# Everything that reads an expression goes down it by calls of functions.
MOST_LEVELS = 150


@dataclass(frozen=True)
class Expression:
    """The base of all; `place` is where it begins and does not count when two are compared."""

    place: Place = field(default=Place(), compare=False, kw_only=True)
    levels: int = field(default=1, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Count the levels; raises SqlError for more than MOST_LEVELS."""
        levels = 1 + max((part.levels for part in self.parts()), default=0)
        if levels > MOST_LEVELS:
            raise SqlError(f"an expression has at most {MOST_LEVELS} levels", self.place)
        object.__setattr__(self, "levels", levels)

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return ()


@dataclass(frozen=True)
class Literal(Expression):
    """A constant: None, bool, int, float, Decimal's text as str with DECIMAL, or str."""

    value: Any
    type: SqlType


@dataclass(frozen=True)
class Interval(Expression):
    """INTERVAL '5' MINUTE: a duration in milliseconds."""

    duration_ms: int


@dataclass(frozen=True)
class Column(Expression):
    """A column's name, perhaps with its relation's."""

    name: str
    relation: str | None = None


@dataclass(frozen=True)
class Field(Expression):
    """A field of a STRUCT: `of->name`."""

    of: Expression
    name: str

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return (self.of,)


@dataclass(frozen=True)
class Item(Expression):
    """An element of an ARRAY (from 1; from the end if negative) or of a MAP: `of[index]`."""

    of: Expression
    index: Expression
    is_of_map: bool = False

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return self.of, self.index


@dataclass(frozen=True)
class Operation(Expression):
    """An operator with its operands.

    NOT, -, +, *, /, DIV (of whole numbers), %, ||, AND, OR, =, <>, <, <=, >, >=, IS NULL, LIKE, IN, BETWEEN,
    IS DISTINCT FROM; an operand of LIKE after the second is its escape character.
    """

    operator: str
    operands: tuple[Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return self.operands


@dataclass(frozen=True)
class Call(Expression):
    """A function's call. `distinct` is COUNT(DISTINCT x)'s; COUNT(*) has no arguments and `star`.

    `own` is the function if CREATE FUNCTION has made it.
    """

    name: str
    arguments: tuple[Expression, ...]
    distinct: bool = False
    star: bool = False
    own: Function | None = field(default=None, compare=False, repr=False)

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return self.arguments


@dataclass(frozen=True)
class Frame:
    """A sliding window: the row, and of the same `partition` those less than `range_ms` before it, or the last `rows`.

    `name` is a WINDOW clause's, which has the rest.
    """

    partition: tuple[Expression, ...] = ()
    range_ms: int | None = None
    rows: int | None = None
    name: str = ""


@dataclass(frozen=True)
class Over(Expression):
    """An aggregate function's call over a sliding window, for each row."""

    call: Call
    frame: Frame

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of; the call itself makes no groups."""
        return (*self.call.arguments, *self.frame.partition)


@dataclass(frozen=True)
class Lambda(Expression):
    """(x, y) => body, an argument of a function."""

    parameters: tuple[str, ...]
    body: Expression

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return (self.body,)


@dataclass(frozen=True)
class Cast(Expression):
    """CAST(of AS type)."""

    of: Expression
    type: SqlType

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return (self.of,)


@dataclass(frozen=True)
class Case(Expression):
    """CASE WHEN condition THEN value .. ELSE otherwise END."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        pairs = tuple(part for branch in self.branches for part in branch)
        return pairs if self.otherwise is None else (*pairs, self.otherwise)


@dataclass(frozen=True)
class Struct(Expression):
    """STRUCT(name := value, ..)."""

    names: tuple[str, ...]
    values: tuple[Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return self.values


@dataclass(frozen=True)
class Array(Expression):
    """ARRAY[value, ..]."""

    values: tuple[Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return self.values


@dataclass(frozen=True)
class Map(Expression):
    """MAP(key := value, ..)."""

    keys: tuple[Expression, ...]
    values: tuple[Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return (*self.keys, *self.values)


@dataclass(frozen=True)
class Tick(Expression):
    """FLOOR(of TO unit), or STEP(of BY INTERVAL ..): a time, rounded down to whole `duration_ms` since 1970."""

    of: Expression
    duration_ms: int

    def parts(self) -> tuple[Expression, ...]:
        """Return the expressions that it is made of."""
        return (self.of,)


def walk(expression: Expression) -> Iterator[Expression]:
    """Return the expression and all that it is made of, outermost first."""
    waiting = [expression]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(current.parts()))
