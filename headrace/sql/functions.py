"""The functions of queries: one table for types, for Spark and for the runner without Spark.

A function's `parameters` are a letter each: S text, I whole number, N number, B boolean, T timestamp, X bytes,
A array, M map, L lambda, * anything; `?` after a letter makes it optional, and a last `+` repeats the letter before.
`result` is a type or a function of the arguments' types. `spark` is Spark SQL's expression with `{0}` for the first
argument's, or a function of all of them; it means the same in Spark 3.5, 4.0 and 4.1. `python` gets values
that are not None, unless `takes_null`; an exception of it makes the value NULL, as ksqlDB does.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false
# A value of SQL is of any type until it is computed; re2 has no types.
from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import re2

from headrace.sql import java_times
from headrace.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    SqlType,
    array_of,
    common,
    map_of,
)

Result = SqlType | Callable[[Sequence[SqlType]], SqlType]
# A text that a function makes is at most this long, a collection this large: a query's row is a record of 10 MiB.
MOST_CHARACTERS = 10 * 1024 * 1024
MOST_ITEMS = 100_000


@dataclass(frozen=True)
class Function:
    """A function; see the module's docstring. `kind` is scalar, aggregate or table."""

    name: str
    parameters: str
    result: Result
    spark: str | Callable[..., str]
    python: Callable[..., Any]
    kind: str = "scalar"
    takes_null: bool = False

    def bounds(self) -> tuple[int, float]:
        """Return the least and the most arguments."""
        letters = self.parameters.replace("+", "")
        optional = letters.count("?")
        count = len(letters) - optional
        return count - optional, math.inf if self.parameters.endswith("+") else count

    def parameter(self, index: int) -> str:
        """Return the letter of an argument."""
        letters = self.parameters.replace("+", "").replace("?", "")
        return letters[min(index, len(letters) - 1)]

    def result_type(self, types: Sequence[SqlType]) -> SqlType:
        """Return the type of a call with arguments of `types`."""
        return self.result if isinstance(self.result, SqlType) else self.result(types)

    def spark_text(self, arguments: Sequence[str]) -> str:
        """Return Spark SQL's expression of a call."""
        return (
            self.spark.format(*arguments) if isinstance(self.spark, str) else self.spark(*arguments)
        )


def _first(types: Sequence[SqlType]) -> SqlType:
    return types[0]


def _all(types: Sequence[SqlType]) -> SqlType:
    """Return the type that holds every argument's values."""
    result = types[0]
    for type_ in types[1:]:
        result = common(result, type_) or result
    return result


def _element(types: Sequence[SqlType]) -> SqlType:
    return types[0].of[0] if types[0].of else STRING


def _array_of_first(types: Sequence[SqlType]) -> SqlType:
    return array_of(types[0])


def _keys(types: Sequence[SqlType]) -> SqlType:
    return array_of(types[0].of[0])


def _values(types: Sequence[SqlType]) -> SqlType:
    return array_of(types[0].of[1])


def _sum_type(types: Sequence[SqlType]) -> SqlType:
    return types[0] if types[0].name in ("DOUBLE", "DECIMAL") else BIGINT


def _round_type(types: Sequence[SqlType]) -> SqlType:
    if len(types) == 1:
        return BIGINT if types[0].name != "DECIMAL" else types[0]
    return types[0]


def _substring(text: str, start: int, length: int | None = None) -> str:
    """Return a part as Spark and KSQL count: from 1, or from the end if negative."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _round(number: Any, digits: int = 0) -> Any:
    """Return `number` rounded half up, away from zero as Spark rounds."""
    if isinstance(number, int) and digits >= 0:
        return number
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(number)
    value = Decimal(str(number)).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    return value if isinstance(number, Decimal) else float(value)


def _rounded_whole(number: Any) -> Any:
    value = _round(number)
    return value if isinstance(value, Decimal) else int(value)


def _split(text: str, delimiter: str) -> list[str]:
    return text.split(delimiter) if delimiter else list(text)


def _pad(text: str, length: int, padding: str, *, left: bool) -> str:
    if length > MOST_CHARACTERS:
        raise ValueError(length)
    if len(text) >= length or not padding:
        return text[: max(length, 0)]
    filling = (padding * (length // len(padding) + 1))[: length - len(text)]
    return filling + text if left else text + filling


def _unique(items: Sequence[Any]) -> list[Any]:
    result: list[Any] = []
    for item in items:
        if item not in result:
            result.append(item)
    return result


def _json_at(text: str, path: str) -> str | None:
    """Return the value at a JSON path of names and indexes, `$.a.b[0]`, as text."""
    value: Any = json.loads(text)
    for name, index in re2.findall(r"\.(\w+)|\[(\d+)\]", path.removeprefix("$")):
        value = value[name] if name else value[int(index)]
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def _extract(text: str, pattern: str, group: int = 0) -> str | None:
    match = re2.search(pattern, text)
    return None if match is None else str(match.group(group) or "")


def _series(first: int, last: int, step: int | None = None) -> list[int]:
    step = step or (1 if last >= first else -1)
    if abs(last - first) // abs(step) >= MOST_ITEMS:
        raise ValueError(last)
    return list(range(first, last + (1 if step > 0 else -1), step))


def _millis(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _moment(millis: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


def _ordered(values: Sequence[Any]) -> list[Any]:
    present = sorted(value for value in values if value is not None)
    return [*present, *[None] * (len(values) - len(present))]


def _histogram(values: Sequence[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        if value is not None:
            counts[str(value)] = counts.get(str(value), 0) + 1
    return counts


def _spread(values: Sequence[Any], least: int) -> float | None:
    """Return the squared distance from the mean over n - least; None with fewer values than it needs."""
    numbers = [float(value) for value in values if value is not None]
    if len(numbers) <= least:
        return None
    mean = sum(numbers) / len(numbers)
    return sum((number - mean) ** 2 for number in numbers) / (len(numbers) - least)


def _present(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _root(number: float | None) -> float | None:
    return None if number is None else math.sqrt(number)


def _sum(values: Sequence[Any]) -> Any:
    numbers = _present(values)
    return sum(numbers[1:], numbers[0]) if numbers else None


# The order in which rows came, in Spark: `_order` is a column of every stream's rows.
_IN_ORDER = "transform(array_sort(collect_list(struct(_order, {0} AS v))), s -> s.v)"
_TOP = "slice(sort_array(collect_list({0}), false), 1, {1})"
_TOP_DISTINCT = "slice(sort_array(collect_set({0}), false), 1, {1})"
_HISTOGRAM = (
    "map_from_entries(transform(array_distinct(collect_list(cast({0} AS STRING))), "
    "v -> struct(v, cast(size(filter(collect_list(cast({0} AS STRING)), w -> w = v)) AS BIGINT))))"
)

_TABLE: tuple[Function, ...] = (
    # Numbers.
    Function("ABS", "N", _first, "abs({0})", abs),
    # Of a DOUBLE it is a DOUBLE, of which Spark would make a BIGINT.
    Function("CEIL", "N", lambda t: BIGINT if t[0].is_integer else t[0],
             "({0} - {0} + ceil({0}))", lambda x: float(math.ceil(x)) if isinstance(x, float) else math.ceil(x)),
    Function("FLOOR", "N", lambda t: BIGINT if t[0].is_integer else t[0],
             "({0} - {0} + floor({0}))", lambda x: float(math.floor(x)) if isinstance(x, float) else math.floor(x)),
    Function("ROUND", "NI?", _round_type,
             lambda x, n=None: f"round({x}, {n})" if n else f"cast(round({x}) AS BIGINT)",
             lambda x, n=None: _rounded_whole(x) if n is None else _round(x, n)),
    Function("SQRT", "N", DOUBLE, "sqrt(cast({0} AS DOUBLE))", lambda x: math.sqrt(x) if x >= 0 else math.nan),
    Function("EXP", "N", DOUBLE, "exp(cast({0} AS DOUBLE))", math.exp),
    Function("LN", "N", DOUBLE, "ln(cast({0} AS DOUBLE))", math.log),
    Function("POWER", "NN", DOUBLE, "power({0}, {1})", lambda x, y: float(x) ** float(y)),
    Function("SIGN", "N", INT, "cast(sign({0}) AS INT)", lambda x: (x > 0) - (x < 0)),
    Function("MOD", "NN", _all, "({0} % {1})",
             lambda x, y: math.fmod(x, y) if isinstance(x, float) else x - y * int(Decimal(x) / Decimal(y))),
    Function("GREATEST", "**+", _all, lambda *a: f"greatest({', '.join(a)})",
             lambda *a: max(_present(a), default=None), takes_null=True),
    Function("LEAST", "**+", _all, lambda *a: f"least({', '.join(a)})",
             lambda *a: min(_present(a), default=None), takes_null=True),
    # Text.
    Function("CONCAT", "SS+", STRING, lambda *a: f"concat_ws('', {', '.join(a)})",
             lambda *a: "".join(_present(a)), takes_null=True),
    Function("CONCAT_WS", "SS+", STRING, lambda *a: f"concat_ws({', '.join(a)})",
             lambda s, *a: None if s is None else s.join(_present(a)), takes_null=True),
    Function("INITCAP", "S", STRING, "initcap({0})",
             lambda s: " ".join(w[:1].upper() + w[1:].lower() for w in s.split(" "))),
    Function("INSTR", "SS", INT, "instr({0}, {1})", lambda s, part: s.find(part) + 1),
    Function("LCASE", "S", STRING, "lower({0})", str.lower),
    Function("UCASE", "S", STRING, "upper({0})", str.upper),
    Function("LEN", "S", INT, "length({0})", len),
    Function("LPAD", "SIS", STRING, "lpad({0}, {1}, {2})", lambda s, n, p: _pad(s, n, p, left=True)),
    Function("RPAD", "SIS", STRING, "rpad({0}, {1}, {2})", lambda s, n, p: _pad(s, n, p, left=False)),
    Function("REPLACE", "SSS", STRING, "replace({0}, {1}, {2})",
             lambda s, old, new: s.replace(old, new) if old else s),
    Function("REGEXP_EXTRACT", "SSI?", STRING,
             lambda p, s, n="0": f"CASE WHEN {s} RLIKE {p} THEN regexp_extract({s}, {p}, {n}) END",
             lambda p, s, n=0: _extract(s, p, n)),
    Function("REGEXP_REPLACE", "SSS", STRING, "regexp_replace({0}, {1}, {2})", lambda s, p, new: re2.sub(p, new, s)),
    Function("SPLIT", "SS", array_of(STRING), lambda s, d: f"split({s}, concat('\\\\Q', {d}, '\\\\E'), -1)", _split),
    Function("SUBSTRING", "SII?", STRING, lambda *a: f"substring({', '.join(a)})", _substring),
    Function("TRIM", "S", STRING, "trim({0})", lambda s: s.strip(" ")),
    Function("CHR", "I", STRING, "chr({0})", chr),
    Function("COALESCE", "**+", _all, lambda *a: f"coalesce({', '.join(a)})",
             lambda *a: next(iter(_present(a)), None), takes_null=True),
    Function("NULLIF", "**", _first, "nullif({0}, {1})", lambda a, b: None if a == b else a, takes_null=True),
    Function("IFNULL", "**", _all, "coalesce({0}, {1})", lambda a, b: b if a is None else a, takes_null=True),
    Function("EXTRACTJSONFIELD", "SS", STRING, "get_json_object({0}, {1})", _json_at),
    # Collections.
    Function("ARRAY_CONTAINS", "A*", BOOLEAN, "array_contains({0}, {1})", lambda a, x: x in a),
    Function("ARRAY_LENGTH", "A", INT, "array_size({0})", len),
    Function("ARRAY_DISTINCT", "A", _first, "array_distinct({0})", _unique),
    Function("ARRAY_EXCEPT", "AA", _first, "array_except({0}, {1})",
             lambda a, b: _unique([x for x in a if x not in b])),
    Function("ARRAY_INTERSECT", "AA", _first, "array_intersect({0}, {1})",
             lambda a, b: _unique([x for x in a if x in b])),
    Function("ARRAY_UNION", "AA", _first, "array_union({0}, {1})", lambda a, b: _unique([*a, *b])),
    Function("ARRAY_CONCAT", "AA", _first, "concat({0}, {1})", lambda a, b: [*a, *b]),
    Function("ARRAY_JOIN", "AS?", STRING, lambda a, d="','": f"array_join({a}, {d})",
             lambda a, d=",": d.join(str(x) for x in _present(a))),
    Function("ARRAY_MAX", "A", _element, "array_max({0})", lambda a: max(_present(a), default=None)),
    Function("ARRAY_MIN", "A", _element, "array_min({0})", lambda a: min(_present(a), default=None)),
    Function("ARRAY_REMOVE", "A*", _first, "array_remove({0}, {1})", lambda a, x: [y for y in a if y != x]),
    Function("ARRAY_SORT", "A", _first, "array_sort({0})", _ordered),
    Function("SLICE", "AII", _first, "slice({0}, {1}, {2} - {1} + 1)", lambda a, first, last: a[first - 1 : last]),
    Function("GENERATE_SERIES", "III?", lambda t: array_of(_all(t)), lambda *a: f"sequence({', '.join(a)})", _series),
    Function("MAP_KEYS", "M", _keys, "map_keys({0})", list),
    Function("MAP_VALUES", "M", _values, "map_values({0})", lambda m: list(m.values())),
    Function("TRANSFORM", "AL", lambda t: array_of(t[1]), "transform({0}, {1})", lambda a, f: [f(x) for x in a]),
    Function("FILTER", "AL", _first, "filter({0}, {1})", lambda a, f: [x for x in a if f(x)]),
    Function("REDUCE", "A*L", lambda t: t[1], "aggregate({0}, {1}, {2})", lambda a, start, f: _reduce(a, start, f)),
    # Times.
    Function("FROM_UNIXTIME", "I", TIMESTAMP, "timestamp_millis({0})", _moment),
    Function("UNIX_TIMESTAMP", "T", BIGINT, "unix_millis({0})", _millis),
    Function("FORMAT_TIMESTAMP", "TS", STRING, "date_format({0}, {1})", java_times.write),
    Function("PARSE_TIMESTAMP", "SS", TIMESTAMP, "to_timestamp({0}, {1})", java_times.read),
    Function("TIMESTAMPTOSTRING", "IS", STRING, "date_format(timestamp_millis({0}), {1})",
             lambda ms, f: java_times.write(_moment(ms), f)),
    Function("STRINGTOTIMESTAMP", "SS", BIGINT, "unix_millis(to_timestamp({0}, {1}))",
             lambda s, f: _millis(java_times.read(s, f))),
    # Aggregates: `python` gets the list of a group's values, in the order of the rows.
    Function("COUNT", "*", BIGINT, "count({0})", lambda v: len(_present(v)), "aggregate"),
    Function("COUNT_DISTINCT", "*", BIGINT, "size(collect_set({0}))", lambda v: len(_unique(_present(v))),
             "aggregate"),
    Function("SUM", "N", _sum_type, "sum({0})", _sum, "aggregate"),
    Function("AVG", "N", DOUBLE, "avg(cast({0} AS DOUBLE))",
             lambda v: sum(map(float, _present(v))) / len(_present(v)) if _present(v) else None, "aggregate"),
    Function("MIN", "*", _first, "min({0})", lambda v: min(_present(v), default=None), "aggregate"),
    Function("MAX", "*", _first, "max({0})", lambda v: max(_present(v), default=None), "aggregate"),
    Function("LATEST_BY_OFFSET", "*", _first, "max_by({0}, _order) FILTER (WHERE {0} IS NOT NULL)",
             lambda v: next(iter(_present(v)[::-1]), None), "aggregate"),
    Function("EARLIEST_BY_OFFSET", "*", _first, "min_by({0}, _order) FILTER (WHERE {0} IS NOT NULL)",
             lambda v: next(iter(_present(v)), None), "aggregate"),
    Function("COLLECT_LIST", "*", _array_of_first, _IN_ORDER, list, "aggregate"),
    Function("COLLECT_SET", "*", _array_of_first, f"array_distinct({_IN_ORDER})", _unique, "aggregate"),
    Function("TOPK", "*I", _array_of_first, _TOP, lambda v, n: sorted(_present(v), reverse=True)[:n], "aggregate"),
    Function("TOPKDISTINCT", "*I", _array_of_first, _TOP_DISTINCT,
             lambda v, n: sorted(_unique(_present(v)), reverse=True)[:n], "aggregate"),
    Function("HISTOGRAM", "*", map_of(STRING, BIGINT), _HISTOGRAM, _histogram, "aggregate"),
    Function("STDDEV_SAMP", "N", DOUBLE, "stddev_samp({0})", lambda v: _root(_spread(v, 1)), "aggregate"),
    Function("STDDEV_POP", "N", DOUBLE, "stddev_pop({0})", lambda v: _root(_spread(v, 0)), "aggregate"),
    Function("VAR_SAMP", "N", DOUBLE, "var_samp({0})", lambda v: _spread(v, 1), "aggregate"),
    Function("VAR_POP", "N", DOUBLE, "var_pop({0})", lambda v: _spread(v, 0), "aggregate"),
    # Table functions: a row becomes as many as the array has.
    Function("EXPLODE", "A", _element, "explode({0})", list, "table"),
)  # fmt: skip

_SYNONYMS = {
    "CEILING": "CEIL",
    "UPPER": "UCASE",
    "LOWER": "LCASE",
    "CHAR_LENGTH": "LEN",
    "CHARACTER_LENGTH": "LEN",
    "LENGTH": "LEN",
    "SUBSTR": "SUBSTRING",
    "STDDEV_SAMPLE": "STDDEV_SAMP",
}
FUNCTIONS = {function.name: function for function in _TABLE}
# What KSQL or Kinesis Analytics has and this has not, with the reason for those that never can be.
NOT_BUILT = {
    "RANDOM": "it gives another value when a micro-batch is repeated",
    "UUID": "it gives another value when a micro-batch is repeated",
    "UNIX_DATE": "",
    "CURRENT_TIMESTAMP": "it gives another value when a micro-batch is repeated; use ROWTIME",
    "CURRENT_ROW_TIMESTAMP": "it gives another value when a micro-batch is repeated; use ROWTIME",
    "RANDOM_CUT_FOREST": "Spark has no such algorithm on streams",
    "RANDOM_CUT_FOREST_WITH_EXPLANATION": "Spark has no such algorithm on streams",
    "HOTSPOTS": "Spark has no such algorithm on streams",
    **dict.fromkeys(
        (
            "GEO_DISTANCE", "ENCODE", "FIELD", "ELT", "MASK", "MASK_KEEP_LEFT", "MASK_KEEP_RIGHT", "MASK_LEFT",
            "MASK_RIGHT", "REGEXP_SPLIT_TO_ARRAY", "TO_BYTES", "FROM_BYTES", "LOG", "CBRT", "SIN", "COS", "TAN", "PI",
            "ASIN", "ACOS", "ATAN", "ATAN2", "DEGREES", "RADIANS", "TRUNC", "AS_MAP", "ENTRIES", "MAP_UNION",
            "IS_JSON_STRING", "JSON_ARRAY_CONTAINS", "JSON_ARRAY_LENGTH", "JSON_CONCAT", "JSON_ITEMS", "JSON_KEYS",
            "JSON_RECORDS", "TO_JSON_STRING", "CONVERT_TZ", "DATEADD", "DATESUB", "TIMEADD", "TIMESUB", "TIMESTAMPADD",
            "TIMESTAMPSUB", "FORMAT_DATE", "FORMAT_TIME", "PARSE_DATE", "PARSE_TIME", "FROM_DAYS", "CORRELATION",
            "CUBE_EXPLODE", "TOP_K_ITEMS_TUMBLING", "COUNT_DISTINCT_ITEMS_TUMBLING", "GROUP_RANK", "TSDIFF",
            "URL_DECODE_PARAM", "URL_ENCODE_PARAM", "URL_EXTRACT_HOST", "URL_EXTRACT_PARAMETER", "URL_EXTRACT_PATH",
            "FIRST_VALUE", "LAST_VALUE", "LAG", "EXP_AVG", "VARIABLE_COLUMN_LOG_PARSE", "FAST_REGEX_LOG_PARSER",
            "W3C_LOG_PARSE", "SYS_LOG_PARSE", "REGEX_LOG_PARSE", "STEP_MEDIAN",
        ),
        "",
    ),
}  # fmt: skip


def _reduce(items: Sequence[Any], start: Any, function: Callable[[Any, Any], Any]) -> Any:
    result = start
    for item in items:
        result = function(result, item)
    return result


def find_function(name: str) -> Function | None:
    """Return the function that SQL calls `name`; None if there is none."""
    upper = name.upper()
    return FUNCTIONS.get(_SYNONYMS.get(upper, upper))
