"""Statements as values: what a text says, before names and types are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.sql.expressions import Expression, Frame, Literal
from headrace.sql.types import Place, SqlType


@dataclass(frozen=True)
class ColumnDeclaration:
    """A declared column; `key` is '', 'KEY', 'PRIMARY KEY' or 'HEADERS'."""

    name: str
    type: SqlType
    key: str
    place: Place


@dataclass(frozen=True)
class Property:
    """A name and a value of a WITH clause."""

    name: str
    value: Literal
    place: Place


@dataclass(frozen=True)
class Window:
    """WINDOW TUMBLING | HOPPING | SESSION (..); durations in milliseconds, None where nothing is said."""

    kind: str
    size_ms: int
    advance_ms: int | None = None
    grace_ms: int | None = None
    retention_ms: int | None = None
    place: Place = field(default_factory=Place)


@dataclass(frozen=True)
class SelectItem:
    """An expression with its alias, or all columns (of a relation): `expression` is then None.

    With `has_all_fields` it is the fields of a STRUCT: `expression->*`.
    """

    expression: Expression | None
    alias: str | None
    relation: str | None
    place: Place
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
    place: Place


@dataclass(frozen=True)
class Stagger:
    """WINDOWED BY STAGGER (..): windows that begin with a partition's first row."""

    partition: tuple[Expression, ...]
    range_ms: int
    place: Place


@dataclass(frozen=True)
class RelationName:
    """A relation in FROM or JOIN, under its alias."""

    name: str
    alias: str
    place: Place
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
    place: Place = field(default_factory=Place)


@dataclass(frozen=True)
class Select:
    """A query; `emit` is CHANGES, FINAL or '' (a pull query, or an in-application stream's)."""

    items: tuple[SelectItem, ...]
    source: RelationName
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    partition_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    # A condition on the values of sliding windows.
    qualify: Expression | None = None
    stagger: Stagger | None = None
    emit: str = ""
    limit: int | None = None
    distinct: bool = False
    place: Place = field(default_factory=Place)


@dataclass(frozen=True)
class Statement:
    """The base of all; `text` is the statement as it was written."""

    place: Place
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
