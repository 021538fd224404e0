"""The functions of queries: one table for types, for Spark and for the runner without Spark."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false
# A value of SQL is of any type until it is computed; re2 has no types.
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import re2

from headrace.sql.conversions import text
from headrace.sql.functions_groups import GROUP_FUNCTIONS
from headrace.sql.functions_json import JSON_FUNCTIONS
from headrace.sql.functions_numbers import NUMBER_FUNCTIONS
from headrace.sql.functions_text import TEXT_FUNCTIONS, literal_split
from headrace.sql.functions_times import TIME_FUNCTIONS
from headrace.sql.operators import distinct, equal
from headrace.sql.ordering import greatest, identity, in_order, least, unique
from headrace.sql.statements import Call
from headrace.sql.types import (
    BOOLEAN,
    INT,
    STRING,
    Function,
    SqlType,
    array_of,
    as_int,
    element,
    first,
    map_of,
    present,
    widest,
)

# A text that a function makes is at most this long, a collection this large: a query's row is a record of 10 MiB.
MOST_CHARACTERS = 10 * 1024 * 1024
MOST_ITEMS = 100_000


def _keys(types: Sequence[SqlType]) -> SqlType:
    return array_of(types[0].of[0])


def _values(types: Sequence[SqlType]) -> SqlType:
    return array_of(types[0].of[1])


def _substring(text: str, start: int, length: int | None = None) -> str:
    """Return a part as Spark and KSQL count: from 1, or from the end if negative."""
    # Spark's are INTs.
    start = max(min(start, 2**31 - 2), 2 - 2**31)
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + max(min(length, 2**31 - 2), 0)
    return text[max(begin, 0) : max(end, 0)]


def _split(text: str, delimiter: str) -> list[str]:
    return text.split(delimiter) if delimiter else list(text) or [""]


_SPACES = "".join(map(chr, range(33)))


def _pad(text: Any, length: int, padding: Any, *, left: bool) -> Any:
    if length > MOST_CHARACTERS:
        raise ValueError(length)
    if length < 0 or not padding:
        return None
    if len(text) >= length:
        return text[:length]
    filling = (padding * (length // len(padding) + 1))[: length - len(text)]
    return filling + text if left else text + filling


def _place(text: str, part: str, position: int = 1, occurrence: int = 1) -> int:
    """Return where `part` begins, counted from 1; a negative position is one from the end, to look back from."""
    places = [at + 1 for at in range(max(len(text), 1)) if text.startswith(part, at)]
    if position > 0:
        found = [at for at in places if at >= position]
    else:
        found = [at for at in reversed(places) if position and at <= len(text) + position + 1]
    return found[occurrence - 1] if 0 < occurrence <= len(found) else 0


def _spark_place(text: str, part: str, position: str = "", occurrence: str = "1") -> str:
    if not position:
        return f"instr({text}, {part})"
    at_part = f"substring({text}, _p, length({part})) = {part}"
    places = f"filter(sequence(1, greatest(length({text}), 1)), _p -> {at_part})"
    on = f"filter({places}, _p -> _p >= {position})"
    back = (
        f"filter(reverse({places}), _p -> _p <= length({text}) + {position} + 1 AND {position} < 0)"
    )
    found = f"coalesce(get(if({position} > 0, {on}, {back}), {occurrence} - 1), 0)"
    given = " AND ".join(f"{one} IS NOT NULL" for one in (text, part, position, occurrence))
    return f"CASE WHEN {given} THEN {found} END"


def _extract(text: str, pattern: str, group: int = 0) -> str | None:
    match = re2.search(pattern, text)
    return None if match is None else str(match.group(group) or "")


def _replace(text: str, pattern: str, new: str) -> str:
    """Return a text with what a pattern matches replaced; $1 is its group, as Java writes it."""
    parts = re2.findall(r"\$(\d)|\\(.)|([^$\\]+)", new)
    return re2.sub(
        pattern,
        lambda match: "".join(
            str(match.group(int(group)) or "") if group else escaped + plain
            for group, escaped, plain in parts
        ),
        text,
    )


def _series(first: int, last: int, step: int | None = None) -> list[int]:
    if step is None:
        step = 1 if last >= first else -1
    if not 0 <= (last - first) / step < MOST_ITEMS:
        raise ValueError(last)
    return list(range(first, last + (1 if step > 0 else -1), step))


def _spark_series(first: str, last: str, step: str | None = None) -> str:
    # What `sequence` does not take would end the job.
    distance = f"(cast({last} AS DOUBLE) - {first})"
    if step is None:
        return f"CASE WHEN abs({distance}) < {MOST_ITEMS} THEN sequence({first}, {last}) END"
    # Nothing by 0 is NULL.
    fits = f"{distance} / {step} >= 0 AND {distance} / {step} < {MOST_ITEMS}"
    return f"CASE WHEN {fits} THEN sequence({first}, {last}, {step}) END"


def _slice(values: list[Any], first: int, last: int) -> list[Any] | None:
    return values[first - 1 : last] if 1 <= first <= last + 1 and last <= len(values) else None


def _sort_values(values: Sequence[Any], order: str = "ASC") -> list[Any]:
    items = in_order(present(values), falling=order.upper().startswith("DESC"))
    return [*items, *[None] * (len(values) - len(items))]


def _spark_ordered(array: str, order: str = "'ASC'") -> str:
    if not order.upper().startswith("'DESC"):
        return f"array_sort({array})"
    later = (
        "CASE WHEN b IS NULL THEN -1 WHEN a IS NULL OR a < b THEN 1 WHEN a > b THEN -1 ELSE 0 END"
    )
    return f"array_sort({array}, (a, b) -> {later})"


def _parted(values: Sequence[Any], others: Sequence[Any], *, is_in: bool) -> list[Any]:
    """Return each value once, of those that are, or are not, among others."""
    known = set(map(identity, others))
    return unique([value for value in values if (identity(value) in known) is is_in])


_SPARK_ENTRIES = {
    False: "transform(map_entries({0}), _e -> named_struct('K', _e.key, 'V', _e.value))",
    True: "array_sort(transform(map_entries({0}), _e -> named_struct('K', _e.key, 'V', _e.value)))",
}


def _entries(values: dict[Any, Any], is_sorted: bool) -> list[dict[str, Any]]:
    keys = sorted(values) if is_sorted else list(values)
    return [{"K": key, "V": values[key]} for key in keys]


def _transform(
    values: Any, first: Callable[..., Any], second: Callable[..., Any] | None = None
) -> Any:
    if second is None:
        return [first(value) for value in values]
    pairs = ((first(key, value), second(key, value)) for key, value in values.items())
    return {key: value for key, value in pairs if key is not None}


def _spark_transform(values: str, first: str, second: str | None = None) -> str:
    if second is None:
        return f"transform({values}, {first})"
    keys, items = (f"map_values(transform_values({values}, {f}))" for f in (first, second))
    return _spark_map(f"zip_with({keys}, {items}, (k, v) -> struct(k AS k, v AS v))")


def _spark_as_map(keys: str, values: str) -> str:
    pairs = f"zip_with({keys}, {values}, (k, v) -> struct(k AS k, v AS v))"
    return _spark_map(f"slice({pairs}, 1, least(size({keys}), size({values})))")


def _spark_map(pairs: str) -> str:
    """Return the map of pairs but those whose key is NULL, which would end the job."""
    return f"map_from_entries(filter({pairs}, e -> e.k IS NOT NULL))"


def _reduce(items: Any, start: Any, function: Callable[..., Any]) -> Any:
    if items is None or start is None:
        return start
    result = start
    for item in items.items() if isinstance(items, dict) else ((item,) for item in items):
        result = function(result, *item)
    return result


def _spark_reduce(values: str, start: str, function: str) -> str:
    names, _, body = function.partition(" -> ")
    parameters = names.strip("()").split(", ")
    if len(parameters) == 2:
        reduced = f"aggregate({values}, {start}, {function})"
    else:
        state, key, value = parameters
        pair = f"zip_with(array(_e.key), array(_e.value), ({key}, {value}) -> {body})[0]"
        reduced = f"aggregate(map_entries({values}), {start}, ({state}, _e) -> {pair})"
    return f"CASE WHEN {values} IS NULL OR {start} IS NULL THEN {start} ELSE {reduced} END"


_SPARK_SLICE = (
    "CASE WHEN {1} >= 1 AND {1} <= {2} + 1L AND {2} <= size({0}) "
    "THEN slice({0}, {1}, {2} - {1} + 1) END"
)
_SPARK_PAD = (
    "CASE WHEN length({{2}}) > 0 AND {{1}} BETWEEN 0 AND 10485760 THEN {}({{0}}, {{1}}, {{2}}) END"
)
_TABLE: tuple[Function, ...] = (
    *NUMBER_FUNCTIONS,
    # Text.
    Function("CONCAT", "SS+", STRING, lambda *a: f"concat_ws('', {', '.join(a)})",
             lambda *a: "".join(present(a)), takes_null=True),
    Function("CONCAT_WS", "SS+", STRING, lambda *a: f"concat_ws({', '.join(a)})",
             lambda s, *a: None if s is None else s.join(present(a)), takes_null=True),
    Function("INITCAP", "S", STRING, "initcap({0})",
             lambda s: " ".join(w[:1].title() + w[1:].lower() for w in s.split(" "))),
    Function("INSTR", "SSI?I?", INT, _spark_place, _place),
    Function("LCASE", "S", STRING, "lower({0})", str.lower),
    Function("UCASE", "S", STRING, "upper({0})", str.upper),
    Function("LEN", "S", INT, "length({0})", len),
    Function("LPAD", "YIY", first, _SPARK_PAD.format("lpad"),
             lambda s, n, p: _pad(s, n, p, left=True)),
    Function("RPAD", "YIY", first, _SPARK_PAD.format("rpad"),
             lambda s, n, p: _pad(s, n, p, left=False)),
    Function("REPLACE", "SSS", STRING, "replace({0}, {1}, {2})",
             lambda s, old, new: s.replace(old, new) if old else s),
    Function("REGEXP_EXTRACT", "SSI?", STRING,
             lambda p, s, n="0": f"CASE WHEN {s} RLIKE {p} THEN regexp_extract({s}, {p}, {n}) END",
             lambda p, s, n=0: _extract(s, p, n)),
    Function("REGEXP_REPLACE", "SSS", STRING, "regexp_replace({0}, {1}, {2})", _replace),
    Function("SPLIT", "SS", array_of(STRING), literal_split, _split),
    Function("SUBSTRING", "SII?", STRING, lambda s, *n: f"substring({', '.join((s, *map(as_int, n)))})", _substring),
    # What Java's trim takes off: every character up to the space.
    Function("TRIM", "S", STRING, "regexp_replace({0}, '^[\\\\x00-\\\\x20]+|[\\\\x00-\\\\x20]+\\\\z', '')",
             lambda s: s.strip(_SPACES)),
    Function("COALESCE", "**+", widest, lambda *a: f"coalesce({', '.join(a)})",
             lambda *a: next(iter(present(a)), None), takes_null=True),
    Function("NULLIF", "**", first, "nullif({0}, {1})",
             lambda a, b: a if a is None or b is None or not equal(a, b) else None, takes_null=True),
    Function("IFNULL", "**", widest, "coalesce({0}, {1})", lambda a, b: b if a is None else a, takes_null=True),
    # Collections.
    # Spark does not know whether an array with a NULL has what is not beside it.
    Function("ARRAY_CONTAINS", "A*", BOOLEAN,
             "if({0} IS NULL OR {1} IS NULL, NULL, coalesce(array_contains({0}, {1}), false))",
             lambda a, x: any(not distinct(x, y) for y in a)),
    Function("ARRAY_LENGTH", "A", INT, "coalesce(array_size({0}), 0)", lambda a: len(a or ()), takes_null=True),
    Function("ARRAY_DISTINCT", "A", first, "array_distinct({0})", unique),
    Function("ARRAY_EXCEPT", "AA", first, "array_except({0}, {1})",
             lambda a, b: _parted(a, b, is_in=False)),
    Function("ARRAY_INTERSECT", "AA", first, "array_intersect({0}, {1})",
             lambda a, b: _parted(a, b, is_in=True)),
    Function("ARRAY_UNION", "AA", first, "array_union({0}, {1})", lambda a, b: unique([*a, *b])),
    Function("ARRAY_CONCAT", "AA", widest, "coalesce(concat({0}, {1}), {0}, {1})",
             lambda a, b: None if a is None and b is None else [*(a or ()), *(b or ())], takes_null=True),
    Function("ARRAY_JOIN", "AS?", STRING,
             lambda a, d="','": f"array_join(transform({a}, _x -> cast(_x AS STRING)), coalesce({d}, ''), 'null')",
             lambda a, d=",": (d or "").join("null" if x is None else text(x) for x in a), null_from=1),
    Function("ARRAY_MAX", "A", element, "array_max({0})", lambda a: greatest(present(a))),
    Function("ARRAY_MIN", "A", element, "array_min({0})", lambda a: least(present(a))),
    Function("ARRAY_REMOVE", "A*", first, "filter({0}, _x -> NOT (_x <=> {1}))",
             lambda a, x: [y for y in a if distinct(x, y)], null_from=1),
    Function("ARRAY_SORT", "AK?", first, _spark_ordered, _sort_values),
    Function("SLICE", "AII", first, _SPARK_SLICE, _slice),
    Function("GENERATE_SERIES", "III?", lambda t: array_of(widest(t)), _spark_series, _series),
    Function("MAP_KEYS", "M", _keys, "map_keys({0})", list),
    Function("MAP_VALUES", "M", _values, "map_values({0})", lambda m: list(m.values())),
    Function("MAP_UNION", "MM", widest, "coalesce(map_concat({0}, {1}), {0}, {1})",
             lambda a, b: None if a is None and b is None else {**(a or {}), **(b or {})}, takes_null=True),
    # Of lists of different lengths the shorter one counts; pairs whose key is NULL are left out.
    Function("AS_MAP", "AA", lambda t: map_of(t[0].of[0], t[1].of[0]), _spark_as_map,
             lambda keys, values: {k: v for k, v in zip(keys, values, strict=False) if k is not None}),
    Function("ENTRIES", "MK", lambda t: array_of(SqlType("STRUCT", t[0].of, ("K", "V"))),
             lambda m, is_sorted: _SPARK_ENTRIES[is_sorted == "true"].format(m), _entries),
    # A map's lambda functions take a key and a value.
    Function("TRANSFORM", "CLL?", lambda t: map_of(t[1], t[2]) if t[0].name == "MAP" else array_of(t[1]),
             _spark_transform, _transform),
    Function("FILTER", "CL", first, lambda c, f: f"map_filter({c}, {f})" if f.startswith("(") else f"filter({c}, {f})",
             lambda c, f: {k: v for k, v in c.items() if f(k, v)} if isinstance(c, dict) else [x for x in c if f(x)]),
    Function("REDUCE", "C*L", lambda t: t[1], _spark_reduce, _reduce, takes_null=True),
    Function("AS_VALUE", "*", first, "{0}", lambda value: value),
    *GROUP_FUNCTIONS,
    *TEXT_FUNCTIONS,
    *JSON_FUNCTIONS,
    *TIME_FUNCTIONS,
)  # fmt: skip

SYNONYMS = {
    "CEILING": "CEIL",
    "UPPER": "UCASE",
    "LOWER": "LCASE",
    "CHAR_LENGTH": "LEN",
    "CHARACTER_LENGTH": "LEN",
    "LENGTH": "LEN",
    "SUBSTR": "SUBSTRING",
    "STDDEV_SAMPLE": "STDDEV_SAMP",
    # Kinesis Analytics'.
    "LOG10": "LOG",
    "TO_TIMESTAMP": "FROM_UNIXTIME",
    # A draft of KSQL had it.
    "COLLECT_ARRAY": "COLLECT_LIST",
}
# What Spark computes over a window of rows in one call.
SLIDING_FUNCTIONS = frozenset({
    "COUNT", "SUM", "AVG", "MIN", "MAX", "STDDEV_SAMP", "STDDEV_POP", "VAR_SAMP", "VAR_POP", "FIRST_VALUE",
    "LAST_VALUE",
})  # fmt: skip
FUNCTIONS = {function.name: function for function in _TABLE}
# What KSQL or Kinesis Analytics has and this has not, with the reason for those that never can be.
NOT_BUILT = {
    "RANDOM": "it gives another value when a micro-batch is repeated",
    "UUID": "it gives another value when a micro-batch is repeated",
    "CURRENT_ROW_TIMESTAMP": "it is of the rows of an application, in --dialect kinesis-analytics; ROWTIME is a row's",
    **dict.fromkeys(
        ("CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME", "LOCALTIMESTAMP"),
        "on AWS every row has the moment at which its query began; CURRENT_ROW_TIMESTAMP and ROWTIME are a row's own",
    ),
    **dict.fromkeys(
        ("RANDOM_CUT_FOREST", "RANDOM_CUT_FOREST_WITH_EXPLANATION", "HOTSPOTS"),
        "random cuts give another value when a micro-batch is repeated, and PyPI has no kept library of it (the last "
        "release of rrcf is of 2023); a value far from AVG(x) OVER a sliding window is one that stands out",
    ),
    **dict.fromkeys(
        ("TOP_K_ITEMS_TUMBLING", "COUNT_DISTINCT_ITEMS_TUMBLING"),
        "it takes a CURSOR: FROM TABLE(name(CURSOR(SELECT STREAM ..), 'column', ..))",
    ),
    "REGEX_REPLACE": "it is REGEX_REPLACE(text, pattern, new, 1, 0) or REGEXP_REPLACE(text, pattern, new): every match",
    # Names that drafts of KSQL had.
    "SUBLIST": "it is SLICE(array, from, to), whose places count from 1",
    "GROUP_RANK": "it takes a CURSOR, and Spark ranks no rows of a stream; TOPK gives a window's largest values",
    "LAG": "it is of a sliding window: LAG(x, 1) OVER (.. ROWS 1 PRECEDING); MATCH_RECOGNIZE has PREV(x, n)",
    "EXP_AVG": "it is of a sliding window of a time: EXP_AVG(x, INTERVAL '10' SECOND) OVER (.. RANGE INTERVAL ..)",
}  # fmt: skip


def find_function(name: str) -> Function | None:
    """Return the function that SQL calls `name`; None if there is none."""
    upper = name.upper()
    return FUNCTIONS.get(SYNONYMS.get(upper, upper))


def function_of(call: Call) -> Function:
    """Return what a call calls; every name of a resolved call is known."""
    return call.own or FUNCTIONS[call.name]
