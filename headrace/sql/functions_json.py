"""Functions of JSON in texts; `headrace/sql/types.py` says what the fields mean."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false
# A value of SQL is of any type until it is computed; re2 has no types.
from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import re2

from headrace.sql.conversions import as_json, text
from headrace.sql.types import (
    BOOLEAN,
    INT,
    STRING,
    Function,
    array_of,
    map_of,
)

# The offset of what `to_json` writes of `named_struct('v', ..)`: {"v": and }.
_JSON_OPTIONS = (
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', "
    "'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSS')"
)


def read_json(value: str) -> Any:
    """Return the JSON value with which a text begins, as Jackson reads it; raises ValueError."""
    start = len(value) - len(value.lstrip(" \t\r\n"))
    try:
        result, end = _DECODER.raw_decode(value, start)
    except RecursionError:
        raise ValueError("JSON of too many levels") from None
    if isinstance(result, (int, float)) and value[end : end + 1].strip(" \t\r\n"):
        # What follows an object or a text is not read; a number of 2026-01-31 is none.
        raise ValueError(value)
    return result


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
    if isinstance(value, datetime):
        # ksqlDB names no zone.
        plain = plain.removesuffix("Z")
    return text(value) if isinstance(value, float) and isinstance(plain, float) else _dump(plain)


# A path of names and of places; $.* and [*] are Spark's own.
JSON_PATH = r"\$(\.[^.\[*]+|\['[^'*]*'\]|\[[0-9]+\])*"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_text(value: Any) -> str | None:
    """Return a value within a JSON text as Spark gives it as a STRING."""
    return value if value is None or isinstance(value, str) else write_json(value)


def _read_typed_json(value: str, kind: type) -> Any:
    result = read_json(value)
    if not isinstance(result, kind):
        raise ValueError(value)  # noqa: TRY004 - the text is another one
    return result


def _json_at(text: str, path: str) -> str | None:
    """Return the value at a JSON path of names and indexes, `$.a.b[0]`, as text."""
    if not re2.fullmatch(JSON_PATH, path):
        return None
    value = read_json(text)
    for name, quoted, index in re2.findall(r"\.([^.\[]+)|\['([^']*)'\]|\[(\d+)\]", path):
        if index and not isinstance(value, list):
            return None
        value = value[int(index)] if index else value[name or quoted]
    return json_text(value)


def _spark_json_at(text: str, path: str) -> str:
    # Spark's paths have wildcards too, and a name's brackets; a constant needs no test.
    found = f"get_json_object({text}, {path})"
    if path.startswith("'") and re2.fullmatch(JSON_PATH, path[1:-1]):
        return found
    pattern = JSON_PATH.replace("\\", "\\\\").replace("'", "\\'")
    return f"CASE WHEN {path} RLIKE '^{pattern}$' THEN {found} END"


def _array_contains(array: str | None, value: Any) -> bool:
    """Return whether an array of JSON has a value, of exactly its kind: a text is no number, 1 is not 1.0."""
    try:
        items = _read_typed_json(array or "", list)
    except ValueError:
        return False
    wanted = float(value) if isinstance(value, Decimal) else value
    return any(type(item) is type(wanted) and item == wanted for item in items)


def _concat(*texts: str) -> str:
    """Return what objects hold together, the later one's where both have a name, or else a list of all items."""
    values = [read_json(one) for one in texts]
    if all(isinstance(value, dict) for value in values):
        return write_json({key: item for value in values for key, item in value.items()})
    return write_json(
        [item for value in values for item in (value if isinstance(value, list) else [value])]
    )


# Spark reads each item of JSON as a text, and a text like a number: an "s" before each text tells them apart. Without
# \\ and \" a text ends at the next quote, so that no pattern of Java's goes deep.
_BACKSLASH, _QUOTE = "'\\\\u005c'", "'\\\\u0022'"
_PLAIN = f"replace(replace({{}}, '\\\\\\\\', {_BACKSLASH}), '\\\\\"', {_QUOTE})"


def _spark_marked(text_: str) -> str:
    return f'regexp_replace({_PLAIN.format(text_)}, \'"([^"]*)"\', \'"s$1"\')'


def _spark_array_contains(array: str, value: str) -> str:
    items = f"from_json({_spark_marked(array)}, 'ARRAY<STRING>')"
    number = f"_x RLIKE '^-?[0-9]+[.eE]' AND try_cast(_x AS DOUBLE) = try_cast({value} AS DOUBLE)"
    other = f"if(typeof({value}) = 'string', concat('s', {value}), cast({value} AS STRING))"
    return (
        f"coalesce(CASE WHEN {value} IS NULL THEN exists({items}, _x -> _x IS NULL) "
        f"WHEN typeof({value}) RLIKE 'double|decimal' THEN exists({items}, _x -> coalesce({number}, false)) "
        f"ELSE array_contains({items}, {other}) END, false)"
    )


def _spark_quoted(text_: str) -> str:
    return f"regexp_replace(to_json(named_struct('v', {text_})), '^.{{5}}|.$', '')"


def _spark_concat(*texts: str) -> str:
    first = "substring(regexp_replace({}, '^[ \\\\t\\\\r\\\\n]+', ''), 1, 1)"
    parts: list[str] = []
    for one in texts:
        whole = f"get_json_object({one}, '$')"
        parts.append(
            f"CASE {first.format(one)} WHEN '[' THEN substring({whole}, 2, length({whole}) - 2) "
            f"WHEN '\"' THEN {_spark_quoted(whole)} WHEN 'n' THEN 'null' ELSE {whole} END"
        )
    items = f"array_join(filter(array({', '.join(parts)}), _p -> _p <> ''), ',')"
    maps = ", ".join(f"from_json({_spark_marked(one)}, 'MAP<STRING, STRING>')" for one in texts)
    nested = f'regexp_replace({_PLAIN.format("_e.value")}, \'"s([^"]*)"\', \'"$1"\')'
    nested = f"replace(replace({nested}, {_QUOTE}, '\\\\\"'), {_BACKSLASH}, '\\\\\\\\')"
    value = (
        f"CASE WHEN _e.value IS NULL THEN 'null' WHEN _e.value LIKE 's%' "
        f"THEN {_spark_quoted('substring(_e.value, 2)')} ELSE {nested} END"
    )
    entry = f"concat({_spark_quoted('substring(_e.key, 2)')}, ':', {value})"
    merged = f"array_join(transform(map_entries(map_concat({maps})), _e -> {entry}), ',')"
    are_json = " AND ".join(_SPARK_IS_JSON.format(one) for one in texts)
    are_objects = " AND ".join(f"{first.format(one)} = '{{'" for one in texts)
    joined = f"if({are_objects}, concat('{{', {merged}, '}}'), concat('[', {items}, ']'))"
    return f"CASE WHEN {are_json} THEN {joined} END"


_SPARK_IS_JSON = "coalesce(trim({0}) = 'null' OR get_json_object({0}, '$') IS NOT NULL, false)"
JSON_FUNCTIONS: tuple[Function, ...] = (
    # JSON.
    Function("EXTRACTJSONFIELD", "SS", STRING, _spark_json_at, _json_at),
    Function("IS_JSON_STRING", "S", BOOLEAN,
             _SPARK_IS_JSON, _is_json, takes_null=True),
    Function("JSON_ARRAY_CONTAINS", "S*", BOOLEAN, _spark_array_contains, _array_contains, takes_null=True),
    Function("JSON_CONCAT", "SS+", STRING, _spark_concat, _concat),
    Function("JSON_ARRAY_LENGTH", "S", INT, "json_array_length({0})", lambda s: len(_read_typed_json(s, list))),
    Function("JSON_KEYS", "S", array_of(STRING), "json_object_keys({0})", lambda s: list(_read_typed_json(s, dict))),
    Function("JSON_ITEMS", "S", array_of(STRING), "from_json({0}, 'ARRAY<STRING>')",
             lambda s: [json_text(item) for item in _read_typed_json(s, list)]),
    Function("JSON_RECORDS", "S", map_of(STRING, STRING), "from_json({0}, 'MAP<STRING, STRING>')",
             lambda s: {key: json_text(item) for key, item in _read_typed_json(s, dict).items()}),
    Function("TO_JSON_STRING", "*", STRING,
             lambda v: f"regexp_replace(to_json(named_struct('v', {v}), {_JSON_OPTIONS}), '^.{{5}}|.$', '')",
             write_json, takes_null=True),
)  # fmt: skip
