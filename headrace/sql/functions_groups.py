"""Aggregates, which compute a value of a group's rows, and table functions; see `types.py`."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

# A value of SQL is of any type until it is computed.
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from headrace.sql.conversions import text
from headrace.sql.ordering import greatest, in_order, least, unique, unique_groups
from headrace.sql.types import (
    BIGINT,
    DOUBLE,
    STRING,
    Function,
    SqlType,
    array_of,
    element,
    first,
    map_of,
    present,
)


def _array_of_first(types: Sequence[SqlType]) -> SqlType:
    return array_of(types[0])


def _sum_type(types: Sequence[SqlType]) -> SqlType:
    if types[0].name == "DECIMAL":
        # As Spark, ten digits more.
        precision, scale = types[0].digits
        return SqlType("DECIMAL", digits=(min(precision + 10, 38), scale))
    return DOUBLE if types[0].name == "DOUBLE" else BIGINT


def _cube(values: Sequence[Any]) -> list[list[Any]]:
    """Return the values with each choice of them left out, each once."""
    rows: list[list[Any]] = [[]]
    for value in values:
        rows = [[*row, item] for row in rows for item in (None, value)]
    return unique(rows)


_SPARK_CUBE = (
    "explode(array_distinct(aggregate({0}, array(slice({0}, 1, 0)), (rows, x) -> "
    "flatten(transform(rows, row -> array(concat(row, array(NULL)), concat(row, array(x))))))))"
)


def _by_offset(which: str) -> Callable[..., str]:
    """Return how Spark writes LATEST_BY_OFFSET or EARLIEST_BY_OFFSET: a value, or the last or first n of them."""

    def written(value: str, *rest: str) -> str:
        keeps_null = "false" in rest
        count = next((part for part in rest if part.isdigit()), None)
        if count is None and keeps_null:
            return f"{which}_by(struct({value} AS v), _order).v"
        if count is None:
            return f"{which}_by({value}, _order) FILTER (WHERE {value} IS NOT NULL)"
        values = _IN_ORDER.format(value)
        values = values if keeps_null else f"filter({values}, w -> w IS NOT NULL)"
        start = "1" if which == "min" else f"greatest(size({values}) - {count}, 0) + 1"
        return f"slice({values}, {start}, {count})"

    return written


def _of_offset(values: Sequence[Any], rest: Sequence[Any], *, latest: bool) -> Any:
    values = list(values) if False in rest else present(values)
    count = next((part for part in rest if not isinstance(part, bool)), None)
    if count is None:
        return (values[-1] if latest else values[0]) if values else None
    return values[max(len(values) - count, 0) :] if latest else values[:count]


def _offset_type(types: Sequence[SqlType]) -> SqlType:
    return array_of(types[0]) if any(type_.is_integer for type_ in types[1:]) else types[0]


def _correlation(rows: Sequence[tuple[Any, ...]]) -> float | None:
    pairs = [(float(row[0]), float(row[1])) for row in rows if None not in row]
    if not pairs:
        return None
    means = [sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1)]
    spreads = [sum((pair[side] - means[side]) ** 2 for pair in pairs) for side in (0, 1)]
    together = sum((x - means[0]) * (y - means[1]) for x, y in pairs)
    return (
        together / math.sqrt(spreads[0] * spreads[1])
        if all(spreads)
        else None
        if len(pairs) > 1
        else math.nan
    )


def _histogram(values: Sequence[Any]) -> dict[str, int]:
    return dict(Counter(map(text, present(values))))


def _spread(values: Sequence[Any], least: int) -> float | None:
    """Return the squared distance from the mean over n - least; None with fewer values than it needs."""
    numbers = list(map(float, present(values)))
    if len(numbers) <= least:
        return None
    mean = sum(numbers) / len(numbers)
    return sum((number - mean) ** 2 for number in numbers) / (len(numbers) - least)


def _root(number: float | None) -> float | None:
    return None if number is None else math.sqrt(number)


def _sum(values: Sequence[Any]) -> Any:
    numbers = present(values)
    return sum(numbers[1:], numbers[0]) if numbers else None


def _sum_items(values: Sequence[Any]) -> Any:
    items = [item for value in present(values) for item in present(value)]
    return sum(items)


def _sum_items_type(types: Sequence[SqlType]) -> SqlType:
    return DOUBLE if element(types) == DOUBLE else BIGINT


# The order in which rows came, in Spark: `_order` is a column of every stream's rows.
_SORTED = (
    "array_sort(collect_list(struct(_order, {0} AS v)), "
    "(_a, _b) -> CASE WHEN _a._order < _b._order THEN -1 ELSE 1 END)"
)
_IN_ORDER = f"transform({_SORTED}, _s -> _s.v)"
_MAPS = f"filter({_IN_ORDER}, _m -> _m IS NOT NULL)"
_TOP = "slice(sort_array(collect_list({0}), false), 1, {1})"
# A set of Spark has each NaN.
_SET = "array_distinct(collect_set({0}))"
_TOP_DISTINCT = f"slice(sort_array({_SET}, false), 1, {{1}})"
# The 0 of the items' type: of no item of theirs and a BIGINT.
_SUM_ITEMS = (
    "coalesce(sum(aggregate({0}, coalesce(try_element_at(slice({0}, 1, 0), 1), 0L), "
    "(_s, _x) -> _s + coalesce(_x, 0L))), 0L)"
)
_HISTOGRAM = (
    "map_from_entries(transform(array_distinct(collect_list(cast({0} AS STRING))), "
    "_v -> struct(_v, cast(size(filter(collect_list(cast({0} AS STRING)), _w -> _w = _v)) AS BIGINT))))"
)

GROUP_FUNCTIONS: tuple[Function, ...] = (
    # Aggregates: `python` gets the list of a group's values, in the order of the rows.
    Function("COUNT", "*", BIGINT, "count({0})", lambda v: len(present(v)), "aggregate"),
    Function("COUNT_DISTINCT", "*", BIGINT, f"size({_SET})", lambda v: len(unique_groups(present(v))),
             "aggregate"),
    Function("SUM", "N", _sum_type, "sum({0})", _sum, "aggregate"),
    Function("SUM_LIST", "A", _sum_items_type, _SUM_ITEMS, _sum_items, "aggregate"),
    Function("AVG", "N", DOUBLE, "avg(cast({0} AS DOUBLE))",
             lambda v: sum(map(float, present(v))) / len(present(v)) if present(v) else None, "aggregate"),
    Function("MIN", "*", first, "min({0})", lambda v: least(present(v)), "aggregate"),
    Function("MAX", "*", first, "max({0})", lambda v: greatest(present(v)), "aggregate"),
    # A number of values, and whether NULL is left out (true, if nothing is said).
    Function("LATEST_BY_OFFSET", "*K?K?", _offset_type, _by_offset("max"),
             lambda v, *rest: _of_offset(v, rest, latest=True), "aggregate"),
    Function("EARLIEST_BY_OFFSET", "*K?K?", _offset_type, _by_offset("min"),
             lambda v, *rest: _of_offset(v, rest, latest=False), "aggregate"),
    Function("FIRST_VALUE", "*", first, "min_by(struct({0} AS v), _order).v", lambda v: v[0], "aggregate"),
    Function("LAST_VALUE", "*", first, "max_by(struct({0} AS v), _order).v", lambda v: v[-1], "aggregate"),
    Function("ATTR", "*", first, f"CASE WHEN count({{0}}) = count(1) AND size({_SET}) = 1 THEN max({{0}}) END",
             lambda v: v[0] if None not in v and len(unique_groups(v)) == 1 else None, "aggregate"),
    Function("CORRELATION", "NN", DOUBLE, "corr(cast({0} AS DOUBLE), cast({1} AS DOUBLE))", _correlation, "aggregate",
             takes_rows=True),
    Function("COLLECT_LIST", "*", _array_of_first, _IN_ORDER, list, "aggregate"),
    Function("COLLECT_SET", "*", _array_of_first, f"array_distinct({_IN_ORDER})", unique, "aggregate"),
    # The later value of a key counts.
    Function("COLLECT_MAP", "M", first, f"map_from_entries(flatten(transform({_MAPS}, _m -> map_entries(_m))))",
             lambda v: {key: item for one in present(v) for key, item in one.items()}, "aggregate"),
    Function("TOPK", "*K", _array_of_first, _TOP, lambda v, n: in_order(present(v), falling=True)[:n], "aggregate"),
    Function("TOPKDISTINCT", "*K", _array_of_first, _TOP_DISTINCT,
             lambda v, n: in_order(unique_groups(present(v)), falling=True)[:n], "aggregate"),
    Function("HISTOGRAM", "*", map_of(STRING, BIGINT), _HISTOGRAM, _histogram, "aggregate"),
    Function("STDDEV_SAMP", "N", DOUBLE, "stddev_samp({0})", lambda v: _root(_spread(v, 1)), "aggregate"),
    Function("STDDEV_POP", "N", DOUBLE, "stddev_pop({0})", lambda v: _root(_spread(v, 0)), "aggregate"),
    Function("VAR_SAMP", "N", DOUBLE, "var_samp({0})", lambda v: _spread(v, 1), "aggregate"),
    Function("VAR_POP", "N", DOUBLE, "var_pop({0})", lambda v: _spread(v, 0), "aggregate"),
    # Table functions: a row becomes as many as the array has.
    Function("EXPLODE", "A", element, "explode({0})", list, "table"),
    Function("CUBE_EXPLODE", "A", first, _SPARK_CUBE, _cube, "table"),
)  # fmt: skip
