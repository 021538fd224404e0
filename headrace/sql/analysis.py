"""Turns statements into plans: looks at every name and type, and refuses what Spark cannot do, with a way round."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from headrace.sql.errors import Place, SqlError, near
from headrace.sql.expressions import Column, Expression, Tick
from headrace.sql.function import Function
from headrace.sql.functions import find_function
from headrace.sql.inference import Nothing, Outside
from headrace.sql.own_functions import own_function
from headrace.sql.parsing import Words, parse
from headrace.sql.plan import (
    KINESIS_ANALYTICS,
    KSQL,
    WINDOW_END,
    WINDOW_START,
    Input,
    JoinPlan,
    Named,
    QueryPlan,
    Relation,
    RelationColumn,
    Script,
    Sliding,
    WindowPlan,
)
from headrace.sql.query_checks import check_kind, columns_of, inherit_time, warnings_of
from headrace.sql.query_joins import DEFAULT_GRACE_MS, join_plan
from headrace.sql.query_matches import match_plan, stagger_plan
from headrace.sql.query_outputs import (
    Groups,
    has_aggregate,
    is_time,
    keys_of,
    outputs_of,
    refuse_aggregates,
    slide,
    with_keys_alone,
)
from headrace.sql.relations import declare_relation, origin_of
from headrace.sql.statements import (
    ChangeType,
    CreateAs,
    CreateFunction,
    CreateSource,
    Drop,
    DropFunction,
    InsertSelect,
    InsertValues,
    Query,
    RelationName,
    Select,
    SetProperty,
    Statement,
)
from headrace.sql.types import BIGINT, TIMESTAMP, common
from headrace.sql.typing import Scope, condition, resolve

_QUERY_NAME = re.compile(r"[\w-][\w.-]{0,127}", re.ASCII)
_SETTINGS = {("auto.offset.reset", "earliest"), ("auto.offset.reset", None)}


def read_script(text: str, dialect: str = KSQL) -> Script:
    """Return the plans of a whole text; raises SqlError for the first thing that cannot be done."""
    analysis = Analysis(dialect)
    for statement in parse(text):
        analysis.take(statement)
    return analysis.script()


@dataclass
class Analysis:
    """A script that grows statement by statement. For one thread.

    `outside` answers for what a text does not say itself; `words` are for the parser; `notes` say what `outside` gave.
    """

    dialect: str = KSQL
    outside: Outside = field(default_factory=Nothing)
    words: Words = field(default_factory=Words)
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    notes: list[str] = field(default_factory=list[str])
    relations: dict[str, Relation] = field(default_factory=dict[str, Relation])
    queries: list[QueryPlan] = field(default_factory=list[QueryPlan])

    def script(self) -> Script:
        """Return what has been taken so far."""
        return Script(self.dialect, dict(self.relations), tuple(self.queries))

    def take(self, statement: Statement) -> None:
        """Add a statement; raises SqlError, and is then as before."""
        match statement:
            case CreateSource():
                self._declare(statement)
            case CreateAs():
                self._create_as(statement)
            case InsertSelect():
                self._insert(statement)
            case Query():
                self.queries.append(self.plan(statement))
            case SetProperty():
                _check_setting(statement)
            case ChangeType():
                pass
            case CreateFunction():
                self._create_function(statement)
            case DropFunction():
                self._drop_function(statement)
            case Drop():
                self._drop(statement)
            case InsertValues():
                raise SqlError(
                    "INSERT INTO .. VALUES puts one record, which no job does: the prompt does, and `headrace put`",
                    statement.place,
                )
            case _:
                word = type(statement).__name__.upper()
                raise SqlError(
                    f"{word} is for the prompt, `headrace sql`, not for a job", statement.place
                )

    def plan(self, statement: Query) -> QueryPlan:
        """Return the plan of a query whose rows are shown, without taking it; raises SqlError."""
        return self._plan(statement.select, f"query_{len(self.queries) + 1}", None)

    def terminate(self, name: str, place: Place) -> None:
        """Take a query away, or ALL; raises SqlError if there is none of this name."""
        left = [q for q in self.queries if q.name.lower() != name.lower()]
        if name.upper() == "ALL":
            left = []
        elif len(left) == len(self.queries):
            raise SqlError(f"no query {name!r}{near(name, [q.name for q in self.queries])}", place)
        self.queries = left

    # Relations.

    def _declare(self, statement: CreateSource) -> None:
        if self._is_there(statement):
            return
        if statement.name.lower() == "error_stream":
            raise SqlError("error_stream is not an application's own, as on AWS", statement.place)
        names = Counter(column.name.lower() for column in statement.columns)
        for column in statement.columns:
            if names[column.name.lower()] > 1:
                raise SqlError(f"column {column.name!r} is there twice", column.place)
            if column.key == "HEADERS":
                raise SqlError("a record of Kinesis has no headers", column.place)
            if column.key == "PRIMARY KEY" and not statement.is_table:
                raise SqlError("a stream has a KEY; a PRIMARY KEY is a table's", column.place)
            if column.key == "KEY" and statement.is_table:
                raise SqlError("a table has a PRIMARY KEY", column.place)
        columns = tuple(RelationColumn(c.name, c.type, bool(c.key)) for c in statement.columns)
        origin = origin_of(statement, self.outside)
        columns += tuple(one for one in origin.columns if one.name.lower() not in names)
        if not columns:
            raise SqlError(
                f"{statement.name} has no columns: name them, or FROM STREAM '..' INFER reads records, "
                "or WITH (schema_name = '..') or (glue_table = '..')",
                statement.place,
            )
        relation = declare_relation(
            statement.name, columns, statement.properties, statement.place, origin
        )
        if origin.about:
            words = ", ".join(f"{one.name} {one.type}" for one in relation.columns)
            self.notes.append(f"{statement.name} has the columns {words}, {origin.about}")
        if relation.is_object and not statement.is_table:
            raise SqlError("an object in S3 is a reference table: CREATE TABLE", statement.place)
        if statement.is_table and not relation.key_columns() and not relation.is_object:
            raise SqlError(f"the table {statement.name} has no PRIMARY KEY column", statement.place)
        is_internal = self.dialect == KINESIS_ANALYTICS and not relation.stream
        if not relation.stream and not is_internal:
            raise SqlError(
                f"{statement.name} needs WITH (stream = '..'), its Kinesis stream", statement.place
            )
        if relation.format == "RAW" and len(columns) - len(relation.key_columns()) > 1:
            raise SqlError("RAW is a record's whole data, one column", statement.place)
        self._add(replace(relation, is_table=statement.is_table))

    def _is_there(self, statement: CreateSource | CreateAs) -> bool:
        """Return whether there is a relation that IF NOT EXISTS keeps; refuse a name that is taken."""
        if statement.name.lower() not in self.relations or statement.replaces:
            return False
        if statement.if_not_exists:
            return True
        raise SqlError(
            f"{statement.name} is there already; CREATE OR REPLACE makes it anew", statement.place
        )

    def _add(self, relation: Relation) -> None:
        self.relations[relation.name.lower()] = relation

    def _drop(self, statement: Drop) -> None:
        relation = self.relations.get(statement.name.lower())
        if relation is None:
            if not statement.if_exists:
                names = [known.name for known in self.relations.values()]
                raise SqlError(
                    f"no stream or table {statement.name!r}{near(statement.name, names)}",
                    statement.place,
                )
            return
        for query in self.queries:
            if relation in [source.relation for source in query.inputs()]:
                raise SqlError(f"{query.name} reads {relation.name}", statement.place)
        self.queries = [query for query in self.queries if query.target != relation]
        del self.relations[statement.name.lower()]

    def _find(self, name: RelationName) -> Input:
        lower = name.name.lower()
        relation = self.relations.get(lower)
        if relation is None and self.dialect == KINESIS_ANALYTICS and lower.endswith("_001"):
            relation = self.relations.get(lower.removesuffix("_001"))
        if lower == "error_stream":
            raise SqlError(
                "error_stream is not read by SQL: a job counts the records that it cannot read, and `headrace sql run "
                "--errors STREAM` puts them into a stream",
                name.place,
            )
        if relation is None:
            names = [known.name for known in self.relations.values()]
            raise SqlError(f"no stream or table {name.name!r}{near(name.name, names)}", name.place)
        return Input(relation, name.alias)

    # Functions.

    def _create_function(self, statement: CreateFunction) -> None:
        name = statement.name.upper()
        if find_function(name) is not None:
            raise SqlError(f"{statement.name} is a function of SQL's own", statement.place)
        if name in self.functions and not statement.replaces:
            raise SqlError(
                f"the function {statement.name} is there already; CREATE OR REPLACE makes it anew",
                statement.place,
            )
        self.functions[name] = own_function(statement, self.outside)

    def _drop_function(self, statement: DropFunction) -> None:
        if self.functions.pop(statement.name.upper(), None) is None and not statement.if_exists:
            names = sorted(self.functions)
            raise SqlError(
                f"no function {statement.name}{near(statement.name, names)}", statement.place
            )

    # Queries.

    def _create_as(self, statement: CreateAs) -> None:
        if self._is_there(statement):
            return
        plan = self._plan(statement.select, statement.name, statement.is_table)
        columns = columns_of(plan)
        for one in statement.properties:
            if one.name in ("glue_table", "schema_name", "registry_name", "schema_version"):
                raise SqlError("a query's columns are those that it selects", one.place)
        relation = declare_relation(statement.name, columns, statement.properties, statement.place)
        relation = replace(
            relation,
            is_table=statement.is_table,
            stream=relation.stream or statement.name.lower(),
        )
        if relation.format == "RAW":
            raise SqlError("a query writes JSON, CSV or AVRO", statement.place)
        relation, warnings = inherit_time(relation, plan)
        self._add(relation)
        plan = replace(plan, target=relation, warnings=(*plan.warnings, *warnings))
        self._start(plan, replaces=statement.replaces)

    def _insert(self, statement: InsertSelect) -> None:
        target = self.relations.get(statement.target.lower())
        if target is None:
            names = [known.name for known in self.relations.values()]
            raise SqlError(
                f"no stream {statement.target!r}{near(statement.target, names)}", statement.place
            )
        if target.is_table:
            raise SqlError(
                "INSERT INTO writes into a stream; a table is its query's", statement.place
            )
        name = statement.name or f"insert_{len(self.queries) + 1}"
        plan = self._plan(statement.select, name, False)
        outputs = self._fit(plan.outputs, target, statement)
        warnings = plan.warnings
        if statement.name is None:
            warning = (
                f"the query is called {name} by its place in the text, and so is its progress: a query before it "
                "moves it; WITH (query_id = '..') gives it a name"
            )
            warnings = (*warnings, warning)
        plan = replace(plan, target=target, outputs=outputs, warnings=warnings)
        self._start(plan, replaces=statement.replaces)

    def _start(self, plan: QueryPlan, *, replaces: bool) -> None:
        """Add a query; refuse one that reads, by way of others, what it writes: its rows would go round for ever."""
        if not _QUERY_NAME.fullmatch(plan.name):
            raise SqlError(
                f"{plan.name!r} names a folder of progress: letters, digits, '_', '-' and '.'",
                plan.place,
            )
        if replaces:
            self.queries = [q for q in self.queries if q.name.lower() != plan.name.lower()]
        if any(query.name.lower() == plan.name.lower() for query in self.queries):
            raise SqlError(f"two queries are called {plan.name}", plan.place)
        reached, queries = {_stream_of(plan.target)}, [*self.queries, plan]
        while True:
            further = {
                _stream_of(query.target)
                for query in queries
                if reached & {_stream_of(source.relation) for source in query.inputs()}
            }
            if further <= reached:
                break
            reached |= further
        if reached & {_stream_of(source.relation) for source in plan.inputs()}:
            raise SqlError(f"{plan.name} would read what it writes", plan.place)
        self.queries.append(plan)

    def _fit(
        self, outputs: tuple[Named, ...], target: Relation, statement: InsertSelect
    ) -> tuple[Named, ...]:
        """Return a query's outputs under the names of the stream that they go to: by name, or in order."""
        names = statement.columns or tuple(column.name for column in target.columns)
        location = statement.select.place
        by_name = not statement.columns and {o.name.lower() for o in outputs} == {
            n.lower() for n in names
        }
        if not by_name and len(names) != len(outputs):
            raise SqlError(
                f"{target.name} gets {len(names)} columns, and the query has {len(outputs)}",
                location,
            )
        fitted: list[Named] = []
        for index, name in enumerate(names):
            column = target.column(name)
            if column is None:
                raise SqlError(
                    f"no column {name!r} in {target.name}{near(name, [c.name for c in target.columns])}",
                    statement.place,
                )
            output = (
                next(o for o in outputs if o.name.lower() == name.lower())
                if by_name
                else outputs[index]
            )
            if common(column.type, output.type) is None:
                raise SqlError(
                    f"{target.name}.{column.name} is {column.type}, and the query gives {output.type}",
                    output.expression.place,
                )
            fitted.append(Named(column.name, output.expression, column.type))
        return tuple(fitted)

    def _plan(self, select: Select, name: str, is_table: bool | None) -> QueryPlan:
        """Return a query's plan; `is_table` is None for a query whose rows are shown."""
        source = self._find(select.source)
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
        outputs, sliding = slide(outputs_of(select, scope))
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
            right = self._find(join.relation)
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


def _check_setting(statement: SetProperty) -> None:
    """Refuse a property that would have no effect: a job reads its streams from their oldest records on."""
    if (statement.name.lower(), statement.value) not in _SETTINGS:
        raise SqlError(
            f"the property {statement.name!r} has no effect here; headrace takes "
            "'auto.offset.reset' = 'earliest', which is what a job does",
            statement.place,
        )


def _stream_of(relation: Relation | None) -> str:
    """Return where a relation's rows are: its stream, or its own name; empty for a query whose rows are shown."""
    return "" if relation is None else relation.stream or f"in-application {relation.name.lower()}"
