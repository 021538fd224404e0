"""Replaces parts of expressions, names of windows, and a SELECT in FROM by what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.sql.functions import NOT_BUILT, find_function
from headrace.sql.statements import (
    Array,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    Frame,
    Interval,
    Item,
    Join,
    Lambda,
    Literal,
    Map,
    Operation,
    Over,
    RelationName,
    Select,
    SelectItem,
    Struct,
    Tick,
    walk,
)
from headrace.sql.types import DOUBLE, INT, NULL, Location, SqlError


def rewrite(
    expression: Expression, change: Callable[[Expression], Expression | None]
) -> Expression:
    """Return the expression with each part that `change` knows replaced, outermost first; others keep their parts."""
    changed = change(expression)
    if changed is not None:
        return changed

    def inner(part: Expression) -> Expression:
        return rewrite(part, change)

    match expression:
        case Field() | Cast() | Tick():
            return replace(expression, of=inner(expression.of))
        case Item():
            return replace(expression, of=inner(expression.of), index=inner(expression.index))
        case Operation():
            return replace(expression, operands=tuple(map(inner, expression.operands)))
        case Call():
            return replace(expression, arguments=tuple(map(inner, expression.arguments)))
        case Lambda():
            return replace(expression, body=inner(expression.body))
        case Case():
            branches = tuple((inner(test), inner(value)) for test, value in expression.branches)
            otherwise = None if expression.otherwise is None else inner(expression.otherwise)
            return replace(expression, branches=branches, otherwise=otherwise)
        case Struct() | Array():
            return replace(expression, values=tuple(map(inner, expression.values)))
        case Map():
            keys, values = tuple(map(inner, expression.keys)), tuple(map(inner, expression.values))
            return replace(expression, keys=keys, values=values)
        case _:
            return expression


def inline(outer: Select, inner: Select) -> Select:
    """Return the query that `outer`, which chooses and filters the rows of `inner`, makes of them."""
    if inner.distinct and outer.group_by:
        return _count_distinct(outer, inner)
    plain = Select(
        outer.items, outer.source, where=outer.where, limit=outer.limit, location=outer.location
    )
    if replace(outer, emit="") != plain or inner.limit is not None or inner.emit:
        raise SqlError(
            "a SELECT in FROM is chosen and filtered from alone: give it a name by CREATE STREAM .. AS",
            outer.source.location,
        )
    names = _named_values(inner)

    def moved(expression: Expression) -> Expression:
        return _moved(expression, names, outer.source.alias)

    items = [
        replace(
            item,
            expression=moved(item.expression),
            alias=item.alias
            or (item.expression.name if isinstance(item.expression, Column) else None),
        )
        if item.expression is not None
        else item
        for item in outer.items
    ]
    if any(item.expression is None for item in items):
        items = [
            one for item in items for one in (inner.items if item.expression is None else (item,))
        ]
    if inner.distinct:
        _check_distinct(items, inner)
    result = replace(
        inner, items=tuple(items), limit=outer.limit, emit=outer.emit, location=outer.location
    )
    if outer.where is None:
        return result
    condition = moved(outer.where)
    if any(isinstance(part, Over) for part in walk(condition)):
        return replace(result, qualify=condition)
    before = inner.having if inner.group_by else inner.where
    both = (
        condition
        if before is None
        else Operation("AND", (before, condition), location=condition.location)
    )
    return replace(result, having=both) if inner.group_by else replace(result, where=both)


def _check_distinct(items: list[SelectItem], inner: Select) -> None:
    """Refuse a choice of a SELECT DISTINCT's columns: rows that differ in the others would be one."""
    chosen = [item.expression for item in items]
    values = [item.expression for item in inner.items]
    for item in items:
        if item.expression not in values:
            raise SqlError(
                "a SELECT DISTINCT in FROM is chosen as it is: name it by CREATE STREAM",
                item.location,
            )
    if any(value not in chosen for value in values):
        raise SqlError(
            "all columns of a SELECT DISTINCT in FROM are chosen, or counted by GROUP BY: name it by CREATE STREAM",
            inner.location,
        )


def _count_distinct(outer: Select, inner: Select) -> Select:
    """Return the query that counts a SELECT DISTINCT's rows in groups: each row of a group once, in its window."""
    is_plain = not (inner.group_by or inner.joins or outer.joins or inner.limit or inner.emit)
    if not is_plain or any(item.expression is None for item in inner.items):
        raise SqlError(
            "a SELECT DISTINCT in FROM is of one stream's columns, by their names: name others by CREATE STREAM .. AS",
            outer.source.location,
        )
    alias, location = outer.source.alias, outer.location
    named = tuple(item for item in inner.items if item.alias or isinstance(item.expression, Column))
    names = _named_values(replace(inner, items=named))
    values = [item.expression for item in inner.items if item.expression is not None]
    row = Struct(tuple(f"c{n}" for n in range(len(values))), tuple(values), location=location)

    def moved(expression: Expression) -> Expression:
        def change(part: Expression) -> Expression | None:
            if isinstance(part, Column):
                return _moved(part, names, alias)
            return _counted(part, row, lambda one: _moved(one, names, alias))

        return rewrite(expression, change)

    if any(item.expression is None for item in outer.items):
        raise SqlError("GROUP BY goes without *", outer.location)
    items = tuple(
        replace(
            item,
            expression=moved(item.expression),
            alias=item.alias
            or (item.expression.name if isinstance(item.expression, Column) else None),
        )
        for item in outer.items
        if item.expression is not None
    )
    conditions = [
        one for one in (inner.where, outer.where and moved(outer.where)) if one is not None
    ]
    where = Operation("AND", tuple(conditions), location=location) if len(conditions) > 1 else None
    return replace(
        outer,
        source=inner.source,
        items=items,
        where=where or next(iter(conditions), None),
        group_by=tuple(map(moved, outer.group_by)),
        having=None if outer.having is None else moved(outer.having),
    )


def _counted(
    part: Expression, row: Expression, moved: Callable[[Expression], Expression]
) -> Expression | None:
    """Return an aggregate's call over distinct rows, of which `row` is one; None for what is none."""
    function = find_function(part.name) if isinstance(part, Call) else None
    if not isinstance(part, Call) or function is None or function.kind != "aggregate":
        return None
    if part.star or (part.name == "COUNT" and not part.arguments):
        return replace(part, star=False, distinct=True, arguments=(row,))
    arguments = tuple(map(moved, part.arguments))
    if part.distinct or part.name in ("MIN", "MAX"):
        return replace(part, arguments=arguments)
    if part.name != "COUNT":
        raise SqlError(
            f"{part.name} of a SELECT DISTINCT in FROM is not built: COUNT, MIN and MAX are",
            part.location,
        )
    is_there = Operation("NOT", (Operation("IS NULL", arguments),), location=part.location)
    given = Case(((is_there, row),), None, location=part.location)
    return replace(part, distinct=True, arguments=(given,))


def _named_values(select: Select) -> dict[str, Expression]:
    """Return the values of a SELECT in FROM by their names, in lower case."""
    names: dict[str, Expression] = {}
    for item in select.items:
        name = item.alias or (item.expression.name if isinstance(item.expression, Column) else "")
        if item.expression is None or item.has_all_fields or not name:
            raise SqlError(
                "each value of a SELECT in FROM has a name: value AS name", item.location
            )
        names[name.lower()] = item.expression
    return names


def _moved(expression: Expression, names: dict[str, Expression], relation: str) -> Expression:
    """Return an expression over a SELECT in FROM, which is the relation, with the values in place of their names."""

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Lambda):
            own = {name.lower() for name in part.parameters}
            rest = {name: one for name, one in names.items() if name not in own}
            return replace(part, body=_moved(part.body, rest, relation))
        if not isinstance(part, Column):
            return None
        if part.relation is not None and part.relation.lower() != relation.lower():
            raise SqlError(f"no relation {part.relation!r} in this query", part.location)
        if part.name.lower() not in names and part.name.upper() != "ROWTIME":
            raise SqlError(f"no column {part.name!r} in the SELECT in FROM", part.location)
        return names.get(part.name.lower(), replace(part, relation=None))

    return rewrite(expression, change)


def _frame(frame: Frame, frames: dict[str, Frame], location: Location) -> Frame:
    if frame.name and frame.name.lower() not in frames:
        raise SqlError(f"no window {frame.name}: WINDOW {frame.name} AS (..) makes one", location)
    return frames[frame.name.lower()] if frame.name else frame


def over_named(join: Join, frames: dict[str, Frame]) -> RelationName:
    """Return a join's relation with its window; in `JOIN s OVER t ON s1.a = t.a` the window's name is its alias."""
    relation = join.relation
    if relation.over is None:
        return relation
    window = relation.over.name
    is_alias = any(isinstance(one, Column) and one.relation == window for one in walk(join.on))
    alias = window if window and is_alias and relation.alias == relation.name else relation.alias
    return replace(relation, over=_frame(relation.over, frames, relation.location), alias=alias)


# Of intervals in the window of an EXP_AVG: each is a window of Spark's; and of rows to look back.
_MOST_INTERVALS, _MOST_BACK = 60, 1_000


def _weigh(over: Over) -> Expression:
    """Return EXP_AVG over a window: each interval's values weigh half of those of the interval after it.

    The rows of i intervals together, weighted by 2^-i, for each i, and all rows by as much as the last of them.
    """
    window_ms, arguments, location = over.frame.range_ms, over.call.arguments, over.location
    if len(arguments) != 2 or not isinstance(arguments[1], Interval) or window_ms is None:
        raise SqlError(f"EXP_AVG is refused: {NOT_BUILT['EXP_AVG']}", location)
    interval_ms = arguments[1].duration_ms
    if not 0 < window_ms <= interval_ms * _MOST_INTERVALS:
        raise SqlError(
            f"EXP_AVG's window has 1 to {_MOST_INTERVALS} intervals", arguments[1].location
        )
    count = -(-window_ms // interval_ms)
    value = Cast(arguments[0], DOUBLE, location=location)

    def weighed(function: str) -> Expression:
        total: Expression | None = None
        for number in range(1, count + 1):
            frame = replace(over.frame, range_ms=min(number * interval_ms, window_ms))
            part = Call(
                "COALESCE",
                (
                    Over(Call(function, (value,), location=location), frame, location=location),
                    Literal(0.0, DOUBLE),
                ),
                location=location,
            )
            weight = Literal(0.5 ** min(number, count - 1), DOUBLE)
            term = Operation("*", (part, weight), location=location)
            total = term if total is None else Operation("+", (total, term), location=location)
        assert total is not None
        return total

    return Operation("/", (weighed("SUM"), weighed("COUNT")), location=location)


def _look_back(over: Over) -> Expression:
    """Return LAG(value, n, default) over a window: the value of n rows before, if the window has as many."""
    location = over.location
    value, *rest = over.call.arguments or (Literal(None, NULL),)
    count = rest[0] if rest else Literal(1, INT)
    if (
        not isinstance(count, Literal)
        or not isinstance(count.value, int)
        or not (len(rest) <= 2 and 1 <= count.value <= _MOST_BACK)
    ):
        raise SqlError(
            f"LAG takes a value, a number from 1 to {_MOST_BACK:,}, and a default", location
        )
    rows = replace(over.frame, rows=count.value, range_ms=None)

    def has_more(frame: Frame) -> Expression:
        number = Over(Call("COUNT", (), star=True, location=location), frame, location=location)
        return Operation(">", (number, count), location=location)

    are_there = Operation("AND", (has_more(rows), has_more(over.frame)), location=location)
    before = Over(Call("FIRST_VALUE", (value,), location=location), rows, location=location)
    return Case(((are_there, before),), rest[1] if len(rest) > 1 else None, location=location)


def with_frames(item: SelectItem, frames: dict[str, Frame]) -> SelectItem:
    """Return the item with each named window's frame in its place."""

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Over):
            return None
        over = replace(part, frame=_frame(part.frame, frames, part.location))
        if over.call.name == "LAG":
            return _look_back(over)
        return _weigh(over) if over.call.name == "EXP_AVG" else over

    if item.expression is None:
        return item
    return replace(item, expression=rewrite(item.expression, change))
