"""What a whole query must hold, what it warns of, and the columns and times that its rows have."""

from __future__ import annotations

from dataclasses import replace

from headrace.sql.errors import SqlError
from headrace.sql.expressions import Call, Column, walk
from headrace.sql.plan import (
    KSQL,
    ROWTIME,
    WINDOW_END,
    WINDOW_START,
    Named,
    QueryPlan,
    Relation,
    RelationColumn,
)
from headrace.sql.query_joins import DEFAULT_GRACE_MS
from headrace.sql.query_matches import warnings_of_match
from headrace.sql.query_outputs import kind_of
from headrace.sql.statements import (
    Select,
)
from headrace.sql.types import BIGINT


def check_kind(plan: QueryPlan, select: Select, is_table: bool | None, dialect: str) -> None:
    """Refuse what KSQL refuses, and what Spark cannot do."""
    if (
        dialect == KSQL
        and is_table is True
        and not plan.is_aggregate
        and not plan.source.relation.is_table
    ):
        raise SqlError("a table's query has GROUP BY, or reads a table", select.place)
    if dialect == KSQL and is_table is False and plan.is_aggregate:
        raise SqlError("GROUP BY makes a table: CREATE TABLE .. AS", select.place)
    if plan.is_of_tables():
        _check_tables(plan, select, is_table, dialect)
        return
    if plan.emit == "FINAL" and plan.window is None:
        raise SqlError("EMIT FINAL goes with a WINDOW", select.place)
    if is_table and plan.is_aggregate and dialect == KSQL:
        names = {
            output.expression.name
            for output in plan.outputs
            if isinstance(output.expression, Column)
        }
        missing = [key.name for key in plan.keys if key.name not in names]
        if missing:
            raise SqlError(f"the key {missing[0]} is not selected", select.place)
    if plan.window is not None and plan.window.kind == "SESSION" and plan.emit == "CHANGES":
        raise SqlError(
            "Spark does not correct sessions that still grow: use EMIT FINAL", select.place
        )
    if plan.joins and plan.is_aggregate and plan.emit == "CHANGES":
        raise SqlError(
            "Spark does not correct groups of a join: use a WINDOW with EMIT FINAL, or name the join by CREATE STREAM",
            select.place,
        )
    if plan.limit is not None and is_table is not None:
        raise SqlError("LIMIT ends a query whose rows are shown; this one never ends", select.place)
    several = any(join.method == "streams" for join in plan.joins[1:])
    of_table = any(join.method == "stream-table" for join in plan.joins)
    if (several or of_table) and plan.is_aggregate:
        raise SqlError("name the join by CREATE STREAM .. AS, and group that stream", select.place)


def _check_tables(plan: QueryPlan, select: Select, is_table: bool | None, dialect: str) -> None:
    """Check a query of tables alone, whose result is a table."""
    if dialect == KSQL and is_table is False:
        raise SqlError("a query of tables makes a table: CREATE TABLE .. AS", select.place)
    if plan.window is not None:
        raise SqlError("a WINDOW groups a stream's rows, not a table's", select.place)
    is_limited = plan.limit is not None and is_table is not None
    if plan.partition or plan.distinct or is_limited:
        raise SqlError(
            "PARTITION BY, DISTINCT and LIMIT are for streams; a table has one row of a key",
            select.place,
        )
    if any(kind_of(part) == "table" for out in plan.outputs for part in walk(out.expression)):
        raise SqlError(
            "a table function is for streams; a table has one row of a key", select.place
        )
    if not is_table:
        return
    names = {column.name for column in columns_of(plan) if column.is_key}
    missing = (
        [key.name for key in plan.keys if key.name not in names]
        if plan.is_aggregate
        else [key.name for key in plan.source.relation.key_columns()][len(names) :]
    )
    if missing:
        raise SqlError(f"the key {missing[0]} is not selected{_way_to_key(plan)}", select.place)


def _way_to_key(plan: QueryPlan) -> str:
    if not plan.joins or plan.joins[0].kind not in ("RIGHT", "FULL"):
        return ""
    left, right = plan.source, plan.joins[0].right
    keys = [f"{one.alias}.{one.relation.key_columns()[0].name}" for one in (left, right)]
    return f": COALESCE({', '.join(keys)}) is in every row"


def warnings_of(plan: QueryPlan) -> tuple[str, ...]:
    """Return what a user should know of a query that is right."""
    warnings: list[str] = []
    if plan.is_of_tables():
        warnings.append(
            "each micro-batch reads the whole tables: they are for thousands of keys, not for millions"
        )
    elif plan.is_aggregate and plan.window is None:
        warnings.append("the state holds a row for every key, for ever: a WINDOW bounds it")
    if plan.match is not None:
        warnings += warnings_of_match(plan.match)
    if plan.distinct:
        warnings.append("the state holds every distinct row, for ever")
    if plan.window is not None and plan.window.grace_ms == DEFAULT_GRACE_MS:
        warnings.append("windows stay open for KSQL's 24 hours: GRACE PERIOD says less")
    if any(join.method == "streams" and join.grace_ms == DEFAULT_GRACE_MS for join in plan.joins):
        warnings.append("rows wait for KSQL's 24 hours: WITHIN .. GRACE PERIOD says less")
    return tuple(warnings)


def columns_of(plan: QueryPlan) -> tuple[RelationColumn, ...]:
    """Return the columns of a query's rows; a window's bounds belong to the key."""
    keys = {key.name for key in plan.keys}
    source_keys = {column.name for column in plan.rows.relation.key_columns()}

    outer = (
        plan.joins and plan.joins[0].method == "tables" and plan.joins[0].kind in ("RIGHT", "FULL")
    )

    def is_key(output: Named) -> bool:
        if outer:
            sides = (plan.joins[0].left_key, plan.joins[0].right_key)
            expression = output.expression
            return (
                isinstance(expression, Call)
                and expression.name == "COALESCE"
                and (expression.arguments in (sides, sides[::-1]))
            )
        if not isinstance(output.expression, Column):
            return output.expression in plan.partition
        if plan.is_aggregate:
            return output.expression.name in keys
        if plan.partition:
            return output.expression in plan.partition
        return (
            output.expression.name in source_keys and output.expression.relation == plan.rows.alias
        )

    columns = [RelationColumn(output.name, output.type, is_key(output)) for output in plan.outputs]
    if plan.window is not None:
        names = {column.name.upper() for column in columns}
        columns.extend(
            RelationColumn(name, BIGINT, is_key=True)
            for name in (WINDOW_START, WINDOW_END)
            if name not in names
        )
    return tuple(columns)


def inherit_time(relation: Relation, plan: QueryPlan) -> tuple[Relation, tuple[str, ...]]:
    """Return a query's relation with its column of event times, as its source has it, and a warning without one."""
    if relation.timestamp:
        return relation, ()
    if plan.window is not None:
        start = next(
            (column.name for column in relation.columns if column.name.upper() == WINDOW_START), ""
        )
        return replace(relation, timestamp=start), ()
    source = plan.rows.relation
    for output in plan.outputs:
        expression = output.expression
        if isinstance(expression, Column) and expression.relation == plan.rows.alias:
            if expression.name == ROWTIME and output.type == BIGINT:
                return replace(relation, timestamp=output.name), ()
            if source.timestamp and expression.name == source.timestamp:
                pattern = source.timestamp_format
                return replace(relation, timestamp=output.name, timestamp_format=pattern), ()
    warning = (
        f"{relation.name} has no column of its event's time, so that queries on it go by the time of arrival: "
        "select ROWTIME AS event_ms"
    )
    return relation, (warning,)
