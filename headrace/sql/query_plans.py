"""Makes a SELECT's plan: its inputs, joins and windows, and what it computes of rows or of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from headrace.sql.errors import SqlError
from headrace.sql.expressions import Column, Expression, Tick
from headrace.sql.function import Function
from headrace.sql.plan import (
    KINESIS_ANALYTICS,
    KSQL,
    WINDOW_END,
    WINDOW_START,
    Input,
    JoinPlan,
    Named,
    QueryPlan,
    Sliding,
    WindowPlan,
)
from headrace.sql.query_checks import check_kind, warnings_of
from headrace.sql.query_joins import DEFAULT_GRACE_MS, join_plan
from headrace.sql.query_matches import match_plan, stagger_plan
from headrace.sql.query_outputs import (
    Groups,
    has_aggregate,
    is_time,
    keys_of,
    outputs_of,
    refuse_aggregates,
    refuse_maps,
    slide,
    with_keys_alone,
)
from headrace.sql.scope import Scope
from headrace.sql.statements import RelationName, Select
from headrace.sql.types import BIGINT, BOOLEAN, TIMESTAMP
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
                select.source.place,
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
            raise SqlError("SELECT DISTINCT goes without GROUP BY", select.place)
        if is_aggregate:
            plan = self._aggregate(select, name, scope, where)
        else:
            plan = self._project(select, name, scope, where)
        plan = replace(
            plan, source=source, match=match, joins=joins, limit=select.limit, place=select.place
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
                "WINDOWED BY is Kinesis Analytics'; KSQL has WINDOW SESSION", select.stagger.place
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
                select.stagger.place,
            )
        scope = Scope((source,), TIMESTAMP, functions=self.functions)
        match = stagger_plan(select, scope, select.source.alias)
        alias = match.relation.alias
        outputs = tuple(
            Named(one.name, Column(one.name, alias), one.type)
            for one in match.relation.relation.columns
        )
        plan = QueryPlan(
            name, source, outputs, None, match=match, limit=select.limit, place=select.place
        )
        check_kind(plan, select, is_table, self.dialect)
        return replace(plan, warnings=warnings_of(plan))

    def _project(
        self, select: Select, name: str, scope: Scope, where: Expression | None
    ) -> QueryPlan:
        if select.window is not None:
            raise SqlError("WINDOW goes with GROUP BY", select.window.place)
        if select.having is not None:
            raise SqlError("HAVING goes with GROUP BY", select.having.place)
        for part in select.partition_by:
            refuse_aggregates(part, "PARTITION BY")
        partition = tuple(resolve(part, scope)[0] for part in select.partition_by)
        outputs = outputs_of(select, scope)
        if select.qualify is not None:
            outputs += (Named("", condition(select.qualify, scope, "WHERE"), BOOLEAN),)
        for output in outputs if select.distinct else ():
            refuse_maps(output.type, "DISTINCT", output.expression.place)
        outputs, sliding = slide(outputs)
        having = None
        if select.qualify is not None:
            *named, last = outputs
            outputs, having = tuple(named), last.expression
        self._check_sliding(sliding, select)
        if select.emit == "FINAL":
            raise SqlError("EMIT FINAL goes with a WINDOW", select.place)
        return QueryPlan(
            name,
            scope.inputs[0],
            outputs,
            None,
            where=where,
            sliding=sliding,
            having=having,
            partition=partition,
            emit="CHANGES",
            distinct=select.distinct,
        )

    def _check_sliding(self, sliding: tuple[Sliding, ...], select: Select) -> None:
        if not sliding:
            return
        location = sliding[0].over.place
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
                select.place,
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
                    window.place,
                )
            grace = DEFAULT_GRACE_MS if window.grace_ms is None else window.grace_ms
            if window.retention_ms is not None and window.retention_ms < window.size_ms + (
                window.grace_ms or 0
            ):
                raise SqlError(
                    "RETENTION is at least a window's size and its GRACE PERIOD", window.place
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
                select.place,
            )
        size = ticks[0].duration_ms
        if any(tick.duration_ms != size for tick in ticks):
            raise SqlError("GROUP BY rounds ROWTIME in one way", ticks[1].place)
        return WindowPlan("TUMBLING", size, size, 0), others

    def _joins(
        self, select: Select, source: Input
    ) -> tuple[tuple[JoinPlan, ...], tuple[Input, ...]]:
        inputs = [source]
        joins: list[JoinPlan] = []
        for join in select.joins:
            if join.relation.match is not None:
                raise SqlError(
                    "name the matches by CREATE STREAM, and join that stream", join.relation.place
                )
            right = self.find(join.relation)
            if right.alias.lower() in (one.alias.lower() for one in inputs):
                raise SqlError(
                    f"two relations are called {right.alias}: give one an alias",
                    join.relation.place,
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
            select.source.place,
        )
