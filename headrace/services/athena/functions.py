"""Athena's functions that DuckDB lacks, as macros, and those that sqlglot translates to another meaning.

Source: trino.io/docs/current/functions.html, whose functions Athena's engine version 3 has (documented).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

_BODIES = {
    "e()": "exp(1.0)",
    "nan()": "'NaN'::DOUBLE",
    "infinity()": "'Infinity'::DOUBLE",
    "codepoint(text)": "unicode(text)",
    "url_extract_protocol(url)": "regexp_extract(url, '^([a-zA-Z][a-zA-Z0-9+.-]*):', 1)",
    "url_extract_host(url)": "regexp_extract(url, '^[a-zA-Z][a-zA-Z0-9+.-]*://(?:[^/@]*@)?([^/:?#]*)', 1)",
    "url_extract_port(url)": (
        "try_cast(regexp_extract(url, '^[a-zA-Z][a-zA-Z0-9+.-]*://(?:[^/@]*@)?[^/:?#]*:([0-9]+)', 1) AS BIGINT)"
    ),
    "url_extract_path(url)": "regexp_extract(url, '^[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*([^?#]*)', 1)",
    "url_extract_query(url)": "regexp_extract(url, '[?]([^#]*)', 1)",
    "url_extract_parameter(url, name)": (
        "list_filter(list_transform(string_split(regexp_extract(url, '[?]([^#]*)', 1), '&'), "
        "lambda pair: CASE WHEN split_part(pair, '=', 1) = name THEN url_decode(split_part(pair, '=', 2)) END), "
        "lambda value: value IS NOT NULL)[1]"
    ),
    "str_to_map(text, between, within)": (
        "map_from_entries(list_transform(string_split(text, between), "
        "lambda pair: {'key': split_part(pair, within, 1), 'value': split_part(pair, within, 2)}))"
    ),
    "to_iso8601(moment)": (
        "CASE typeof(moment) WHEN 'DATE' THEN strftime(moment, '%Y-%m-%d') "
        "WHEN 'TIMESTAMP WITH TIME ZONE' THEN strftime(moment, '%Y-%m-%dT%H:%M:%S.%gZ') "
        "ELSE strftime(moment, '%Y-%m-%dT%H:%M:%S.%g') END"
    ),
    # DuckDB's gives a timestamp of a date too.
    "truncated(unit, moment DATE)": (
        "CAST(date_trunc(unit, moment) AS DATE), (unit, moment) AS date_trunc(unit, moment)"
    ),
    "at_timezone(moment, zone)": "timezone(zone, moment)",
    "with_timezone(moment, zone)": "timezone(zone, moment)",
    "array_union(a, b)": "list_distinct(list_concat(a, b))",
    "arrays_overlap(a, b)": "list_has_any(a, b)",
    "zip(a, b)": "list_zip(a, b)",
    "map_agg(names, items)": "map(list(names), list(items))",
    "json_array_get(document, number)": "json_extract(document, '$[' || number || ']')",
    "json_array_contains(document, item)": "json_contains(document, to_json(item))",
    "json_size(document, path)": (
        "CASE json_type(document, path) WHEN 'OBJECT' THEN len(json_keys(document, path)) "
        "WHEN 'ARRAY' THEN json_array_length(document, path) ELSE 0 END"
    ),
    "is_json_scalar(document)": "json_type(document) NOT IN ('OBJECT', 'ARRAY')",
    "every(condition)": "bool_and(condition)",
    "hamming_distance(a, b)": "hamming(a, b)",
    "strrpos(text, part)": (
        "CASE WHEN strpos(text, part) = 0 THEN 0 "
        "ELSE length(text) - strpos(reverse(text), reverse(part)) - length(part) + 2 END"
    ),
    "yow(moment)": "isoyear(moment)",
    "width_bucket(x, low, high, n)": (
        "CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 "
        "ELSE CAST(floor((x - low) / (high - low) * n) AS BIGINT) + 1 END"
    ),
    "great_circle_distance(a, b, c, d)": (
        "6371.01 * 2 * asin(sqrt(power(sin(radians(c - a) / 2), 2) "
        "+ cos(radians(a)) * cos(radians(c)) * power(sin(radians(d - b) / 2), 2)))"
    ),
}
MACROS = tuple(f"CREATE MACRO {name} AS {body}" for name, body in _BODIES.items())

# Joda's letters, in groups as patterns have them -> those of strftime.
_JODA = (
    ("yyyy", "%Y"), ("YYYY", "%Y"), ("yy", "%y"), ("MMMM", "%B"), ("MMM", "%b"), ("MM", "%m"), ("dd", "%d"),
    ("DDD", "%j"), ("EEEE", "%A"), ("EEE", "%a"), ("HH", "%H"), ("hh", "%I"), ("mm", "%M"), ("ss", "%S"),
    ("SSSSSS", "%f"), ("SSS", "%g"), ("a", "%p"), ("ZZ", "%z"), ("Z", "%z"), ("M", "%-m"), ("d", "%-d"),
    ("H", "%-H"), ("y", "%Y"), ("m", "%-M"), ("s", "%-S"),
)  # fmt: skip


class FunctionRefused(ValueError):
    """A function's arguments cannot be translated; the message says why."""


def _strftime(pattern: str) -> str:
    """Return Joda's pattern as strftime's. Raises FunctionRefused."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == "'":
            end = pattern.find("'", at + 1)
            if end < 0:
                raise FunctionRefused(f"INVALID_FUNCTION_ARGUMENT: Invalid format: {pattern}")
            parts.append(pattern[at + 1 : end] or "'")
            at = end + 1
            continue
        letters = next((pair for pair in _JODA if pattern.startswith(pair[0], at)), None)
        if letters is None:
            if pattern[at].isalpha():
                raise FunctionRefused(
                    f"NOT_SUPPORTED: headrace does not know the letter {pattern[at]} of the pattern {pattern}"
                )
            parts.append("%%" if pattern[at] == "%" else pattern[at])
            at += 1
            continue
        parts.append(letters[1])
        at += len(letters[0])
    return "".join(parts)


def _call(name: str, *arguments: Any) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _literal_pattern(pattern: Any, name: str) -> Any:
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise FunctionRefused(f"NOT_SUPPORTED: headrace needs the pattern of {name} as a literal")
    return exp.Literal.string(_strftime(pattern.name))


def _format_datetime(node: Any) -> Any:
    moment, pattern = node.expressions
    return _call("strftime", moment, _literal_pattern(pattern, "format_datetime"))


def _matches(node: Any) -> Any:
    """`any_match(items, x -> ...)` and its kin: the list of what the condition says of each."""
    items, condition = node.expressions
    whether = _call("list_transform", items, condition)
    name = node.name.lower()
    every = _call("list_bool_and" if name == "all_match" else "list_bool_or", whether)
    return exp.Not(this=every) if name == "none_match" else every


def _filter_map(node: Any) -> Any:
    items, condition = node.expressions
    entry = exp.to_identifier("entry")
    names = [parameter.name for parameter in condition.expressions]
    body = _entry_parts(condition.this, names)
    chosen = exp.Lambda(this=body, expressions=[entry])
    return _call("map_from_entries", _call("list_filter", _call("map_entries", items), chosen))


def _change_map(node: Any) -> Any:
    items, change = node.expressions
    names = [parameter.name for parameter in change.expressions]
    body = _entry_parts(change.this, names)
    key, value = (exp.column("key", table="entry"), exp.column("value", table="entry"))
    by_name = {"transform_values": (key, body), "transform_keys": (body, value)}[node.name.lower()]
    changed = exp.Lambda(
        this=_call("struct_pack", *(
            exp.PropertyEQ(this=exp.to_identifier(name), expression=part)
            for name, part in zip(("key", "value"), by_name, strict=True)
        )),
        expressions=[exp.to_identifier("entry")],
    )  # fmt: skip
    return _call("map_from_entries", _call("list_transform", _call("map_entries", items), changed))


def _entry_parts(body: Any, names: list[str]) -> Any:
    """Name the parameters of a function of a map's key and value as the parts of an entry."""
    parts = dict(zip(names, ("key", "value"), strict=False))

    def name_part(node: Any) -> Any:
        is_parameter = isinstance(node, exp.Column) and not node.table and node.name in parts
        if is_parameter or (
            isinstance(node, exp.Identifier)
            and node.name in parts
            and not isinstance(node.parent, exp.Column)
        ):
            return exp.column(parts[node.name], table="entry")
        return node

    return body.copy().transform(name_part)


# Functions that sqlglot leaves as they are.
_ANONYMOUS: dict[str, Callable[[Any], Any]] = {
    "format_datetime": _format_datetime,
    "any_match": _matches,
    "all_match": _matches,
    "none_match": _matches,
    "map_filter": _filter_map,
    "transform_values": _change_map,
    "transform_keys": _change_map,
}


def translate(tree: Any) -> Any:
    """Return a query's tree in which functions mean in DuckDB what they mean in Athena. Raises FunctionRefused."""
    for node in reversed(list(tree.walk(bfs=False))):  # the inner ones first
        translated = _translate_node(node)
        if translated is not node:
            node.replace(translated)
    return tree


def _translate_node(node: Any) -> Any:
    if isinstance(node, exp.Anonymous):
        change = _ANONYMOUS.get(str(node.this).lower())
        return node if change is None else change(node)
    if isinstance(node, exp.DateDiff):
        # Trino counts whole units, DuckDB's date_diff the boundaries between two moments.
        unit = exp.Literal.string(str(node.args["unit"].name).lower())
        return _call("date_sub", unit, node.expression, node.this)
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        unit = exp.Literal.string(str(node.args["unit"].name).lower())
        return _call("truncated", unit, node.this)
    if isinstance(node, exp.ArraySlice):
        start, length = node.args["start"], node.args["end"]
        end = exp.Sub(
            this=exp.Add(this=exp.paren(start), expression=exp.paren(length)),
            expression=exp.Literal.number(1),
        )
        return _call("list_slice", node.this, start, end)
    if isinstance(node, exp.Repeat):
        item = exp.Lambda(this=node.this, expressions=[exp.to_identifier("_n")])
        return _call("list_transform", _call("range", node.args["times"]), item)
    if isinstance(node, exp.Format):
        return _call("printf", node.this, *node.expressions)
    if isinstance(node, exp.ParseDatetime):
        return _call(
            "strptime", node.this, _literal_pattern(node.args.get("format"), "parse_datetime")
        )
    if isinstance(node, exp.Rand) and (node.this is not None or node.args.get("lower") is not None):
        most = node.this if node.this is not None else node.args["upper"]
        drawn = exp.Mul(this=exp.Rand(), expression=exp.paren(most))
        return exp.cast(exp.Floor(this=drawn), "bigint")
    if (
        isinstance(node, exp.DateAdd | exp.Add | exp.Sub)
        and _is_date(node.this)
        and _keeps_dates(node)
    ):
        return exp.cast(node.copy(), "date")
    return node


def _is_date(node: Any) -> bool:
    """Whether it can be seen that an expression is a date."""
    node = node.unnest()
    if isinstance(node, exp.Cast):
        return bool(node.to.this == exp.DataType.Type.DATE)
    return isinstance(node, exp.CurrentDate | exp.Date | exp.TsOrDsToDate)


def _keeps_dates(node: Any) -> bool:
    """Whether what is added to a date is days or more: the sum is a date, as in Trino; DuckDB's is a timestamp."""
    step = node if isinstance(node, exp.DateAdd) else node.expression
    unit = getattr(step, "unit", None) or step.args.get("unit")
    return unit is not None and str(unit.name).lower() in (
        "day",
        "week",
        "month",
        "quarter",
        "year",
    )
