"""What a query selects and groups by (outputs, keys, aggregates, resolved), and the joins of its inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from headrace.sql.functions import find_function
from headrace.sql.plan import (
    ROWTIME,
    WINDOW_START,
    Aggregate,
    Input,
    JoinPlan,
    Named,
    Relation,
    Scope,
    Sliding,
)
from headrace.sql.rewriting import rewrite
from headrace.sql.statements import (
    Call,
    Column,
    Expression,
    Field,
    Join,
    Operation,
    Over,
    Select,
    Tick,
    walk,
)
from headrace.sql.types import Function, Location, SqlError, SqlType, common
from headrace.sql.typing import resolve


def kind_of(part: Expression) -> str:
    """Return a call's kind: scalar, aggregate or table; empty for what is no call."""
    function = find_function(part.name) if isinstance(part, Call) else None
    return function.kind if function else ""


def has_aggregate(expression: Expression) -> bool:
    """Return whether an aggregate is called anywhere in it."""
    return any(kind_of(part) == "aggregate" for part in walk(expression))


def refuse_aggregates(expression: Expression | None, what: str) -> None:
    """Raise SqlError where an aggregate or table function is called."""
    for part in walk(expression) if expression is not None else ():
        if isinstance(part, Over):
            raise SqlError(f"{what} has no sliding window: name the query's result", part.location)
        if kind_of(part) in ("aggregate", "table"):
            raise SqlError(
                f"{what} has no {kind_of(part)} function; HAVING looks at groups", part.location
            )


def is_time(expression: Expression) -> bool:
    """Return whether it is the time of a row."""
    return isinstance(expression, Column) and expression.name.upper() == ROWTIME


def outputs_of(select: Select, scope: Scope) -> tuple[Named, ...]:
    """Return what SELECT names, resolved; `*` is every column."""
    outputs: list[Named] = []
    unnamed = 0
    for item in select.items:
        if item.expression is None:
            outputs.extend(_every_column(item.relation, scope, item.location))
            continue
        resolved, type_ = resolve(item.expression, scope)
        if item.has_all_fields:
            outputs.extend(_every_field(resolved, type_))
            continue
        if type_.name in ("NULL", "INTERVAL"):
            raise SqlError(f"a column of {type_}: CAST gives it a type", item.location)
        # As in KSQL, a STRUCT's field is called by its own name.
        written = item.expression
        name = item.alias or (written.name if isinstance(written, Column | Field) else "")
        if not name:
            name, unnamed = f"KSQL_COL_{unnamed}", unnamed + 1
        outputs.append(Named(name, resolved, type_))
    outputs = _with_relations(outputs)
    names = Counter(output.name.lower() for output in outputs)
    for output in outputs:
        if names[output.name.lower()] > 1:
            raise SqlError(
                f"two columns are called {output.name}: give one an alias",
                output.expression.location,
            )
    return tuple(outputs)


def _with_relations(outputs: list[Named]) -> list[Named]:
    """Return outputs of which columns of one name, of two relations, have their relations' too: a_id and b_id."""
    relations: dict[str, set[str]] = {}
    for output in outputs:
        column = output.expression
        if isinstance(column, Column) and column.relation and column.name == output.name:
            relations.setdefault(output.name.lower(), set()).add(column.relation)

    def rename(output: Named) -> Named:
        column = output.expression
        if not isinstance(column, Column) or column.name != output.name:
            return output
        if len(relations.get(output.name.lower(), ())) < 2:
            return output
        return replace(output, name=f"{column.relation}_{output.name}")

    return [rename(output) for output in outputs]


def _every_field(of: Expression, type_: SqlType) -> list[Named]:
    """Return the outputs of `of->*`: a STRUCT's fields by their names."""
    if type_.name != "STRUCT":
        raise SqlError(f"->* reads a STRUCT's fields, and this is {type_}", of.location)
    return [
        Named(name, Field(of, name, location=of.location), field_type)
        for name, field_type in zip(type_.fields, type_.of, strict=True)
    ]


def _every_column(relation: str | None, scope: Scope, location: Location) -> list[Named]:
    inputs = [
        one for one in scope.inputs if relation is None or one.alias.lower() == relation.lower()
    ]
    if not inputs:
        raise SqlError(f"no relation {relation!r} in this query", location)
    several = len(scope.inputs) > 1
    return [
        Named(
            f"{one.alias}_{column.name}" if several else column.name,
            Column(column.name, one.alias, location=location),
            column.type,
        )
        for one in inputs
        for column in one.relation.columns
    ]


def slide(outputs: tuple[Named, ...]) -> tuple[tuple[Named, ...], tuple[Sliding, ...]]:
    """Return outputs that read their aggregates over sliding windows by name, and these."""
    sliding: dict[Over, Sliding] = {}

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Over):
            return None
        sliding.setdefault(part, Sliding(f"_over_{len(sliding) + 1}", part))
        return Column(sliding[part].name, location=part.location)

    rewritten = tuple(replace(one, expression=rewrite(one.expression, change)) for one in outputs)
    return rewritten, tuple(sliding.values())


def keys_of(group_by: tuple[Expression, ...], select: Select, scope: Scope) -> tuple[Named, ...]:
    """Return GROUP BY's expressions under the names that SELECT gives them."""
    aliases = {
        resolve(item.expression, scope)[0]: item.alias
        for item in reversed(select.items)
        if item.expression is not None and item.alias
    }
    keys: list[Named] = []
    for index, expression in enumerate(group_by):
        refuse_aggregates(expression, "GROUP BY")
        _, type_ = resolve(expression, scope)
        refuse_maps(type_, "GROUP BY", expression.location)
        name = aliases.get(expression) or (
            expression.name if isinstance(expression, Column) else f"key_{index + 1}"
        )
        keys.append(Named(name, expression, type_))
    return tuple(keys)


def refuse_maps(type_: SqlType, what: str, location: Location) -> None:
    """Refuse a type with a MAP in it where values are compared: Spark before 4.0 compares none."""
    parts = [type_]
    for part in parts:
        parts += part.of
    if any(part.name == "MAP" for part in parts):
        raise SqlError(
            f"{what} compares values, and a MAP is not compared: take an item of it, or its ENTRIES",
            location,
        )


def with_keys_alone(where: Expression | None, keys: tuple[Named, ...]) -> Expression | None:
    """Return the condition with that of KSQL, whose groups have no row with a key that is NULL."""
    conditions = [] if where is None else [where]
    for key in keys:
        is_null = Operation("IS NULL", (key.expression,), location=key.expression.location)
        conditions.append(Operation("NOT", (is_null,), location=key.expression.location))
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return Operation("AND", tuple(conditions), location=conditions[0].location)


class Groups:
    """Takes a group's expressions apart: into keys, aggregates, and what is computed from both."""

    def __init__(self, keys: tuple[Named, ...], tick_ms: int, select: Select, scope: Scope) -> None:
        self.aggregates: list[Aggregate] = []
        self._by_call: dict[Call, Aggregate] = {}
        self._keys = {key.expression: key.name for key in reversed(keys)}
        self._names = {key.name.lower() for key in keys}
        self._tick_ms = tick_ms
        self._scope = scope
        self._place = select.location

    def split(self, expression: Expression, name: str) -> Expression:
        """Return an expression over the names of keys and aggregates."""
        return rewrite(expression, lambda part: self._replace(part, expression, name))

    def _replace(self, part: Expression, whole: Expression, name: str) -> Expression | None:
        key = self._keys.get(part)
        if key is not None:
            return Column(key, location=part.location)
        if isinstance(part, Over):
            raise SqlError(
                "OVER goes without GROUP BY: name the groups by CREATE STREAM", part.location
            )
        if isinstance(part, Tick) and part.duration_ms == self._tick_ms and is_time(part.of):
            return Column(WINDOW_START, location=part.location)
        if isinstance(part, Column) and part.relation is not None:
            if part.name == ROWTIME and self._tick_ms:
                return Column(WINDOW_START, location=part.location)
            raise SqlError(
                f"{part.name} is neither in GROUP BY nor in an aggregate function", part.location
            )
        if isinstance(part, Call) and kind_of(part) == "aggregate":
            for argument in part.arguments:
                refuse_aggregates(argument, "an aggregate function")
            return Column(self._add(part, name if part is whole else ""), location=part.location)
        return None

    def _add(self, call: Call, name: str) -> str:
        if call in self._by_call:
            return self._by_call[call].name
        if not name or name.lower() in self._names:
            name = f"aggregate_{len(self.aggregates) + 1}"
        _, type_ = resolve(call, self._scope)
        self._names.add(name.lower())
        self._by_call[call] = Aggregate(name, call, type_)
        self.aggregates.append(self._by_call[call])
        return name


# KSQL's, where a window or a join says nothing.
DEFAULT_GRACE_MS = 86_400_000


def join_plan(
    join: Join,
    left: tuple[Input, ...],
    right: Input,
    functions: Mapping[str, Function],
    before: tuple[JoinPlan, ...],
) -> JoinPlan:
    """Return a join, resolved, after those `before` it; raises SqlError for what Spark cannot do."""
    if join.relation.over is not None:
        # The stream's rows up to that much later: a trade within a minute of its order.
        if join.relation.over.range_ms is None or join.relation.over.partition:
            raise SqlError("a join's window is RANGE INTERVAL '..' .. PRECEDING", join.location)
        join = replace(join, before_ms=0, after_ms=join.relation.over.range_ms, grace_ms=0)
    method = _method(left[0].relation, right.relation)
    _check_order(join, method, before)
    if left[0].relation.is_table and not right.relation.is_table:
        raise SqlError("a table is not joined with a stream: put the stream first", join.location)
    _check_within_and_kind(join, method)
    left_key, right_key = _equality(join, Scope((*left, right), functions=functions), right)
    _check_keys(join, method, (left[0].relation, left_key), (right.relation, right_key))
    return JoinPlan(
        join.kind,
        right,
        left_key,
        right_key,
        method,
        join.before_ms or 0,
        join.after_ms or 0,
        DEFAULT_GRACE_MS if join.grace_ms is None else join.grace_ms,
        join.location,
    )


def _method(left: Relation, right: Relation) -> str:
    """Return how Spark joins two relations: the name of a `JoinPlan.method`."""
    if right.is_object:
        return "object"
    if right.is_table:
        return "tables" if left.is_table else "stream-table"
    return "streams"


def _check_within_and_kind(join: Join, method: str) -> None:
    """Refuse a join without the WITHIN that its method needs, with one that it has not, or of a kind that it lacks."""
    if method == "streams" and join.before_ms is None:
        raise SqlError(
            "a join of two streams needs WITHIN, the most time between two rows", join.location
        )
    if method != "streams" and join.before_ms is not None:
        raise SqlError(
            "WITHIN is for two streams; a table has its latest row of each key", join.location
        )
    if method == "stream-table" and join.kind not in ("INNER", "LEFT"):
        raise SqlError(
            f"a stream and a table have INNER and LEFT joins, not {join.kind}", join.location
        )
    if method == "object" and join.kind not in ("INNER", "LEFT"):
        raise SqlError(
            f"a reference table has INNER and LEFT joins, not {join.kind}", join.location
        )


def _check_keys(
    join: Join, method: str, left: tuple[Relation, Expression], right: tuple[Relation, Expression]
) -> None:
    """Refuse a join with a table by what is not its key; each side is a relation and what it is compared by."""
    relation, compared = right
    keys = relation.key_columns()
    if method in ("tables", "stream-table") and not (
        len(keys) == 1 and isinstance(compared, Column) and compared.name == keys[0].name
    ):
        raise SqlError(
            f"the join compares with the key of {relation.name}, {', '.join(k.name for k in keys)}",
            join.on.location,
        )
    relation, compared = left
    if method == "tables" and join.kind not in ("INNER", "LEFT"):
        own = [key.name for key in relation.key_columns()]
        if not (isinstance(compared, Column) and own == [compared.name]):
            raise SqlError(
                f"a join by a foreign key is INNER or LEFT, not {join.kind}", join.location
            )


def _check_order(join: Join, method: str, before: tuple[JoinPlan, ...]) -> None:
    """Refuse a join that does not go on from those `before` it: streams come first, and a reference table last."""
    methods = [one.method for one in before]
    if method == "streams" and any(one != "streams" for one in methods):
        raise SqlError(
            "streams are joined before tables: put the joins of streams first", join.location
        )
    if "object" in methods or (method == "object" and "stream-table" in methods):
        raise SqlError(
            "a query joins streams, and then tables or one reference table: give the first join's result a name by "
            "CREATE STREAM .. AS",
            join.location,
        )
    outer = next((one for one in (join, *before) if one.kind not in ("INNER", "LEFT")), None)
    if before and outer is not None:
        raise SqlError(f"several joins are INNER or LEFT, not {outer.kind}", outer.location)


def _equality(join: Join, scope: Scope, right: Input) -> tuple[Expression, Expression]:
    """Return both sides of ON, the left relation's first."""
    on = join.on
    if not (isinstance(on, Operation) and on.operator == "="):
        raise SqlError("ON compares one expression of each relation: a.x = b.y", on.location)
    sides: list[tuple[Expression, SqlType, set[str | None]]] = []
    for side in on.operands:
        resolved, type_ = resolve(side, scope)
        relations = {part.relation for part in walk(resolved) if isinstance(part, Column)}
        sides.append((resolved, type_, relations))
    first, second = sides
    if first[2] == {right.alias}:
        first, second = second, first
    if second[2] != {right.alias} or right.alias in first[2] or not first[2]:
        raise SqlError("ON compares one expression of each relation: a.x = b.y", on.location)
    if common(first[1], second[1]) is None:
        raise SqlError(f"{first[1]} is not compared with {second[1]}", on.location)
    refuse_maps(first[1], "ON", on.location)
    return first[0], second[0]
