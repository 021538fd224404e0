"""Takes joins of several streams, and of these with tables, apart: a query of each join, which the next one reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.sql.plan import (
    KINESIS_ANALYTICS,
    ROW_OFFSET,
    ROW_PARTITION,
    ROWTIME,
    Input,
    JoinPlan,
    Named,
    QueryPlan,
    Relation,
    RelationColumn,
    Script,
)
from headrace.sql.rewriting import rewrite
from headrace.sql.statements import (
    Call,
    Column,
    Expression,
)
from headrace.sql.types import BIGINT, INT, STRING, TIMESTAMP

# Stands in no query's name.
_MARK = "~"


def owner_of(name: str) -> str:
    """Return the name of the query of which the query `name` is a part, or its own."""
    return name.partition(_MARK)[0]


def is_part(relation: Relation) -> bool:
    """Return whether a relation is what a part of a query writes."""
    return _MARK in relation.name


def take_chains_apart(script: Script) -> Script:
    """Return a script whose queries join two streams, or one relation with tables; the others are made of several.

    A part before the last one writes an in-application stream of its own, which has every column of what it joins.
    """
    relations, queries = dict(script.relations), list[QueryPlan]()
    for query in script.queries:
        for part in _parts(query, script.dialect, 1):
            queries.append(part)
            if part.target is not None and is_part(part.target):
                relations[part.target.name.lower()] = part.target
    return replace(script, relations=relations, queries=tuple(queries))


def _parts(query: QueryPlan, dialect: str, number: int) -> Iterator[QueryPlan]:
    if len(query.joins) < 2 or query.joins[0].method != "streams":
        yield query
        return
    first, *rest = query.joins
    outputs, names = _columns(query, first, dialect)
    name = f"{owner_of(query.name)}{_MARK}{number}"
    alias, taken = f"joined_{number}", {one.alias.lower() for one in query.inputs()}
    while alias in taken:
        alias += "_"
    columns = tuple(RelationColumn(one.name, one.type) for one in outputs)
    joined = Relation(name, columns, location=query.location)
    part = QueryPlan(name, query.source, outputs, joined, joins=(first,), location=query.location)
    yield replace(part, late=query.late)

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Column) or (part.relation, part.name) not in names:
            return None
        return Column(names[part.relation, part.name], alias, location=part.location)

    def moved(one: Expression) -> Expression:
        return rewrite(one, change)

    def named(ones: tuple[Named, ...]) -> tuple[Named, ...]:
        return tuple(replace(one, expression=moved(one.expression)) for one in ones)

    # Joins with tables, which follow those of streams, have no late rows.
    late = query.late if rest[0].method == "streams" else ""
    last = replace(
        query,
        late=late,
        source=Input(joined, alias),
        joins=tuple(replace(one, left_key=moved(one.left_key)) for one in rest),
        where=None if query.where is None else moved(query.where),
        outputs=named(query.outputs),
        partition=tuple(map(moved, query.partition)),
    )
    yield from _parts(last, dialect, number + 1)


def _columns(
    query: QueryPlan, join: JoinPlan, dialect: str
) -> tuple[tuple[Named, ...], dict[tuple[str | None, str], str]]:
    """Return the outputs of a join with all that later parts may read, and their names by relation and column."""
    hidden = [(ROWTIME, TIMESTAMP if dialect == KINESIS_ANALYTICS else BIGINT)]
    if query.reads_numbers():
        hidden += [(ROW_PARTITION, INT), (ROW_OFFSET, STRING)]
    outputs: list[Named] = []
    names: dict[tuple[str | None, str], str] = {}
    for source in (query.source, join.right):
        of_relation = [(one.name, one.type) for one in source.relation.columns]
        # What a part before this one has joined has the hidden ones as columns.
        is_joined = is_part(source.relation)
        of_relation += [] if is_joined else hidden
        for column, type_ in of_relation:
            name = column if is_joined else f"{source.alias}_{column}"
            while name.lower() in (one.name.lower() for one in outputs):
                name += "_"
            expression: Expression = Column(column, source.alias)
            if column == ROWTIME and type_ == TIMESTAMP:
                # Another expression, since Spark wants one column with a watermark.
                expression = Call("LEAST", (expression, expression))
            names[source.alias, column] = name
            outputs.append(Named(name, expression, type_))
    return tuple(outputs), names
