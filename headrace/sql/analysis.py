"""Turns statements into plans: looks at every name and type, and refuses what Spark cannot do, with a way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.sql.errors import Place, SqlError
from headrace.sql.expressions import Call, Column, Expression, Operation, Tick, walk
from headrace.sql.functions import find_function
from headrace.sql.parsing import parse
from headrace.sql.plan import (
    KINESIS_ANALYTICS,
    KSQL,
    ROWTIME,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Input,
    JoinPlan,
    Named,
    QueryPlan,
    Relation,
    RelationColumn,
    Script,
    WindowPlan,
)
from headrace.sql.rewriting import rewrite
from headrace.sql.statements import (
    CreateAs,
    CreateSource,
    Drop,
    InsertSelect,
    InsertValues,
    Join,
    Property,
    Query,
    RelationName,
    Select,
    SetProperty,
    Statement,
)
from headrace.sql.types import BIGINT, STRING, TIMESTAMP, common
from headrace.sql.typing import Scope, check_pattern, condition, near, resolve

# KSQL's, where a window or a join says nothing.
DEFAULT_GRACE_MS = 86_400_000
# Kinesis Analytics adds this column to what comes from a stream.
ARRIVAL = "APPROXIMATE_ARRIVAL_TIME"
_STREAM_NAMES, _FORMAT_NAMES = ("stream", "kafka_topic"), ("format", "value_format")
_PROPERTIES = frozenset({
    *_STREAM_NAMES, *_FORMAT_NAMES, "timestamp", "timestamp_format", "value_delimiter", "partitions", "replicas",
    "key_format", "retention_ms",
})  # fmt: skip
_FORMATS = {"JSON": "JSON", "DELIMITED": "CSV", "CSV": "CSV", "RAW": "RAW", "KAFKA": "RAW"}
_TIMES = (BIGINT, STRING, TIMESTAMP)


def read_script(text: str, dialect: str = KSQL) -> Script:
    """Return the plans of a whole text; raises SqlError for the first thing that cannot be done."""
    analysis = Analysis(dialect)
    for statement in parse(text):
        analysis.take(statement)
    return analysis.script()


@dataclass
class Analysis:
    """A script that grows statement by statement. For one thread."""

    dialect: str = KSQL
    relations: dict[str, Relation] = field(default_factory=dict)
    queries: list[QueryPlan] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def script(self) -> Script:
        """Return what has been taken so far."""
        return Script(self.dialect, dict(self.relations), tuple(self.queries), dict(self.settings))

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
                name = f"query_{len(self.queries) + 1}"
                self.queries.append(self._plan(statement.select, name, None))
            case SetProperty(name=name, value=None):
                self.settings.pop(name, None)
            case SetProperty(name=name, value=value):
                self.settings[name] = value or ""
            case Drop():
                self._drop(statement)
            case InsertValues():
                raise SqlError(
                    "INSERT INTO .. VALUES puts one record, which a job does not do: use `headrace put`",
                    statement.place,
                )
            case _:
                word = type(statement).__name__.upper()
                raise SqlError(
                    f"{word} is for the prompt, `headrace sql`, not for a job", statement.place
                )

    # Relations.

    def _declare(self, statement: CreateSource) -> None:
        if self._is_there(statement):
            return
        names = [column.name.lower() for column in statement.columns]
        for column in statement.columns:
            if names.count(column.name.lower()) > 1:
                raise SqlError(f"column {column.name!r} is there twice", column.place)
            if column.key == "HEADERS":
                raise SqlError("a record of Kinesis has no headers", column.place)
            if column.key == "PRIMARY KEY" and not statement.is_table:
                raise SqlError("a stream has a KEY; a PRIMARY KEY is a table's", column.place)
            if column.key == "KEY" and statement.is_table:
                raise SqlError("a table has a PRIMARY KEY", column.place)
        columns = tuple(RelationColumn(c.name, c.type, bool(c.key)) for c in statement.columns)
        if statement.is_table and not any(column.is_key for column in columns):
            raise SqlError(f"the table {statement.name} has no PRIMARY KEY column", statement.place)
        if not columns:
            raise SqlError(
                f"{statement.name} has no columns: headrace does not infer them yet",
                statement.place,
            )
        relation = self._relation(statement.name, columns, statement.properties, statement.place)
        is_internal = self.dialect == KINESIS_ANALYTICS and not relation.stream
        if not relation.stream and not is_internal:
            raise SqlError(
                f"{statement.name} needs WITH (stream = '..'), its Kinesis stream", statement.place
            )
        if relation.format == "RAW" and len(columns) - len(relation.keys()) > 1:
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

    def _relation(
        self,
        name: str,
        columns: tuple[RelationColumn, ...],
        properties: Sequence[Property],
        place: Place,
    ) -> Relation:
        """Return a relation with what its WITH clause says."""
        values = {one.name: one for one in properties}
        for one in properties:
            if one.name not in _PROPERTIES:
                raise SqlError(
                    f"no property {one.name!r}{near(one.name, sorted(_PROPERTIES))}", one.place
                )
        format_ = self._format(values)
        timestamp = self._timestamp(values, columns)
        pattern = _text(values.get("timestamp_format"))
        if pattern:
            check_pattern(pattern, values["timestamp_format"].place)
        return Relation(
            name,
            columns,
            stream=_text(next((values[n] for n in _STREAM_NAMES if n in values), None)),
            format=format_,
            delimiter=_text(values.get("value_delimiter")) or ",",
            timestamp=timestamp,
            timestamp_format=pattern,
            place=place,
        )

    def _format(self, values: dict[str, Property]) -> str:
        one = next((values[name] for name in _FORMAT_NAMES if name in values), None)
        if one is None:
            return "JSON"
        name = _text(one).upper()
        if name not in _FORMATS:
            raise SqlError(f"no format {name}; there are JSON, CSV and RAW", one.place)
        return _FORMATS[name]

    def _timestamp(self, values: dict[str, Property], columns: tuple[RelationColumn, ...]) -> str:
        one = values.get("timestamp")
        if one is None:
            return ""
        column = next((c for c in columns if c.name.lower() == _text(one).lower()), None)
        if column is None:
            raise SqlError(
                f"timestamp: no column {_text(one)!r}{near(_text(one), [c.name for c in columns])}",
                one.place,
            )
        if column.type not in _TIMES:
            raise SqlError(
                f"a timestamp is BIGINT (milliseconds), text or TIMESTAMP, not {column.type}",
                one.place,
            )
        if column.type == STRING and "timestamp_format" not in values:
            raise SqlError("a timestamp that is text needs a timestamp_format", one.place)
        return column.name

    def _drop(self, statement: Drop) -> None:
        relation = self.relations.get(statement.name.lower())
        if relation is None:
            if not statement.if_exists:
                raise SqlError(f"no stream or table {statement.name}", statement.place)
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
        if relation is None:
            names = [known.name for known in self.relations.values()]
            raise SqlError(f"no stream or table {name.name!r}{near(name.name, names)}", name.place)
        return Input(relation, name.alias)

    # Queries.

    def _create_as(self, statement: CreateAs) -> None:
        if self._is_there(statement):
            return
        plan = self._plan(statement.select, statement.name, statement.is_table)
        columns = _columns_of(plan)
        relation = self._relation(statement.name, columns, statement.properties, statement.place)
        relation = replace(
            relation,
            is_table=statement.is_table,
            stream=relation.stream or statement.name.lower(),
            is_windowed=plan.window is not None,
        )
        if relation.format == "RAW":
            raise SqlError("a query writes JSON or CSV", statement.place)
        relation, warnings = _inherit_time(relation, plan)
        self._add(relation)
        self._start(replace(plan, target=relation, warnings=(*plan.warnings, *warnings)))

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
        name = statement.pump or f"insert_{len(self.queries) + 1}"
        plan = self._plan(statement.select, name, False)
        outputs = self._fit(plan.outputs, target, statement)
        self._start(replace(plan, target=target, outputs=outputs))

    def _start(self, plan: QueryPlan) -> None:
        """Add a query; refuse one that reads, by way of others, what it writes: its rows would go round for ever."""
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
        place = statement.select.place
        by_name = not statement.columns and {o.name.lower() for o in outputs} == {
            n.lower() for n in names
        }
        if not by_name and len(names) != len(outputs):
            raise SqlError(
                f"{target.name} gets {len(names)} columns, and the query has {len(outputs)}", place
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
        joins, inputs = self._joins(select, source)
        scope = Scope(inputs, TIMESTAMP if self.dialect == KINESIS_ANALYTICS else BIGINT)
        where = None if select.where is None else condition(select.where, scope, "WHERE")
        _refuse_aggregates(where, "WHERE")
        calls = [item.expression for item in select.items if item.expression is not None]
        is_aggregate = bool(select.group_by) or any(_has_aggregate(call) for call in calls)
        if select.distinct and is_aggregate:
            raise SqlError("SELECT DISTINCT goes without GROUP BY", select.place)
        if is_aggregate:
            plan = self._aggregate(select, name, scope, where)
        else:
            plan = self._project(select, name, scope, where)
        plan = replace(plan, joins=joins, limit=select.limit, place=select.place)
        _check_kind(plan, select, is_table, self.dialect)
        return replace(plan, warnings=_warnings(plan))

    def _project(
        self, select: Select, name: str, scope: Scope, where: Expression | None
    ) -> QueryPlan:
        if select.window is not None:
            raise SqlError("WINDOW goes with GROUP BY", select.window.place)
        if select.having is not None:
            raise SqlError("HAVING goes with GROUP BY", select.having.place)
        partition = None
        if select.partition_by:
            if len(select.partition_by) > 1:
                raise SqlError(
                    "PARTITION BY takes one expression; CONCAT makes one of several",
                    select.partition_by[1].place,
                )
            partition, _ = resolve(select.partition_by[0], scope)
        outputs = _outputs(select, scope)
        tables = [
            part for output in outputs for part in walk(output.expression) if _kind(part) == "table"
        ]
        if len(tables) > 1:
            raise SqlError("one table function a query", tables[1].place)
        emit = select.emit or "CHANGES"
        if emit == "FINAL":
            raise SqlError("EMIT FINAL goes with a WINDOW", select.place)
        return QueryPlan(
            name,
            scope.inputs[0],
            outputs,
            None,
            where=where,
            partition=partition,
            emit="CHANGES",
            distinct=select.distinct,
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
        keys = _keys(group_by, select, scope)
        tick_ms = window.size_ms if window is not None and self.dialect == KINESIS_ANALYTICS else 0
        groups = _Groups(keys, tick_ms, select, scope)
        outputs = tuple(
            replace(output, expression=groups.split(output.expression, output.name))
            for output in _outputs(select, scope)
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
        """Return the window and the other expressions of GROUP BY; in Kinesis Analytics a rounded ROWTIME is a window."""
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
            return WindowPlan(
                window.kind, window.size_ms, window.advance_ms or window.size_ms, grace
            ), tuple(resolved)
        if self.dialect != KINESIS_ANALYTICS:
            return None, tuple(resolved)
        ticks = [part for part in resolved if isinstance(part, Tick) and _is_time(part.of)]
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
            right = self._find(join.relation)
            if right.alias.lower() in (one.alias.lower() for one in inputs):
                raise SqlError(
                    f"two relations are called {right.alias}: give one an alias",
                    join.relation.place,
                )
            joins.append(_join(join, tuple(inputs), right, bool(joins)))
            inputs.append(right)
        return tuple(joins), tuple(inputs)


def _stream_of(relation: Relation | None) -> str:
    """Return where a relation's rows are: its stream, or its own name; the rows of a query that are shown are nowhere."""
    return "" if relation is None else relation.stream or f"in-application {relation.name.lower()}"


def _text(one: Property | None) -> str:
    return "" if one is None else str(one.value.value)


def _kind(part: Expression) -> str:
    function = find_function(part.name) if isinstance(part, Call) else None
    return function.kind if function else ""


def _has_aggregate(expression: Expression) -> bool:
    return any(_kind(part) == "aggregate" for part in walk(expression))


def _refuse_aggregates(expression: Expression | None, what: str) -> None:
    for part in walk(expression) if expression is not None else ():
        if _kind(part) in ("aggregate", "table"):
            raise SqlError(
                f"{what} has no {_kind(part)} function; HAVING looks at groups", part.place
            )


def _is_time(expression: Expression) -> bool:
    return isinstance(expression, Column) and expression.name.upper() in (ROWTIME, ARRIVAL)


def _outputs(select: Select, scope: Scope) -> tuple[Named, ...]:
    """Return what SELECT names, resolved; `*` is every column."""
    outputs: list[Named] = []
    unnamed = 0
    for item in select.items:
        if item.expression is None:
            outputs.extend(_every_column(item.relation, scope, item.place))
            continue
        resolved, type_ = resolve(item.expression, scope)
        if type_.name in ("NULL", "INTERVAL"):
            raise SqlError(f"a column of {type_}: CAST gives it a type", item.place)
        name = item.alias or (item.expression.name if isinstance(item.expression, Column) else "")
        if not name:
            name, unnamed = f"KSQL_COL_{unnamed}", unnamed + 1
        outputs.append(Named(name, resolved, type_))
    names = [output.name.lower() for output in outputs]
    for output in outputs:
        if names.count(output.name.lower()) > 1:
            raise SqlError(
                f"two columns are called {output.name}: give one an alias", output.expression.place
            )
    return tuple(outputs)


def _every_column(relation: str | None, scope: Scope, place: Place) -> list[Named]:
    inputs = [
        one for one in scope.inputs if relation is None or one.alias.lower() == relation.lower()
    ]
    if not inputs:
        raise SqlError(f"no relation {relation!r} in this query", place)
    several = len(scope.inputs) > 1
    return [
        Named(
            f"{one.alias}_{column.name}" if several else column.name,
            Column(column.name, one.alias, place=place),
            column.type,
        )
        for one in inputs
        for column in one.relation.columns
    ]


def _keys(group_by: tuple[Expression, ...], select: Select, scope: Scope) -> tuple[Named, ...]:
    """Return GROUP BY's expressions under the names that SELECT gives them."""
    aliases: dict[int, str] = {}
    outputs = [
        (item.alias, resolve(item.expression, scope)[0])
        for item in select.items
        if item.expression is not None
    ]
    keys: list[Named] = []
    for index, expression in enumerate(group_by):
        _refuse_aggregates(expression, "GROUP BY")
        _, type_ = resolve(expression, scope)
        alias = next((a for a, other in outputs if other == expression and a), None)
        name = alias or (expression.name if isinstance(expression, Column) else f"key_{index + 1}")
        aliases[index] = name
        keys.append(Named(name, expression, type_))
    return tuple(keys)


class _Groups:
    """Takes a group's expressions apart: into keys, aggregates, and what is computed from both."""

    def __init__(self, keys: tuple[Named, ...], tick_ms: int, select: Select, scope: Scope) -> None:
        self.aggregates: list[Aggregate] = []
        self._keys = keys
        self._tick_ms = tick_ms
        self._scope = scope
        self._place = select.place

    def split(self, expression: Expression, name: str) -> Expression:
        """Return an expression over the names of keys and aggregates."""
        return rewrite(expression, lambda part: self._replace(part, expression, name))

    def _replace(self, part: Expression, whole: Expression, name: str) -> Expression | None:
        key = next((key for key in self._keys if key.expression == part), None)
        if key is not None:
            return Column(key.name, place=part.place)
        if isinstance(part, Tick) and part.duration_ms == self._tick_ms and _is_time(part.of):
            return Column(WINDOW_START, place=part.place)
        if isinstance(part, Column) and part.relation is not None:
            if part.name == ROWTIME and self._tick_ms:
                return Column(WINDOW_START, place=part.place)
            raise SqlError(
                f"{part.name} is neither in GROUP BY nor in an aggregate function", part.place
            )
        if isinstance(part, Call) and _kind(part) == "aggregate":
            for argument in part.arguments:
                _refuse_aggregates(argument, "an aggregate function")
            return Column(self._add(part, name if part is whole else ""), place=part.place)
        return None

    def _add(self, call: Call, name: str) -> str:
        same = next((one for one in self.aggregates if one.call == call), None)
        if same is not None:
            return same.name
        taken = {key.name.lower() for key in self._keys} | {
            one.name.lower() for one in self.aggregates
        }
        if not name or name.lower() in taken:
            name = f"aggregate_{len(self.aggregates) + 1}"
        _, type_ = resolve(call, self._scope)
        self.aggregates.append(Aggregate(name, call, type_))
        return name


def _join(join: Join, left: tuple[Input, ...], right: Input, is_second: bool) -> JoinPlan:
    left_is_table, right_is_table = left[0].relation.is_table, right.relation.is_table
    if is_second:
        raise SqlError(
            "one join a query: give the first join's result a name by CREATE STREAM .. AS",
            join.place,
        )
    method = (
        "tables"
        if left_is_table and right_is_table
        else "stream-table"
        if right_is_table
        else "streams"
    )
    if left_is_table and not right_is_table:
        raise SqlError("a table is not joined with a stream: put the stream first", join.place)
    if method == "streams" and join.before_ms is None:
        raise SqlError(
            "a join of two streams needs WITHIN, the most time between two rows", join.place
        )
    if method != "streams" and join.before_ms is not None:
        raise SqlError(
            "WITHIN is for two streams; a table has its latest row of each key", join.place
        )
    if method == "stream-table" and join.kind not in ("INNER", "LEFT"):
        raise SqlError(
            f"a stream and a table have INNER and LEFT joins, not {join.kind}", join.place
        )
    left_key, right_key = _equality(join, left, right)
    if method != "streams":
        keys = right.relation.keys()
        if not (
            len(keys) == 1 and isinstance(right_key, Column) and right_key.name == keys[0].name
        ):
            raise SqlError(
                f"the join compares with the key of {right.relation.name}, {', '.join(k.name for k in keys)}",
                join.on.place,
            )
    if method == "tables":
        raise SqlError(
            "joins of two tables are not built yet: read one of them as a stream", join.place
        )
    grace = DEFAULT_GRACE_MS if join.grace_ms is None else join.grace_ms
    return JoinPlan(
        join.kind,
        right,
        left_key,
        right_key,
        method,
        join.before_ms or 0,
        join.after_ms or 0,
        grace,
        join.place,
    )


def _equality(join: Join, left: tuple[Input, ...], right: Input) -> tuple[Expression, Expression]:
    """Return both sides of ON, the left relation's first."""
    on = join.on
    if not (isinstance(on, Operation) and on.operator == "="):
        raise SqlError("ON compares one expression of each relation: a.x = b.y", on.place)
    sides = []
    for side in on.operands:
        resolved, type_ = resolve(side, Scope((*left, right)))
        relations = {part.relation for part in walk(resolved) if isinstance(part, Column)}
        sides.append((resolved, type_, relations))
    first, second = sides
    if first[2] == {right.alias}:
        first, second = second, first
    if second[2] != {right.alias} or right.alias in first[2] or not first[2]:
        raise SqlError("ON compares one expression of each relation: a.x = b.y", on.place)
    if common(first[1], second[1]) is None:
        raise SqlError(f"{first[1]} is not compared with {second[1]}", on.place)
    return first[0], second[0]


def _check_kind(plan: QueryPlan, select: Select, is_table: bool | None, dialect: str) -> None:
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
    if plan.is_aggregate and plan.source.relation.is_table:
        raise SqlError(
            "groups of a table's rows are not built yet: read its stream with CREATE STREAM",
            select.place,
        )
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
    if plan.joins and plan.joins[0].method == "stream-table" and plan.is_aggregate:
        raise SqlError("name the join by CREATE STREAM .. AS, and group that stream", select.place)


def _warnings(plan: QueryPlan) -> tuple[str, ...]:
    warnings: list[str] = []
    if plan.is_aggregate and plan.window is None:
        warnings.append("the state holds a row for every key, for ever: a WINDOW bounds it")
    if plan.distinct:
        warnings.append("the state holds every distinct row, for ever")
    if plan.window is not None and plan.window.grace_ms == DEFAULT_GRACE_MS:
        warnings.append("windows stay open for KSQL's 24 hours: GRACE PERIOD says less")
    for join in plan.joins:
        if join.method == "streams" and join.grace_ms == DEFAULT_GRACE_MS:
            warnings.append("rows wait for KSQL's 24 hours: WITHIN .. GRACE PERIOD says less")
    return tuple(warnings)


def _columns_of(plan: QueryPlan) -> tuple[RelationColumn, ...]:
    """Return the columns of a query's rows; a window's bounds belong to the key."""
    keys = {key.name for key in plan.keys}
    source_keys = {column.name for column in plan.source.relation.keys()}

    def is_key(output: Named) -> bool:
        if not isinstance(output.expression, Column):
            return output.expression == plan.partition
        if plan.is_aggregate:
            return output.expression.name in keys
        if plan.partition is not None:
            return output.expression == plan.partition
        return (
            output.expression.name in source_keys
            and output.expression.relation == plan.source.alias
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


def _inherit_time(relation: Relation, plan: QueryPlan) -> tuple[Relation, tuple[str, ...]]:
    """Return a query's relation with its column of event times, as its source has it, and a warning without one."""
    if relation.timestamp:
        return relation, ()
    if plan.window is not None:
        start = next(
            (column.name for column in relation.columns if column.name.upper() == WINDOW_START), ""
        )
        return replace(relation, timestamp=start), ()
    source = plan.source.relation
    for output in plan.outputs:
        expression = output.expression
        if isinstance(expression, Column) and expression.relation == plan.source.alias:
            if expression.name == ROWTIME and output.type == BIGINT:
                return replace(relation, timestamp=output.name), ()
            if source.timestamp and expression.name == source.timestamp:
                pattern = source.timestamp_format
                return replace(relation, timestamp=output.name, timestamp_format=pattern), ()
    return relation, (
        f"{relation.name} has no column of its event's time, so that queries on it go by the time of arrival: "
        "select ROWTIME AS event_ms",
    )
