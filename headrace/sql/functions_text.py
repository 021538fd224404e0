"""Functions of text (JSON, URLs, masks, encodings, patterns), aggregates and table functions; see `types.py`."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false

from __future__ import annotations

# A value of SQL is of any type until it is computed; re2 has no types.
import base64
import json

# A value of SQL is of any type until it is computed.
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote_plus, unquote, unquote_plus, urlsplit

import re2

from headrace.sql.conversions import as_json, text
from headrace.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT,
    STRING,
    Function,
    SqlType,
    array_of,
    element,
    first,
    map_of,
    present,
    unique,
)

ENCODINGS = ("hex", "utf8", "ascii", "base64")
_MASKS = ("'X'", "'x'", "'n'", "'-'")
_MASK_OF_CATEGORY = {"Lu": 0, "Ll": 1, "Nd": 2}
# The offset of what `to_json` writes of `named_struct('v', ..)`: {"v": and }.
_JSON_OPTIONS = (
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', "
    "'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSXXX')"
)


def read_json(value: str) -> Any:
    """Return the JSON value with which a text begins, as Jackson reads it; raises ValueError."""
    start = len(value) - len(value.lstrip(" \t\r\n"))
    return _DECODER.raw_decode(value, start)[0]


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _is_json(value: str | None) -> bool:
    try:
        read_json(value or "")
    except ValueError:
        return False
    return True


def write_json(value: Any) -> str:
    """Return a value as Spark writes its JSON: a DOUBLE as Java does."""
    if isinstance(value, dict):
        pairs = (f"{write_json(text(key))}:{write_json(item)}" for key, item in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    plain = as_json(value)
    return text(value) if isinstance(value, float) and isinstance(plain, float) else _dump(plain)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_text(value: Any) -> str | None:
    """Return a value within a JSON text as Spark gives it as a STRING."""
    return value if value is None or isinstance(value, str) else _dump(value)


def _read_typed_json(value: str, kind: type) -> Any:
    result = read_json(value)
    if not isinstance(result, kind):
        raise ValueError(value)  # noqa: TRY004 - the text is another one
    return result


def _to_bytes(value: str, encoding: str) -> bytes:
    if encoding == "hex":
        return bytes.fromhex(value)
    if encoding == "base64":
        return base64.b64decode(value, validate=True)
    return value.encode("ascii" if encoding == "ascii" else "utf-8", "replace")


def _from_bytes(value: bytes, encoding: str) -> str:
    if encoding == "hex":
        return value.hex()
    if encoding == "base64":
        return base64.b64encode(value).decode()
    return value.decode("utf-8", "replace")


def _spark_to_bytes(value: str, encoding: str) -> str:
    return {
        "'hex'": f"unhex({value})",
        "'base64'": f"unbase64({value})",
        "'ascii'": f"encode({value}, 'US-ASCII')",
    }.get(encoding, f"encode({value}, 'UTF-8')")


# Of bytes that are no UTF-8 Spark 4 would end the job.
_SPARK_IS_TEXT = (
    "regexp_replace(hex({}), '\\\\G([0-7].|(C[2-9A-F]|D.)[89AB].|E0[AB].[89AB].|E[1-9ABCEF][89AB].[89AB].|"
    "ED[89].[89AB].|F0[9AB].[89AB].[89AB].|F[1-3][89AB].[89AB].[89AB].|F48.[89AB].[89AB].)', '') = ''"
)


def _spark_from_bytes(value: str, encoding: str) -> str:
    return {
        "'hex'": f"lower(hex({value}))",
        # Some versions of Spark break the line after 76 characters.
        "'base64'": f"replace(base64({value}), '\\r\\n', '')",
    }.get(encoding, f"CASE WHEN {_SPARK_IS_TEXT.format(value)} THEN decode({value}, 'UTF-8') END")


def _mask(value: str, *masks: str | None) -> str:
    chosen: list[str | None] = [*masks, *(mask[1] for mask in _MASKS[len(masks) :])]
    return "".join(
        chosen[_MASK_OF_CATEGORY.get(unicodedata.category(character), 3)] or character
        for character in value
    )


def _spark_mask(value: str, *masks: str) -> str:
    return f"mask({', '.join((value, *masks, *_MASKS[len(masks) :]))})"


def _mask_function(name: str, python: Callable[..., str], spark: str) -> Function:
    """Return a MASK function of a part; in `spark`, M and K stand for the masked and the kept part's function."""

    def written(value: str, count: str, *masks: str) -> str:
        text_ = spark.replace("{s}", value).replace("{n}", f"greatest({count}, 0)")
        before, _, rest = text_.partition("M(")
        inner, _, after = rest.partition(")M")
        return before + _spark_mask(inner, *masks) + after

    return Function(name, "SIS?S?S?S?", STRING, written, python, null_from=2)


def _take_left(value: str, count: int) -> str:
    return value[: min(max(count, 0), len(value))]


def _right(value: str, count: int) -> str:
    return value[max(len(value) - max(count, 0), 0) :]


def _url(value: str) -> Any:
    parts = urlsplit(value)
    if any(character.isspace() for character in value) or not re2.fullmatch(_ESCAPED, value):
        raise ValueError(value)
    return parts


_ESCAPED = r"(?s:(?:[^%]|%[0-9A-Fa-f]{2})*)"


def _decoded(text_: str) -> str:
    """Return Spark's text of a part of a URL without its escapes; unlike in a form, a plus is one."""
    return f"url_decode(replace({text_}, '+', '%2B'))"


def _spark_parameter(url: str, name: str) -> str:
    key = _decoded("substring_index(p, '=', 1)")
    value = _decoded("substring(p, instr(p, '=') + 1)")
    parts = (
        f"filter(split(parse_url({url}, 'QUERY'), '&'), p -> {key} = {name} AND instr(p, '=') > 0)"
    )
    return f"get(transform({parts}, p -> {value}), 0)"


def _parameter(value: str, name: str) -> str | None:
    pairs = (part.partition("=") for part in _url(value).query.split("&"))
    return next(
        (unquote(of) for key, is_pair, of in pairs if is_pair and unquote(key) == name), None
    )


def _matches(pattern: str, value: str, group: int = 0) -> list[str]:
    return [str(match.group(group) or "") for match in re2.finditer(pattern, value)]


def _split_by(value: str, pattern: str) -> list[str]:
    parts: list[str] = []
    position = 0
    for match in re2.finditer(pattern, value):
        if match.end() > match.start():
            parts.append(value[position : match.start()])
            position = match.end()
    return [*parts, value[position:]]


def _split_to_map(value: str, between: str, within: str) -> dict[str, str]:
    pairs = [entry.split(within) for entry in value.split(between)]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def literal_split(value: str, delimiter: str) -> str:
    """Return how Spark splits a text at a delimiter that is no pattern."""
    quoted = f"replace({delimiter}, '\\\\E', '\\\\E\\\\\\\\E\\\\Q')"
    return f"split({value}, concat('\\\\Q', {quoted}, '\\\\E'), -1)"


def _spark_split_to_map(value: str, between: str, within: str) -> str:
    pairs = f"transform({literal_split(value, between)}, e -> {literal_split('e', within)})"
    pairs = f"transform(filter({pairs}, p -> size(p) = 2), p -> struct(p[0], p[1]))"
    return f"CASE WHEN {between} <> '' AND {within} <> '' THEN map_from_entries({pairs}) END"


def _nth(number: int, *values: str) -> str | None:
    return values[number - 1] if 0 < number <= len(values) else None


def _place(value: str | None, *values: str | None) -> int:
    return 0 if value is None or value not in values else values.index(value) + 1


TEXT_FUNCTIONS: tuple[Function, ...] = (
    # Text and bytes.
    Function("ELT", "IS+", STRING, lambda *a: f"elt({', '.join(a)})", _nth, null_from=1),
    Function("FIELD", "SS+", INT, lambda s, *a: f"cast(coalesce(array_position(array({', '.join(a)}), {s}), 0) AS INT)",
             _place, takes_null=True),
    Function("ENCODE", "SEE", STRING, lambda s, a, b: _spark_from_bytes(_spark_to_bytes(s, a), b),
             lambda s, a, b: _from_bytes(_to_bytes(s, a), b)),
    Function("TO_BYTES", "SE", BYTES, _spark_to_bytes, _to_bytes),
    Function("FROM_BYTES", "XE", STRING, _spark_from_bytes, _from_bytes),
    Function("REGEXP_EXTRACT_ALL", "SSI?", array_of(STRING),
             lambda p, s, n="0": f"regexp_extract_all({s}, {p}, {n})", _matches),
    Function("REGEXP_SPLIT_TO_ARRAY", "SS", array_of(STRING), "split({0}, {1}, -1)", _split_by),
    Function("SPLIT_TO_MAP", "SSS", map_of(STRING, STRING), _spark_split_to_map,
             lambda s, a, b: _split_to_map(s, a, b) if a and b else None),
    Function("MASK", "SS?S?S?S?", STRING, _spark_mask, _mask, null_from=1),
    _mask_function("MASK_LEFT", lambda s, n, *m: _mask(_take_left(s, n), *m) + s[max(n, 0) :],
                 "concat(M(left({s}, {n}))M, substring({s}, {n} + 1))"),
    _mask_function("MASK_RIGHT", lambda s, n, *m: _take_left(s, len(s) - n) + _mask(_right(s, n), *m),
                 "concat(left({s}, greatest(length({s}) - {n}, 0)), M(right({s}, {n}))M)"),
    _mask_function("MASK_KEEP_LEFT", lambda s, n, *m: _take_left(s, n) + _mask(s[max(n, 0) :], *m),
                 "concat(left({s}, {n}), M(substring({s}, {n} + 1))M)"),
    _mask_function("MASK_KEEP_RIGHT", lambda s, n, *m: _mask(_take_left(s, len(s) - n), *m) + _right(s, n),
                 "concat(M(left({s}, greatest(length({s}) - {n}, 0)))M, right({s}, {n}))"),
    # JSON.
    Function("IS_JSON_STRING", "S", BOOLEAN,
             "coalesce(trim({0}) = 'null' OR get_json_object({0}, '$') IS NOT NULL, false)", _is_json, takes_null=True),
    Function("JSON_ARRAY_LENGTH", "S", INT, "json_array_length({0})", lambda s: len(_read_typed_json(s, list))),
    Function("JSON_KEYS", "S", array_of(STRING), "json_object_keys({0})", lambda s: list(_read_typed_json(s, dict))),
    Function("JSON_ITEMS", "S", array_of(STRING), "from_json({0}, 'ARRAY<STRING>')",
             lambda s: [json_text(item) for item in _read_typed_json(s, list)]),
    Function("JSON_RECORDS", "S", map_of(STRING, STRING), "from_json({0}, 'MAP<STRING, STRING>')",
             lambda s: {key: json_text(item) for key, item in _read_typed_json(s, dict).items()}),
    Function("TO_JSON_STRING", "*", STRING,
             lambda v: f"regexp_replace(to_json(named_struct('v', {v}), {_JSON_OPTIONS}), '^.{{5}}|.$', '')",
             write_json, takes_null=True),
    # URLs.
    Function("URL_ENCODE_PARAM", "S", STRING, "url_encode({0})",
             lambda s: quote_plus(s, safe="*-._").replace("~", "%7E")),
    Function("URL_DECODE_PARAM", "S", STRING,
             "CASE WHEN {0} RLIKE '^([^%]|%[0-9A-Fa-f][0-9A-Fa-f])*$' THEN url_decode({0}) END",
             lambda s: unquote_plus(s) if re2.fullmatch(_ESCAPED, s) else None),
    Function("URL_EXTRACT_PROTOCOL", "S", STRING, "parse_url({0}, 'PROTOCOL')", lambda s: _url(s).scheme or None),
    Function("URL_EXTRACT_HOST", "S", STRING, "parse_url({0}, 'HOST')", lambda s: _url(s).hostname),
    Function("URL_EXTRACT_PORT", "S", INT,
             "try_cast(nullif(regexp_extract(parse_url({0}, 'AUTHORITY'), ':([0-9]+)$', 1), '') AS INT)",
             lambda s: _url(s).port),
    Function("URL_EXTRACT_PATH", "S", STRING, _decoded("parse_url({0}, 'PATH')"), lambda s: unquote(_url(s).path)),
    Function("URL_EXTRACT_QUERY", "S", STRING, _decoded("parse_url({0}, 'QUERY')"),
             lambda s: unquote(_url(s).query) or None),
    Function("URL_EXTRACT_FRAGMENT", "S", STRING, _decoded("parse_url({0}, 'REF')"),
             lambda s: unquote(_url(s).fragment) or None),
    Function("URL_EXTRACT_PARAMETER", "SS", STRING, _spark_parameter, _parameter),
)  # fmt: skip


def _array_of_first(types: Sequence[SqlType]) -> SqlType:
    return array_of(types[0])


def _sum_type(types: Sequence[SqlType]) -> SqlType:
    return types[0] if types[0].name in ("DOUBLE", "DECIMAL") else BIGINT


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
    spreads = [math.sqrt(sum((pair[side] - means[side]) ** 2 for pair in pairs)) for side in (0, 1)]
    together = sum((x - means[0]) * (y - means[1]) for x, y in pairs)
    return (
        together / (spreads[0] * spreads[1])
        if all(spreads)
        else None
        if len(pairs) > 1
        else math.nan
    )


def _histogram(values: Sequence[Any]) -> dict[str, int]:
    return dict(Counter(map(str, present(values))))


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


# The order in which rows came, in Spark: `_order` is a column of every stream's rows.
_IN_ORDER = "transform(array_sort(collect_list(struct(_order, {0} AS v))), s -> s.v)"
_TOP = "slice(sort_array(collect_list({0}), false), 1, {1})"
_TOP_DISTINCT = "slice(sort_array(collect_set({0}), false), 1, {1})"
_HISTOGRAM = (
    "map_from_entries(transform(array_distinct(collect_list(cast({0} AS STRING))), "
    "v -> struct(v, cast(size(filter(collect_list(cast({0} AS STRING)), w -> w = v)) AS BIGINT))))"
)

GROUP_FUNCTIONS: tuple[Function, ...] = (
    # Aggregates: `python` gets the list of a group's values, in the order of the rows.
    Function("COUNT", "*", BIGINT, "count({0})", lambda v: len(present(v)), "aggregate"),
    Function("COUNT_DISTINCT", "*", BIGINT, "size(collect_set({0}))", lambda v: len(unique(present(v))),
             "aggregate"),
    Function("SUM", "N", _sum_type, "sum({0})", _sum, "aggregate"),
    Function("AVG", "N", DOUBLE, "avg(cast({0} AS DOUBLE))",
             lambda v: sum(map(float, present(v))) / len(present(v)) if present(v) else None, "aggregate"),
    Function("MIN", "*", first, "min({0})", lambda v: min(present(v), default=None), "aggregate"),
    Function("MAX", "*", first, "max({0})", lambda v: max(present(v), default=None), "aggregate"),
    # A number of values, and whether NULL is left out (true, if nothing is said).
    Function("LATEST_BY_OFFSET", "*K?K?", _offset_type, _by_offset("max"),
             lambda v, *rest: _of_offset(v, rest, latest=True), "aggregate"),
    Function("EARLIEST_BY_OFFSET", "*K?K?", _offset_type, _by_offset("min"),
             lambda v, *rest: _of_offset(v, rest, latest=False), "aggregate"),
    Function("FIRST_VALUE", "*", first, "min_by(struct({0} AS v), _order).v", lambda v: v[0], "aggregate"),
    Function("LAST_VALUE", "*", first, "max_by(struct({0} AS v), _order).v", lambda v: v[-1], "aggregate"),
    Function("ATTR", "*", first, "CASE WHEN count({0}) = count(1) AND size(collect_set({0})) = 1 THEN max({0}) END",
             lambda v: v[0] if None not in v and len(unique(v)) == 1 else None, "aggregate"),
    Function("CORRELATION", "NN", DOUBLE, "corr(cast({0} AS DOUBLE), cast({1} AS DOUBLE))", _correlation, "aggregate",
             takes_rows=True),
    Function("COLLECT_LIST", "*", _array_of_first, _IN_ORDER, list, "aggregate"),
    Function("COLLECT_SET", "*", _array_of_first, f"array_distinct({_IN_ORDER})", unique, "aggregate"),
    Function("TOPK", "*I", _array_of_first, _TOP, lambda v, n: sorted(present(v), reverse=True)[:n], "aggregate"),
    Function("TOPKDISTINCT", "*I", _array_of_first, _TOP_DISTINCT,
             lambda v, n: sorted(unique(present(v)), reverse=True)[:n], "aggregate"),
    Function("HISTOGRAM", "*", map_of(STRING, BIGINT), _HISTOGRAM, _histogram, "aggregate"),
    Function("STDDEV_SAMP", "N", DOUBLE, "stddev_samp({0})", lambda v: _root(_spread(v, 1)), "aggregate"),
    Function("STDDEV_POP", "N", DOUBLE, "stddev_pop({0})", lambda v: _root(_spread(v, 0)), "aggregate"),
    Function("VAR_SAMP", "N", DOUBLE, "var_samp({0})", lambda v: _spread(v, 1), "aggregate"),
    Function("VAR_POP", "N", DOUBLE, "var_pop({0})", lambda v: _spread(v, 0), "aggregate"),
    # Table functions: a row becomes as many as the array has.
    Function("EXPLODE", "A", element, "explode({0})", list, "table"),
    Function("CUBE_EXPLODE", "A", first, _SPARK_CUBE, _cube, "table"),
)  # fmt: skip
