"""Writes MATCH_RECOGNIZE as a PySpark job's lines, which give the matcher its data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

from headrace.sql.plan import MatchPlan, QueryPlan
from headrace.sql.spark_text import SparkText, expr, interval, literal, name
from headrace.sql.types import SqlType

# How the matcher reads a column of JSON.
_KINDS = {"TIMESTAMP": "time", "DECIMAL": "decimal", "DOUBLE": "double"}
_AS_TEXT = ("DECIMAL", "DATE", "DOUBLE")


def match_lines(query: QueryPlan, match: MatchPlan, text: SparkText) -> list[str]:
    """Return the lines that put the matches of a row pattern in the place of the rows."""
    partition = ", ".join(text.write(one.expression) for one in match.partition) or "'all'"
    columns = [_carried(text.write(one.expression), one.type) for one in match.columns]
    kinds = [_KINDS.get(one.type.name, "") for one in match.columns]
    lines = ["    rows = find_matches(", f"        rows, {literal(query.name)}, "]
    lines[-1] += f"{literal(interval(match.grace_ms))}, {literal(partition)},"
    lines += ["        columns=[", *(f"            {literal(one)}," for one in columns)]
    lines += ["        ],", f"        kinds={kinds!r},", "        spec={"]
    for key, value in match.spec().items():
        lines += (
            [f"            {key!r}: {{", *_entries(cast(dict[str, Any], value)), "            },"]
            if isinstance(value, dict)
            else [f"            {key!r}: {_python(value)},"]
        )
    lines += ["        },", "        results=["]
    for index in match.results:
        one = match.navigations[index]
        lines.append(
            f"            ({one.name!r}, {_carried_type(one.type)!r}, {_restored('{0}', one.type)!r}),"
        )
    lines += ["        ],", "    )", "    rows = rows.select("]
    lines += [
        f"        {expr(text.write(one.expression))}.alias({literal(one.name)}),"
        for one in match.measures
    ]
    keys = ", ".join(f"cast({name(one.name)} AS STRING)" for one in match.partition)
    key = f"concat_ws('|', {keys})" if keys else "'all'"
    lines += ['        "_rowtime", "_order", "_first",', "    )"]
    return [*lines, f'    rows = rows.withColumn("_key", {expr(key)})']


def _carried(text: str, type_: SqlType) -> str:
    """Return an expression as the matcher's JSON carries it: no digit is lost."""
    if type_.name == "TIMESTAMP":
        return f"unix_micros({text})"
    return f"cast({text} AS {_carried_type(type_)})" if type_.name in _AS_TEXT else text


def _carried_type(type_: SqlType) -> str:
    if type_.of:
        return f"ARRAY<{_carried_type(type_.of[0])}>"
    return {"TIMESTAMP": "BIGINT", "DECIMAL": "STRING", "DATE": "STRING"}.get(
        type_.name, type_.spark()
    )


def _restored(text: str, type_: SqlType) -> str:
    """Return a value that was carried as one of its type."""
    if type_.of:
        one = _restored("v", type_.of[0])
        return text if one == "v" else f"transform({text}, v -> {one})"
    if type_.name == "TIMESTAMP":
        return f"timestamp_micros({text})"
    return f"cast({text} AS {type_.spark()})" if type_.name in ("DECIMAL", "DATE") else text


def _entries(values: dict[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        yield f"                {key!r}: {_python(value)},"


def _python(value: Any) -> str:
    """Return a value of the matcher's as Python's text."""
    if isinstance(value, timedelta):
        return f"timedelta(milliseconds={value // timedelta(milliseconds=1)})"
    if isinstance(value, (tuple, list)):
        parts = ", ".join(_python(one) for one in cast(Sequence[Any], value))
        parts += "," * (isinstance(value, tuple) and len(cast(Sequence[Any], value)) == 1)
        return f"({parts})" if isinstance(value, tuple) else f"[{parts}]"
    return literal(value) if isinstance(value, str) else repr(value)
