"""A row pattern as steps, and its conditions as functions, for the runner without Spark and for the job.

A job has the text after the mark as its own, below that of `operators.py`, so that it runs in Python 3.9.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# A row's values are of any type.
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.sql.operators import BINARY, all_of, distinct, is_between, is_in, negate


# --- of the job too ---
def program_of(pattern: tuple[Any, ...]) -> list[Any]:
    """Return a pattern as steps: row, split (the preferred way first), jump and match."""
    steps: list[Any] = []

    def add(part: tuple[Any, ...]) -> None:
        kind = part[0]
        if kind == "row":
            steps.append(part)
        elif kind == "seq":
            for one in part[1:]:
                add(one)
        elif kind == "alt":
            add_alternatives(part[1:])
        else:
            add_repeat(*part[1:])

    def add_alternatives(parts: tuple[Any, ...]) -> None:
        jumps = []
        for one in parts[:-1]:
            split = len(steps)
            steps.append(None)
            add(one)
            jumps.append(len(steps))
            steps.append(None)
            steps[split] = ("split", split + 1, len(steps))
        add(parts[-1])
        for jump in jumps:
            steps[jump] = ("jump", len(steps))

    def add_repeat(part: tuple[Any, ...], least: int, most: int, is_greedy: bool) -> None:
        for _ in range(least):
            add(part)
        splits = []
        for _ in range(max(most - least, 0) if most >= 0 else 1):
            splits.append(len(steps))
            steps.append(None)
            add(part)
        if most < 0:
            steps.append(("jump", splits[0]))
        for split in splits:
            ways = (split + 1, len(steps))
            steps[split] = ("split", *(ways if is_greedy else ways[::-1]))

    add(pattern)
    steps.append(("match",))
    return steps


def condition_of(condition: tuple[Any, ...]) -> Callable[[Callable[[int], Any]], Any]:
    """Return what computes a condition from the navigations' values, with SQL's NULL."""
    kind = condition[0]
    if kind == "nav":
        index = condition[1]
        return lambda values: values(index)
    if kind == "const":
        constant = condition[1]
        return lambda _: constant
    parts = [condition_of(part) for part in condition[1:]]
    if kind in _LAZY:
        function = _LAZY[kind]
        return lambda values: function([part(values) for part in parts])
    if kind == "AND":
        return lambda values: all_of(part(values) for part in parts)
    if kind == "OR":
        return lambda values: negate(all_of(negate(part(values)) for part in parts))
    if kind == "CASE":
        return lambda values: _case(parts, values)
    strict = _STRICT.get(kind) or BINARY[kind]

    def compute(values: Callable[[int], Any]) -> Any:
        operands = [part(values) for part in parts]
        if None in operands:
            return None
        try:
            return strict(*operands)
        except (ArithmeticError, TypeError, ValueError):
            return None

    return compute


def _case(parts: list[Any], values: Callable[[int], Any]) -> Any:
    """Return the value after the first condition that holds; the last part is ELSE's."""
    for index in range(0, len(parts) - 1, 2):
        if parts[index](values) is True:
            return parts[index + 1](values)
    return parts[-1](values)


# Of a list of values, any of which may be None.
_LAZY: dict[Any, Any] = {
    "NOT": lambda values: negate(values[0]),
    "IS NULL": lambda values: values[0] is None,
    "IS DISTINCT FROM": lambda values: distinct(*values),
    "IN": lambda values: is_in(*values),
    "BETWEEN": lambda values: is_between(*values),
    "COALESCE": lambda values: next((value for value in values if value is not None), None),
}
_STRICT: dict[Any, Any] = {
    "NEGATE": lambda value: -value,
    "ABS": abs,
    "DOUBLE": float,
}
