"""What a script's queries do, with every name and type known: values that the compiler and the runner read.

The names that an expression may use, and the types that fit a place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from headrace.sql.functions import NOT_BUILT
from headrace.sql.statements import Call, Column, Expression, Over, walk
from headrace.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    INT,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    Function,
    Location,
    SqlError,
    SqlType,
    near,
)

KSQL, KINESIS_ANALYTICS = "ksql", "kinesis-analytics"
# Columns that every row has besides its own.
ROWTIME, WINDOW_START, WINDOW_END = "ROWTIME", "WINDOWSTART", "WINDOWEND"
# KSQL's of a record: its shard's number, and its sequence number as text, which is longer than a BIGINT.
ROW_PARTITION, ROW_OFFSET = "ROWPARTITION", "ROWOFFSET"
# Kinesis Analytics', of a stream that reads Kinesis.
ARRIVAL, PRESENT = "APPROXIMATE_ARRIVAL_TIME", "CURRENT_ROW_TIMESTAMP"


@dataclass(frozen=True)
class RelationColumn:
    """A column; `is_key` for a key column."""

    name: str
    type: SqlType
    is_key: bool = False


@dataclass(frozen=True)
class Relation:
    """A stream or a table.

    Attributes:
        name: as SQL calls it.
        columns: its columns, in order.
        is_table: whether a record replaces the one before with the same key.
        stream: the Kinesis stream that holds it, or the address s3://.. of a reference table's object; empty for an
            in-application stream.
        format: JSON, CSV, AVRO or RAW.
        delimiter: CSV's.
        timestamp: the column with the event's time; empty for the record's arrival.
        timestamp_format: a pattern, for a timestamp that is text.
        is_value: whether a record is not an object of JSON, but the value of its only column besides the key.
        schemas: Avro's, by their versions' UUIDs in Glue; that of records without Glue's header under ''.
        origin: where the columns come from that the text does not name, in words.
    """

    name: str
    columns: tuple[RelationColumn, ...]
    is_table: bool = False
    stream: str = ""
    format: str = "JSON"
    delimiter: str = ","
    timestamp: str = ""
    timestamp_format: str = ""
    is_value: bool = False
    schemas: tuple[tuple[str, str], ...] = ()
    origin: str = ""
    location: Location = field(default=Location(), compare=False)

    @property
    def is_object(self) -> bool:
        """Return whether it is a reference table in S3, which a job reads once."""
        return self.stream.startswith("s3://")

    def column(self, name: str) -> RelationColumn | None:
        """Return a column by its name, in any letter case."""
        return self._by_name.get(name.lower())

    @cached_property
    def _by_name(self) -> dict[str, RelationColumn]:
        # The first of a name, as a list is read.
        return {column.name.lower(): column for column in reversed(self.columns)}

    def key_columns(self) -> tuple[RelationColumn, ...]:
        """Return the key's columns."""
        return tuple(column for column in self.columns if column.is_key)

    def needs_key(self) -> bool:
        """Return whether a row needs its whole key: a table's, and a stream's of one column, which any text may be."""
        keys = self.key_columns()
        return self.is_table or (len(keys) == 1 and not keys[0].type.of)


@dataclass(frozen=True)
class Input:
    """A relation under the alias by which a query's columns name it."""

    relation: Relation
    alias: str


@dataclass(frozen=True)
class JoinPlan:
    """A join with what stands before it.

    `method` is streams, stream-table, tables, or object for a reference table in S3.
    Rows meet if `left_key` equals `right_key`; for streams also if the
    right row's time is from `before_ms` before to `after_ms` after the left one's. A row waits `grace_ms` longer.
    """

    kind: str
    right: Input
    left_key: Expression
    right_key: Expression
    method: str
    before_ms: int = 0
    after_ms: int = 0
    grace_ms: int = 0
    location: Location = field(default=Location(), compare=False)


@dataclass(frozen=True)
class WindowPlan:
    """A window: `kind` is TUMBLING, HOPPING or SESSION; `grace_ms` is how late a row may come.

    A table's state keeps a window until `retention_ms` after its end; None keeps it for ever.
    """

    kind: str
    size_ms: int
    advance_ms: int
    grace_ms: int
    retention_ms: int | None = None


@dataclass(frozen=True)
class Named:
    """An expression under a name, with its type."""

    name: str
    expression: Expression
    type: SqlType


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function's call under a name."""

    name: str
    call: Call
    type: SqlType


@dataclass(frozen=True)
class Sliding:
    """An aggregate over a sliding window, under the name by which outputs read it."""

    name: str
    over: Over


@dataclass(frozen=True)
class Navigation:
    """A value of the rows of a match, under the name by which measures read it.

    `kind` is last, first, prev, count, sum, avg, min, max, list, classifier or number; `variable` '' stands for all
    rows; `column` is an index of the match's columns, -1 for none.
    """

    name: str
    kind: str
    variable: str
    column: int
    offset: int
    type: SqlType


@dataclass(frozen=True)
class MatchPlan:
    """MATCH_RECOGNIZE over the query's source, or a staggered window: its matches are rows of `relation`.

    Only rows that `where` lets through are looked at.
    `columns` are what it needs of each row; `conditions` are by variable, and read navigations by index, as in
    `matching.py`; each of `measures` (the partition's columns first) reads navigations by name, of which `results` are
    the indexes of those that it needs.
    """

    relation: Input
    partition: tuple[Named, ...]
    columns: tuple[Named, ...]
    pattern: tuple[Any, ...]
    conditions: tuple[tuple[str, tuple[Any, ...]], ...]
    navigations: tuple[Navigation, ...]
    results: tuple[int, ...]
    measures: tuple[Named, ...]
    is_past_last: bool
    within_ms: int
    grace_ms: int
    history: int
    where: Expression | None = None

    def expressions(self) -> Iterator[Expression]:
        """Return every expression that it computes of a row, or of a match."""
        yield from (() if self.where is None else (self.where,))
        yield from (one.expression for one in (*self.partition, *self.columns, *self.measures))

    def spec(self) -> dict[str, Any]:
        """Return what the matcher takes."""
        return {
            "pattern": self.pattern,
            "conditions": dict(self.conditions),
            "navigations": [
                (one.kind, one.variable, one.column, one.offset) for one in self.navigations
            ],
            "measures": list(self.results),
            "is_past_last": self.is_past_last,
            "within": self.within_ms * 1000,
            "history": self.history,
        }


@dataclass(frozen=True)
class QueryPlan:
    """A query that never ends.

    Rows go through `match`, whose matches are then the rows, `joins`, `where` and, if `is_aggregate`, into groups of
    `keys` and `window`, whose `aggregates` and keys `having` and `outputs` read by their names. Each element
    of table functions in `outputs` makes a row. `partition` are the new partition key's expressions, if there is one.

    `emit` is CHANGES (each change of a group) or FINAL (a window once, when it is closed). Late rows go to the stream
    `late`; if it is empty they are counted alone.
    """

    name: str
    source: Input
    outputs: tuple[Named, ...]
    target: Relation | None
    joins: tuple[JoinPlan, ...] = ()
    where: Expression | None = None
    window: WindowPlan | None = None
    keys: tuple[Named, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    sliding: tuple[Sliding, ...] = ()
    match: MatchPlan | None = None
    having: Expression | None = None
    partition: tuple[Expression, ...] = ()
    emit: str = "CHANGES"
    limit: int | None = None
    is_aggregate: bool = False
    distinct: bool = False
    late: str = ""
    warnings: tuple[str, ...] = ()
    location: Location = field(default=Location(), compare=False)

    def gap_ms(self) -> int:
        """Return how much later than its last row a session ends; 0 for another window."""
        is_session = self.window is not None and self.window.kind == "SESSION"
        return self.window.size_ms if self.window is not None and is_session else 0

    def corrects(self) -> bool:
        """Return whether its rows are states of groups, of which a later one replaces the one before."""
        return self.is_aggregate and self.emit != "FINAL"

    def corrects_sessions(self) -> bool:
        """Return whether its rows are sessions that may still grow and merge, so that rows of before are gone."""
        return self.corrects() and self.window is not None and self.window.kind == "SESSION"

    def is_of_tables(self) -> bool:
        """Return whether it reads tables alone, so that its result is a table with changes and tombstones."""
        return all(source.relation.is_table for source in self.inputs())

    def expressions(self) -> Iterator[Expression]:
        """Return every expression that it computes."""
        if self.match is not None:
            yield from self.match.expressions()
        for join in self.joins:
            yield from (join.left_key, join.right_key)
        yield from (one for one in (self.where, self.having, *self.partition) if one is not None)
        yield from (one.expression for one in (*self.keys, *self.outputs))
        yield from (one.call for one in self.aggregates)
        yield from (one.over for one in self.sliding)

    def reads_numbers(self) -> bool:
        """Return whether it reads a record's shard or sequence number."""
        return any(
            isinstance(part, Column) and part.name in (ROW_PARTITION, ROW_OFFSET)
            for expression in self.expressions()
            for part in walk(expression)
        )

    @property
    def rows(self) -> Input:
        """Return what WHERE and the outputs read first: the source, or its matches."""
        return self.source if self.match is None else self.match.relation

    def inputs(self) -> tuple[Input, ...]:
        """Return what the query reads."""
        return (self.source, *(join.right for join in self.joins))


@dataclass(frozen=True)
class Script:
    """A whole text: its relations by lower-case name, and its queries, in order.

    Records that cannot be read go to the stream `errors`; if it is empty they are counted alone.
    """

    dialect: str
    relations: dict[str, Relation]
    queries: tuple[QueryPlan, ...]
    errors: str = ""

    def streams_aside(self) -> set[str]:
        """Return the streams of late rows and of records that cannot be read."""
        return {self.errors, *(query.late for query in self.queries)} - {""}

    def warnings(self) -> tuple[tuple[Location, str], ...]:
        """Return what the queries' writer should know, each with its location."""
        return tuple((query.location, text) for query in self.queries for text in query.warnings)

    def needed_by(self, queries: Sequence[QueryPlan]) -> Script:
        """Return the script of some queries and of those whose rows they read."""
        needed, waiting = list(queries), list(queries)
        while waiting:
            inputs = [source.relation for source in waiting.pop().inputs()]
            names, streams = {one.name for one in inputs}, {one.stream for one in inputs} - {""}
            for other in self.queries:
                is_read = other.target is not None and other.target.name in names
                if (is_read or other.late in streams) and other not in needed:
                    needed.append(other)
                    waiting.append(other)
        return replace(self, queries=tuple(one for one in self.queries if one in needed))

    def is_internal(self, relation: Relation) -> bool:
        """Return whether a relation is an in-application stream that other queries read."""
        return not relation.stream and any(
            source.relation.name == relation.name
            for query in self.queries
            for source in query.inputs()
        )


_OF_RECORDS = {ROW_PARTITION: INT, ROW_OFFSET: STRING}


@dataclass(frozen=True)
class Scope:
    """The names that an expression may use.

    Attributes:
        inputs: the relations of FROM and JOIN.
        times: the type of ROWTIME: BIGINT in KSQL, TIMESTAMP in Kinesis Analytics.
        extras: names besides the relations' columns, such as WINDOWSTART, with their types.
        parameters: the parameters of the lambda functions around, with their types.
        functions: those that CREATE FUNCTION has made, by upper-case name.
    """

    inputs: tuple[Input, ...]
    times: SqlType = BIGINT
    extras: Mapping[str, SqlType] = field(default_factory=dict[str, SqlType])
    parameters: Mapping[str, SqlType] = field(default_factory=dict[str, SqlType])
    functions: Mapping[str, Function] = field(default_factory=dict[str, Function])


def resolve_column(column: Column, scope: Scope) -> tuple[Expression, SqlType]:
    """Return a column with its relation and spelling, and its type; raises SqlError for one that is not there."""
    name = column.name.lower()
    if column.relation is None and name in scope.parameters:
        return column, scope.parameters[name]
    inputs, upper = _find_inputs(column, scope), column.name.upper()
    # A window's bounds may be called a relation's.
    is_own = all(one.relation.column(name) is None for one in inputs)
    if upper in scope.extras and (column.relation is None or is_own):
        return replace(column, name=upper, relation=None), scope.extras[upper]
    matches = [
        (source, source.relation.column(name))
        for source in inputs
        if source.relation.column(name) is not None
    ]
    if len(matches) > 1:
        both = " and ".join(f"{source.alias}.{column.name}" for source, _ in matches)
        raise SqlError(f"{column.name!r} is both {both}: say which", column.location)
    if matches:
        source, known = matches[0]
        assert known is not None
        return replace(column, name=known.name, relation=source.alias), known.type
    if name.upper() == ROWTIME:
        return replace(column, name=ROWTIME, relation=inputs[0].alias), scope.times
    if name.upper() in _OF_RECORDS:
        return _of_record(column, inputs, scope)
    of_stream = [one for one in inputs if one.relation.stream and not one.relation.is_object]
    if name.upper() == PRESENT and scope.times == TIMESTAMP:
        # A row's moment of output would be another one when a micro-batch is repeated: its arrival never is.
        name = ARRIVAL if [*inputs] == of_stream[:1] else ROWTIME
        return resolve_column(replace(column, name=name), scope)
    if name.upper() == ARRIVAL and scope.times == TIMESTAMP and [*inputs] == of_stream[:1]:
        return replace(column, name=ARRIVAL, relation=inputs[0].alias), TIMESTAMP
    if name == "rowkey":
        raise SqlError(
            "a row has no ROWKEY of its own: a relation's KEY column has its name, and a join's row has its first "
            "relation's key",
            column.location,
        )
    if column.relation is None and name.upper() in NOT_BUILT:
        raise SqlError(f"{name.upper()} is refused: {NOT_BUILT[name.upper()]}", column.location)
    names = [known.name for source in inputs for known in source.relation.columns] + list(
        scope.extras
    )
    where = inputs[0].relation.name if len(inputs) == 1 else "the query's relations"
    raise SqlError(f"no column {column.name!r} in {where}{near(name, names)}", column.location)


def _of_record(
    column: Column, inputs: tuple[Input, ...], scope: Scope
) -> tuple[Expression, SqlType]:
    """Return the shard's number or the sequence number of the record that a row was read from."""
    name = column.name.upper()
    source, *others = inputs
    if scope.times == TIMESTAMP:
        raise SqlError(
            f"{name} is KSQL's; an application's rows have ROWTIME alone", column.location
        )
    if others:
        raise SqlError(
            f"{name} is of each relation's records: say whose, such as {source.alias}.{name}",
            column.location,
        )
    if not source.relation.stream:
        raise SqlError(
            f"a match is of several records: MEASURES LAST(x.{name}) AS name gives one's {name}",
            column.location,
        )
    return replace(column, name=name, relation=source.alias), _OF_RECORDS[name]


def _find_inputs(column: Column, scope: Scope) -> tuple[Input, ...]:
    if column.relation is None:
        return scope.inputs
    inputs = tuple(one for one in scope.inputs if one.alias.lower() == column.relation.lower())
    if not inputs:
        aliases = [one.alias for one in scope.inputs]
        raise SqlError(
            f"no relation {column.relation!r} in this query{near(column.relation, aliases)}",
            column.location,
        )
    return inputs


def fits(letter: str, type_: SqlType) -> bool:
    """Return whether a value of a type may be an argument where a function's signature has `letter`."""
    if type_ == NULL or letter in "*K":
        return type_.name != "INTERVAL"
    return {
        "S": type_ == STRING,
        "H": type_ == STRING or type_.is_integer,
        "Y": type_.name in ("STRING", "BYTES"),
        "I": type_.is_integer,
        "N": type_.is_number,
        "B": type_ == BOOLEAN,
        "T": type_ == TIMESTAMP,
        "X": type_.name == "BYTES",
        "A": type_.name == "ARRAY",
        "C": type_.name in ("ARRAY", "MAP"),
        "D": type_ == DATE,
        "O": type_ == TIME,
        "M": type_.name == "MAP",
    }[letter]
