"""Statements and expressions as values: what a text says, with its locations, before names and types are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.sql.types import Function, Location, SqlError, SqlType

# Everything that reads an expression goes down it by calls of functions.
MOST_LEVELS = 150
# With each part as often as it is read: what stands for one of them may read it again and again.
MOST_PARTS = 100_000


@dataclass(frozen=True)
class Expression:
    """The base of all; `location` is where it begins and does not count when two are compared."""

    location: Location = field(default=Location(), compare=False, kw_only=True)
    levels: int = field(default=1, init=False, compare=False, repr=False)
    size: int = field(default=1, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Count the levels and the parts; raises SqlError for more than MOST_LEVELS or MOST_PARTS."""
        parts = self.parts()
        levels = 1 + max((part.levels for part in parts), default=0)
        if levels > MOST_LEVELS:
            raise SqlError(f"an expression has at most {MOST_LEVELS} levels", self.location)
        size = 1 + sum(part.size for part in parts)
        if size > MOST_PARTS:
            raise SqlError(f"an expression has at most {MOST_PARTS:,} parts", self.location)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "size", size)

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


@dataclass(frozen=True)
class ColumnDeclaration:
    """A declared column; `key` is '', 'KEY', 'PRIMARY KEY' or 'HEADERS'."""

    name: str
    type: SqlType
    key: str
    location: Location


@dataclass(frozen=True)
class Property:
    """A name and a value of a WITH clause."""

    name: str
    value: Literal
    location: Location


@dataclass(frozen=True)
class Window:
    """WINDOW TUMBLING | HOPPING | SESSION (..); durations in milliseconds, None where nothing is said."""

    kind: str
    size_ms: int
    advance_ms: int | None = None
    grace_ms: int | None = None
    retention_ms: int | None = None
    location: Location = field(default_factory=Location)


@dataclass(frozen=True)
class SelectItem:
    """An expression with its alias, or all columns (of a relation): `expression` is then None.

    With `has_all_fields` it is the fields of a STRUCT: `expression->*`.
    """

    expression: Expression | None
    alias: str | None
    relation: str | None
    location: Location
    has_all_fields: bool = False


@dataclass(frozen=True)
class MatchRecognize:
    """MATCH_RECOGNIZE (..): a row pattern, whose parts are nested tuples as `matching.py` reads them.

    `skip` is PAST LAST ROW or TO NEXT ROW.
    """

    partition: tuple[Expression, ...]
    order: Expression | None
    measures: tuple[SelectItem, ...]
    skip: str
    pattern: tuple[Any, ...]
    within_ms: int | None
    grace_ms: int | None
    defines: tuple[tuple[str, Expression], ...]
    location: Location


@dataclass(frozen=True)
class Stagger:
    """WINDOWED BY STAGGER (..): windows that begin with a partition's first row."""

    partition: tuple[Expression, ...]
    range_ms: int
    location: Location


@dataclass(frozen=True)
class RelationName:
    """A relation in FROM or JOIN, under its alias."""

    name: str
    alias: str
    location: Location
    over: Frame | None = None
    match: MatchRecognize | None = None


@dataclass(frozen=True)
class Join:
    """A join: `kind` is INNER, LEFT, RIGHT or FULL; before and after are WITHIN's milliseconds."""

    kind: str
    relation: RelationName
    on: Expression
    before_ms: int | None = None
    after_ms: int | None = None
    grace_ms: int | None = None
    location: Location = field(default_factory=Location)


@dataclass(frozen=True)
class Select:
    """A query; `emit` is CHANGES, FINAL or '' (of another one); `qualify` is a condition on sliding windows."""

    items: tuple[SelectItem, ...]
    source: RelationName
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    partition_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    qualify: Expression | None = None
    stagger: Stagger | None = None
    emit: str = ""
    limit: int | None = None
    distinct: bool = False
    location: Location = field(default_factory=Location)


@dataclass(frozen=True)
class Statement:
    """The base of all; `text` is the statement as it was written."""

    location: Location
    text: str = field(default="", kw_only=True, compare=False)


@dataclass(frozen=True)
class CreateSource(Statement):
    """CREATE STREAM | TABLE name (columns) WITH (..): a stream that is there.

    `inferred_from` is the stream whose records say the columns: FROM STREAM '..' INFER; else it is empty.
    """

    name: str
    is_table: bool
    columns: tuple[ColumnDeclaration, ...]
    properties: tuple[Property, ...]
    replaces: bool = False
    if_not_exists: bool = False
    inferred_from: str = ""


@dataclass(frozen=True)
class Alter(Statement):
    """ALTER STREAM | TABLE name ADD COLUMN ..: columns more of a stream that is there."""

    name: str
    is_table: bool
    columns: tuple[ColumnDeclaration, ...]


@dataclass(frozen=True)
class CreateAs(Statement):
    """CREATE STREAM | TABLE name WITH (..) AS SELECT: a query that never ends, and its result's name."""

    name: str
    is_table: bool
    properties: tuple[Property, ...]
    select: Select
    replaces: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class InsertSelect(Statement):
    """INSERT INTO target SELECT; `name` is a pump's, or WITH (query_id)."""

    target: str
    columns: tuple[str, ...]
    select: Select
    name: str | None = None
    replaces: bool = False


@dataclass(frozen=True)
class InsertValues(Statement):
    """INSERT INTO target (columns) VALUES (..): one record."""

    target: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Query(Statement):
    """A SELECT of its own: its rows are shown."""

    select: Select


@dataclass(frozen=True)
class Drop(Statement):
    """DROP STREAM | TABLE."""

    name: str
    if_exists: bool


@dataclass(frozen=True)
class ChangeType(Statement):
    """CREATE TYPE or DROP TYPE; the parser has done it."""

    name: str


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE FUNCTION name (parameters) RETURNS result FROM 'file': a function of that name in a Python file."""

    name: str
    parameters: tuple[tuple[str, SqlType], ...]
    result: SqlType
    file: str
    replaces: bool = False


@dataclass(frozen=True)
class DropFunction(Statement):
    """DROP FUNCTION."""

    name: str
    if_exists: bool


@dataclass(frozen=True)
class SetProperty(Statement):
    """SET 'name' = 'value', or UNSET 'name' with None."""

    name: str
    value: str | None


@dataclass(frozen=True)
class Show(Statement):
    """SHOW STREAMS | TABLES | QUERIES | FUNCTIONS | TYPES | VARIABLES | PROPERTIES | TOPICS."""

    what: str
    is_extended: bool = False


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE name [EXTENDED], DESCRIBE FUNCTION name, or EXPLAIN name."""

    name: str
    is_function: bool = False
    is_extended: bool = False


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN SELECT: what a query would do."""

    query: Query


@dataclass(frozen=True)
class Terminate(Statement):
    """TERMINATE query, or TERMINATE ALL."""

    query: str
