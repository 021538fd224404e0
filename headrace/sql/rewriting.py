"""Replaces parts of expressions, names of windows, and a SELECT in FROM by what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.sql.statements import (
    Array,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    Frame,
    Item,
    Join,
    Lambda,
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
from headrace.sql.types import Place, SqlError


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
    plain = Select(
        outer.items, outer.source, where=outer.where, limit=outer.limit, place=outer.place
    )
    if inner.distinct:
        raise SqlError(
            "a SELECT DISTINCT in FROM is not built: COUNT(DISTINCT value), or of several values "
            "COUNT(DISTINCT STRUCT(a := .., b := ..)), counts each of a window once",
            outer.source.place,
        )
    if replace(outer, emit="") != plain or inner.limit is not None or inner.emit:
        raise SqlError(
            "a SELECT in FROM is chosen and filtered from alone: give it a name by CREATE STREAM .. AS",
            outer.source.place,
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
    result = replace(
        inner, items=tuple(items), limit=outer.limit, emit=outer.emit, place=outer.place
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
        else Operation("AND", (before, condition), place=condition.place)
    )
    return replace(result, having=both) if inner.group_by else replace(result, where=both)


def _named_values(select: Select) -> dict[str, Expression]:
    """Return the values of a SELECT in FROM by their names, in lower case."""
    names: dict[str, Expression] = {}
    for item in select.items:
        name = item.alias or (item.expression.name if isinstance(item.expression, Column) else "")
        if item.expression is None or item.has_all_fields or not name:
            raise SqlError("each value of a SELECT in FROM has a name: value AS name", item.place)
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
            raise SqlError(f"no relation {part.relation!r} in this query", part.place)
        if part.name.lower() not in names and part.name.upper() != "ROWTIME":
            raise SqlError(f"no column {part.name!r} in the SELECT in FROM", part.place)
        return names.get(part.name.lower(), replace(part, relation=None))

    return rewrite(expression, change)


def _frame(frame: Frame, frames: dict[str, Frame], place: Place) -> Frame:
    if frame.name and frame.name.lower() not in frames:
        raise SqlError(f"no window {frame.name}: WINDOW {frame.name} AS (..) makes one", place)
    return frames[frame.name.lower()] if frame.name else frame


def over_named(join: Join, frames: dict[str, Frame]) -> RelationName:
    """Return a join's relation with its window; in `JOIN s OVER t ON s1.a = t.a` the window's name is its alias."""
    relation = join.relation
    if relation.over is None:
        return relation
    window = relation.over.name
    is_alias = any(isinstance(one, Column) and one.relation == window for one in walk(join.on))
    alias = window if window and is_alias and relation.alias == relation.name else relation.alias
    return replace(relation, over=_frame(relation.over, frames, relation.place), alias=alias)


def with_frames(item: SelectItem, frames: dict[str, Frame]) -> SelectItem:
    """Return the item with each named window's frame in its place."""

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Over):
            return None
        return replace(part, frame=_frame(part.frame, frames, part.place))

    if item.expression is None:
        return item
    return replace(item, expression=rewrite(item.expression, change))
