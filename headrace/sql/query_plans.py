"""Makes a SELECT's plan (inputs, joins, windows, rows or groups), and checks what a whole query must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from headrace.sql.plan import (
    KINESIS_ANALYTICS,
    KSQL,
    ROWTIME,
    WINDOW_END,
    WINDOW_START,
    Input,
    JoinPlan,
    Named,
    QueryPlan,
    Relation,
    RelationColumn,
    Scope,
    Sliding,
    WindowPlan,
)
from headrace.sql.query_matches import match_plan, stagger_plan, warnings_of_match
from headrace.sql.query_outputs import (
    DEFAULT_GRACE_MS,
    Groups,
    has_aggregate,
    is_time,
    join_plan,
    keys_of,
    kind_of,
    outputs_of,
    refuse_aggregates,
    refuse_maps,
    slide,
    with_keys_alone,
)
from headrace.sql.statements import Call, Column, Expression, RelationName, Select, Tick, walk
from headrace.sql.types import BIGINT, BOOLEAN, TIMESTAMP, Function, SqlError
from headrace.sql.typing import condition, resolve


@dataclass(frozen=True)
class Planner:
    """Makes plans over what a script has declared so far; `find` gives the relation that a query names."""

    dialect: str
    functions: Mapping[str, Function]
    find: Callable[[RelationName], Input]

    def plan(self, select: Select, name: str, is_table: bool | None) -> QueryPlan:
        """Return a query's plan; `is_table` is None for a query whose rows are shown."""
        source = self.find(select.source)
        if source.relation.is_object:
            raise SqlError(
                "a reference table is joined with a stream: FROM stream JOIN table",
                select.source.location,
            )
        joins, inputs = self._joins(select, source)
        times = TIMESTAMP if self.dialect == KINESIS_ANALYTICS else BIGINT
        match = None
        if select.source.match is not None:
            _check_match(select)
            of_rows = Scope((source,), times, functions=self.functions)
            match = match_plan(select.source.match, of_rows, select.source.alias)
            inputs = (match.relation,)
        if select.stagger is not None:
            return self._stagger(select, name, source, is_table)
        scope = Scope(inputs, times, functions=self.functions)
        where = None if select.where is None else condition(select.where, scope, "WHERE")
        refuse_aggregates(where, "WHERE")
        calls = [item.expression for item in select.items if item.expression is not None]
        is_aggregate = bool(select.group_by) or any(has_aggregate(call) for call in calls)
        if select.distinct and is_aggregate:
            raise SqlError("SELECT DISTINCT goes without GROUP BY", select.location)
        if is_aggregate:
            plan = self._aggregate(select, name, scope, where)
        else:
            plan = self._project(select, name, scope, where)
        plan = replace(
            plan,
            source=source,
            match=match,
            joins=joins,
            limit=select.limit,
            location=select.location,
        )
        check_kind(plan, select, is_table, self.dialect)
        return replace(plan, warnings=warnings_of(plan))

    def _stagger(
        self, select: Select, name: str, source: Input, is_table: bool | None
    ) -> QueryPlan:
        """Return the plan of a query with windows that begin with their first row."""
        assert select.stagger is not None
        if self.dialect == KSQL:
            raise SqlError(
                "WINDOWED BY is Kinesis Analytics'; KSQL has WINDOW SESSION",
                select.stagger.location,
            )
        if (
            select.joins
            or select.group_by
            or select.having
            or select.distinct
            or select.source.match
        ):
            raise SqlError(
                "a staggered window has PARTITION BY in place of GROUP BY, and one stream; name its rows by CREATE "
                "STREAM for what follows",
                select.stagger.location,
            )
        scope = Scope((source,), TIMESTAMP, functions=self.functions)
        match = stagger_plan(select, scope, select.source.alias)
        alias = match.relation.alias
        outputs = tuple(
            Named(one.name, Column(one.name, alias), one.type)
            for one in match.relation.relation.columns
        )
        plan = QueryPlan(
            name, source, outputs, None, match=match, limit=select.limit, location=select.location
        )
        check_kind(plan, select, is_table, self.dialect)
        return replace(plan, warnings=warnings_of(plan))

    def _project(
        self, select: Select, name: str, scope: Scope, where: Expression | None
    ) -> QueryPlan:
        if select.window is not None:
            raise SqlError("WINDOW goes with GROUP BY", select.window.location)
        if select.having is not None:
            raise SqlError("HAVING goes with GROUP BY", select.having.location)
        for part in select.partition_by:
            refuse_aggregates(part, "PARTITION BY")
        partition: list[Expression] = []
        for part in select.partition_by:
            expression, type_ = resolve(part, scope)
            if type_.maps():
                raise SqlError(f"a key has no MAP, and this is {type_}", part.location)
            partition.append(expression)
        outputs = outputs_of(select, scope)
        if select.qualify is not None:
            outputs += (Named("", condition(select.qualify, scope, "WHERE"), BOOLEAN),)
        for output in outputs if select.distinct else ():
            refuse_maps(output.type, "DISTINCT", output.expression.location)
        outputs, sliding = slide(outputs)
        having = None
        if select.qualify is not None:
            *named, last = outputs
            outputs, having = tuple(named), last.expression
        self._check_sliding(sliding, select)
        if select.emit == "FINAL":
            raise SqlError("EMIT FINAL goes with a WINDOW", select.location)
        return QueryPlan(
            name,
            scope.inputs[0],
            outputs,
            None,
            where=where,
            sliding=sliding,
            having=having,
            partition=tuple(partition),
            emit="CHANGES",
            distinct=select.distinct,
        )

    def _check_sliding(self, sliding: tuple[Sliding, ...], select: Select) -> None:
        if not sliding:
            return
        location = sliding[0].over.location
        if self.dialect == KSQL:
            raise SqlError("OVER is Kinesis Analytics'; KSQL has HOPPING windows", location)
        if select.joins or select.distinct or select.partition_by:
            raise SqlError(
                "a sliding window is over one stream: name the join by CREATE STREAM first",
                location,
            )

    def _aggregate(
        self, select: Select, name: str, scope: Scope, where: Expression | None
    ) -> QueryPlan:
        if select.partition_by:
            raise SqlError(
                "PARTITION BY does not go with GROUP BY, whose expressions are the key",
                select.location,
            )
        window, group_by = self._window(select, scope)
        extras = dict(scope.extras)
        if window is not None:
            extras |= {WINDOW_START: BIGINT, WINDOW_END: BIGINT}
        scope = replace(scope, extras=extras)
        keys = keys_of(group_by, select, scope)
        if self.dialect == KSQL:
            where = with_keys_alone(where, keys)
        tick_ms = window.size_ms if window is not None and self.dialect == KINESIS_ANALYTICS else 0
        groups = Groups(keys, tick_ms, select, scope)
        outputs = tuple(
            replace(output, expression=groups.split(output.expression, output.name))
            for output in outputs_of(select, scope)
        )
        having = None
        if select.having is not None:
            having = groups.split(condition(select.having, scope, "HAVING"), "having")
        emit = select.emit or ("FINAL" if self.dialect == KINESIS_ANALYTICS else "CHANGES")
        return QueryPlan(
            name,
            scope.inputs[0],
            outputs,
            None,
            where=where,
            window=window,
            keys=keys,
            aggregates=tuple(groups.aggregates),
            having=having,
            emit=emit,
            is_aggregate=True,
        )

    def _window(
        self, select: Select, scope: Scope
    ) -> tuple[WindowPlan | None, tuple[Expression, ...]]:
        """Return the window and the rest of GROUP BY; a rounded ROWTIME is a window in Kinesis Analytics."""
        resolved = [resolve(expression, scope)[0] for expression in select.group_by]
        if select.window is not None:
            window = select.window
            if window.size_ms <= 0 or (
                window.advance_ms is not None and not 0 < window.advance_ms <= window.size_ms
            ):
                raise SqlError(
                    "a window's size and advance are longer than 0, and the advance at most the size",
                    window.location,
                )
            grace = DEFAULT_GRACE_MS if window.grace_ms is None else window.grace_ms
            if window.retention_ms is not None and window.retention_ms < window.size_ms + (
                window.grace_ms or 0
            ):
                raise SqlError(
                    "RETENTION is at least a window's size and its GRACE PERIOD", window.location
                )
            return WindowPlan(
                window.kind,
                window.size_ms,
                window.advance_ms or window.size_ms,
                grace,
                window.retention_ms,
            ), tuple(resolved)
        if self.dialect != KINESIS_ANALYTICS:
            return None, tuple(resolved)
        ticks = [part for part in resolved if isinstance(part, Tick) and is_time(part.of)]
        others = tuple(part for part in resolved if part not in ticks)
        if not ticks:
            raise SqlError(
                "GROUP BY needs a window: FLOOR(ROWTIME TO MINUTE), or STEP(ROWTIME BY INTERVAL '10' SECOND)",
                select.location,
            )
        size = ticks[0].duration_ms
        if any(tick.duration_ms != size for tick in ticks):
            raise SqlError("GROUP BY rounds ROWTIME in one way", ticks[1].location)
        return WindowPlan("TUMBLING", size, size, 0), others

    def _joins(
        self, select: Select, source: Input
    ) -> tuple[tuple[JoinPlan, ...], tuple[Input, ...]]:
        inputs = [source]
        joins: list[JoinPlan] = []
        for join in select.joins:
            if join.relation.match is not None:
                raise SqlError(
                    "name the matches by CREATE STREAM, and join that stream",
                    join.relation.location,
                )
            right = self.find(join.relation)
            if right.alias.lower() in (one.alias.lower() for one in inputs):
                raise SqlError(
                    f"two relations are called {right.alias}: give one an alias",
                    join.relation.location,
                )
            joins.append(join_plan(join, tuple(inputs), right, self.functions, tuple(joins)))
            inputs.append(right)
        return tuple(joins), tuple(inputs)


def _check_match(select: Select) -> None:
    """Refuse what does not go with MATCH_RECOGNIZE, whose matches are a stream of their own."""
    calls = [item.expression for item in select.items if item.expression is not None]
    if (
        select.joins
        or select.group_by
        or select.distinct
        or select.source.over is not None
        or any(has_aggregate(call) for call in calls)
    ):
        raise SqlError(
            "MATCH_RECOGNIZE goes without JOIN, GROUP BY and DISTINCT: name its matches by CREATE STREAM first",
            select.source.location,
        )


def check_kind(plan: QueryPlan, select: Select, is_table: bool | None, dialect: str) -> None:
    """Refuse what KSQL refuses, and what Spark cannot do."""
    if (
        dialect == KSQL
        and is_table is True
        and not plan.is_aggregate
        and not plan.source.relation.is_table
    ):
        raise SqlError("a table's query has GROUP BY, or reads a table", select.location)
    if dialect == KSQL and is_table is False and plan.is_aggregate:
        raise SqlError("GROUP BY makes a table: CREATE TABLE .. AS", select.location)
    if plan.is_of_tables():
        _check_tables(plan, select, is_table, dialect)
        return
    explodes = any(
        kind_of(part) == "table" for one in plan.outputs for part in walk(one.expression)
    )
    if plan.is_aggregate and dialect == KSQL and explodes:
        raise SqlError(
            "a table function goes without GROUP BY, as in ksqlDB: it is of a stream's rows",
            select.location,
        )
    if plan.emit == "FINAL" and plan.window is None:
        raise SqlError("EMIT FINAL goes with a WINDOW", select.location)
    if is_table and plan.is_aggregate and dialect == KSQL:
        names = {
            output.expression.name
            for output in plan.outputs
            if isinstance(output.expression, Column)
        }
        missing = [key.name for key in plan.keys if key.name not in names]
        if missing:
            raise SqlError(f"the key {missing[0]} is not selected", select.location)
    if plan.corrects_sessions() and dialect != KSQL:
        raise SqlError("sessions that are corrected are KSQL's: use EMIT FINAL", select.location)
    if plan.joins and plan.is_aggregate and plan.emit == "CHANGES":
        raise SqlError(
            "Spark does not correct groups of a join: use a WINDOW with EMIT FINAL, or name the join by CREATE STREAM",
            select.location,
        )
    if plan.limit is not None and is_table is not None:
        raise SqlError(
            "LIMIT ends a query whose rows are shown; this one never ends", select.location
        )
    several = any(join.method == "streams" for join in plan.joins[1:])
    of_table = any(join.method == "stream-table" for join in plan.joins)
    if (several or of_table) and plan.is_aggregate:
        raise SqlError(
            "name the join by CREATE STREAM .. AS, and group that stream", select.location
        )


def _check_tables(plan: QueryPlan, select: Select, is_table: bool | None, dialect: str) -> None:
    """Check a query of tables alone, whose result is a table."""
    if dialect == KSQL and is_table is False:
        raise SqlError("a query of tables makes a table: CREATE TABLE .. AS", select.location)
    if plan.window is not None:
        raise SqlError("a WINDOW groups a stream's rows, not a table's", select.location)
    is_limited = plan.limit is not None and is_table is not None
    if plan.partition or plan.distinct or is_limited:
        raise SqlError(
            "PARTITION BY, DISTINCT and LIMIT are for streams; a table has one row of a key",
            select.location,
        )
    if any(kind_of(part) == "table" for out in plan.outputs for part in walk(out.expression)):
        raise SqlError(
            "a table function is for streams; a table has one row of a key", select.location
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
        raise SqlError(f"the key {missing[0]} is not selected{_way_to_key(plan)}", select.location)


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
