"""Joins of streams and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.sql.errors import SqlError
from headrace.sql.expressions import Column, Expression, Operation, walk
from headrace.sql.function import Function
from headrace.sql.plan import (
    Input,
    JoinPlan,
)
from headrace.sql.query_outputs import refuse_maps
from headrace.sql.scope import Scope
from headrace.sql.statements import (
    Join,
)
from headrace.sql.types import SqlType, common
from headrace.sql.typing import resolve

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
    left_is_table, right_is_table = left[0].relation.is_table, right.relation.is_table
    if join.relation.over is not None:
        # The stream's rows up to that much later: a trade within a minute of its order.
        if join.relation.over.range_ms is None or join.relation.over.partition:
            raise SqlError("a join's window is RANGE INTERVAL '..' .. PRECEDING", join.place)
        join = replace(join, before_ms=0, after_ms=join.relation.over.range_ms, grace_ms=0)
    method = (
        "object"
        if right.relation.is_object
        else "tables"
        if left_is_table and right_is_table
        else "stream-table"
        if right_is_table
        else "streams"
    )
    _check_order(join, method, before)
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
    if method == "object" and join.kind not in ("INNER", "LEFT"):
        raise SqlError(f"a reference table has INNER and LEFT joins, not {join.kind}", join.place)
    left_key, right_key = _equality(join, Scope((*left, right), functions=functions), right)
    if method in ("tables", "stream-table"):
        keys = right.relation.key_columns()
        if not (
            len(keys) == 1 and isinstance(right_key, Column) and right_key.name == keys[0].name
        ):
            raise SqlError(
                f"the join compares with the key of {right.relation.name}, {', '.join(k.name for k in keys)}",
                join.on.place,
            )
    if method == "tables" and join.kind not in ("INNER", "LEFT"):
        own = left[0].relation.key_columns()
        if not (isinstance(left_key, Column) and [key.name for key in own] == [left_key.name]):
            raise SqlError(f"a join by a foreign key is INNER or LEFT, not {join.kind}", join.place)
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


def _check_order(join: Join, method: str, before: tuple[JoinPlan, ...]) -> None:
    """Refuse a join that does not go on from those `before` it: streams come first, and a reference table last."""
    methods = [one.method for one in before]
    if method == "streams" and any(one != "streams" for one in methods):
        raise SqlError(
            "streams are joined before tables: put the joins of streams first", join.place
        )
    if "object" in methods or (method == "object" and "stream-table" in methods):
        raise SqlError(
            "a query joins streams, and then tables or one reference table: give the first join's result a name by "
            "CREATE STREAM .. AS",
            join.place,
        )
    outer = next((one for one in (join, *before) if one.kind not in ("INNER", "LEFT")), None)
    if before and outer is not None:
        raise SqlError(f"several joins are INNER or LEFT, not {outer.kind}", outer.place)


def _equality(join: Join, scope: Scope, right: Input) -> tuple[Expression, Expression]:
    """Return both sides of ON, the left relation's first."""
    on = join.on
    if not (isinstance(on, Operation) and on.operator == "="):
        raise SqlError("ON compares one expression of each relation: a.x = b.y", on.place)
    sides: list[tuple[Expression, SqlType, set[str | None]]] = []
    for side in on.operands:
        resolved, type_ = resolve(side, scope)
        relations = {part.relation for part in walk(resolved) if isinstance(part, Column)}
        sides.append((resolved, type_, relations))
    first, second = sides
    if first[2] == {right.alias}:
        first, second = second, first
    if second[2] != {right.alias} or right.alias in first[2] or not first[2]:
        raise SqlError("ON compares one expression of each relation: a.x = b.y", on.place)
    if common(first[1], second[1]) is None:
        raise SqlError(f"{first[1]} is not compared with {second[1]}", on.place)
    refuse_maps(first[1], "ON", on.place)
    return first[0], second[0]
