"""Replaces parts of expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.sql.expressions import (
    Array,
    Call,
    Case,
    Cast,
    Expression,
    Field,
    Item,
    Lambda,
    Map,
    Operation,
    Struct,
    Tick,
)


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
