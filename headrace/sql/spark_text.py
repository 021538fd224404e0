"""Writes an expression as Spark SQL, which means the same in Spark 3.5, 4.0 and 4.1 with ANSI mode off.

Writes MATCH_RECOGNIZE as a PySpark job's lines, which give the matcher its data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

from headrace.sql.conversions import spark_cast
from headrace.sql.functions import function_of
from headrace.sql.plan import (
    ARRIVAL,
    KINESIS_ANALYTICS,
    ROW_OFFSET,
    ROW_PARTITION,
    ROWTIME,
    WINDOW_END,
    WINDOW_START,
    MatchPlan,
    QueryPlan,
)
from headrace.sql.statements import (
    Array,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    Interval,
    Item,
    Lambda,
    Literal,
    Map,
    Operation,
    Struct,
    Tick,
)
from headrace.sql.types import STRING, SqlError, SqlType, as_int

# How the matcher reads a column of JSON.
_KINDS = {"TIMESTAMP": "time", "DECIMAL": "decimal", "DOUBLE": "double"}
_AS_TEXT = ("DECIMAL", "DATE", "DOUBLE")


def match_lines(query: QueryPlan, match: MatchPlan, text: SparkText) -> list[str]:
    """Return the lines that put the matches of a row pattern in the place of the rows."""
    partition = (
        ", ".join(
            f"{text.write(one.expression)} AS k{index}" for index, one in enumerate(match.partition)
        )
        or "'all'"
    )
    columns = [_carry_text(text.write(one.expression), one.type) for one in match.columns]
    kinds = [_KINDS.get(one.type.name, "") for one in match.columns]
    lines: list[str] = []
    if match.where is not None:
        lines.append(f"    rows = rows.where({literal(text.write(match.where))})")
    lines += ["    rows = find_matches(", f"        rows, {literal(query.name)}, "]
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
            f"            ({one.name!r}, {_carry_type(one.type)!r}, {_restore_text('{0}', one.type)!r}),"
        )
    lines += ["        ],", "    )", "    rows = rows.select("]
    lines += [
        f"        {expr(text.write(one.expression))}.alias({literal(one.name)}),"
        for one in match.measures
    ]
    key_columns = match.relation.relation.key_columns()
    keys = ", ".join(f"cast({name(one.name)} AS STRING)" for one in key_columns)
    key = f"concat_ws('|', {keys})" if keys else "'all'"
    lines += ['        "_rowtime", "_order", "_first",', "    )"]
    return [*lines, f'    rows = rows.withColumn("_key", {expr(key)})']


def _carry_text(text: str, type_: SqlType) -> str:
    """Return an expression as the matcher's JSON carries it: no digit is lost."""
    if type_.name == "TIMESTAMP":
        return f"unix_micros({text})"
    return f"cast({text} AS {_carry_type(type_)})" if type_.name in _AS_TEXT else text


def _carry_type(type_: SqlType) -> str:
    if type_.of:
        return f"ARRAY<{_carry_type(type_.of[0])}>"
    return {"TIMESTAMP": "BIGINT", "DECIMAL": "STRING", "DATE": "STRING"}.get(
        type_.name, type_.spark()
    )


def _restore_text(text: str, type_: SqlType) -> str:
    """Return a value that was carried as one of its type."""
    if type_.of:
        one = _restore_text("v", type_.of[0])
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


# Of an expression, as long as a text of SQL, and of a query with the parts of its expressions.
_LONGEST, _MOST_WRITTEN = 1_000_000, 20_000_000
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Words that Spark's parser does not take as a column's name everywhere.
_WORDS = frozenset({
    "all", "and", "anti", "any", "as", "authorization", "both", "case", "cast", "check", "collate", "column",
    "constraint", "create", "cross", "current_date", "current_time", "current_timestamp", "current_user", "distinct",
    "else", "end", "escape", "except", "exists", "false", "fetch", "filter", "for", "foreign", "from", "full", "grant",
    "group", "having", "in", "inner", "intersect", "interval", "into", "is", "join", "lateral", "leading", "left",
    "like", "natural", "not", "null", "offset", "on", "only", "or", "order", "outer", "overlaps", "primary",
    "references", "right", "select", "semi", "session_user", "some", "table", "then", "time", "to", "trailing", "true",
    "union", "unique", "unknown", "user", "using", "when", "where", "with", "within",
})  # fmt: skip


def name(text: str) -> str:
    """Return a name as Spark SQL writes it."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return "`" + text.replace("`", "``") + "`"


def string(text: str) -> str:
    """Return a text as Spark SQL's constant."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def literal(value: str) -> str:
    """Return a text as Python's constant, in double quotes."""
    return json.dumps(value, ensure_ascii=False)


def expr(text: str) -> str:
    """Return an expression of Spark SQL as a column in Python's text."""
    return f"F.expr({literal(text)})"


def interval(duration_ms: int) -> str:
    """Return a duration as Spark reads it."""
    for unit, size in (
        ("day", 86_400_000),
        ("hour", 3_600_000),
        ("minute", 60_000),
        ("second", 1_000),
    ):
        if duration_ms and duration_ms % size == 0:
            count = duration_ms // size
            return f"{count} {unit}{'s' * (count != 1)}"
    return f"{duration_ms} milliseconds"


class SparkText:
    """Writes the expressions of one query.

    With several relations a column carries its relation's alias; `dialect` says what type ROWTIME has. A session of
    KSQL ends with its last row, and Spark's `gap_ms` later.
    """

    def __init__(self, dialect: str, *, qualified: bool, gap_ms: int = 0) -> None:
        self._gap_ms, self._written = gap_ms, 0
        self._times_are_timestamps = dialect == KINESIS_ANALYTICS
        self._qualified = qualified

    def write(self, expression: Expression) -> str:
        """Return `expression` as Spark SQL; parentheses stand around every operation within another one."""
        text = self._write(expression)
        if isinstance(expression, Operation) and text.startswith("(") and text.endswith(")"):
            return text[1:-1]
        return text

    def _write(self, expression: Expression) -> str:
        text = self._text_of(expression)
        self._written += len(text)
        if len(text) > _LONGEST or self._written > _MOST_WRITTEN:
            raise SqlError(
                "Spark's words for this are too many, since some functions repeat what they are given: "
                "name a part of it in a CREATE STREAM .. AS before it",
                expression.location,
            )
        return text

    def _text_of(self, expression: Expression) -> str:  # noqa: C901 - one case for each kind of expression
        match expression:
            case Literal():
                return _constant(expression)
            case Interval():
                return f"INTERVAL '{expression.duration_ms / 1000:.3f}' SECOND"
            case Column():
                return self._column(expression)
            case Field():
                return f"{self._write(expression.of)}.{name(expression.name)}"
            case Item():
                return self._item(expression)
            case Operation():
                return self._operation(expression)
            case Call():
                return self._call(expression)
            case Lambda():
                parameters = ", ".join(name(parameter) for parameter in expression.parameters)
                left = f"({parameters})" if len(expression.parameters) > 1 else parameters
                return f"{left} -> {self._write(expression.body)}"
            case Cast():
                return spark_cast(self._write(expression.of), expression.type)
            case Case():
                return self._case(expression)
            case Struct():
                pairs = zip(expression.names, expression.values, strict=False)
                return (
                    f"named_struct({', '.join(f'{string(n)}, {self._write(v)}' for n, v in pairs)})"
                )
            case Array():
                return f"array({', '.join(map(self._write, expression.values))})"
            case Map():
                pairs = zip(expression.keys, expression.values, strict=False)
                # A key that is NULL is 'null', as in ksqlDB: it would end the job.
                texts = (f"coalesce({self._write(k)}, 'null'), {self._write(v)}" for k, v in pairs)
                return f"map({', '.join(texts)})"
            case Tick():
                millis, size = f"unix_millis({self._write(expression.of)})", expression.duration_ms
                return f"timestamp_millis({millis} - pmod({millis}, {size}L))"
            case _:
                raise TypeError(expression)

    def _column(self, column: Column) -> str:
        prefix = f"{name(column.relation)}." if column.relation and self._qualified else ""
        if column.name == ROWTIME and column.relation:
            return (
                f"{prefix}_rowtime"
                if self._times_are_timestamps
                else f"unix_millis({prefix}_rowtime)"
            )
        if column.relation and column.name == ARRIVAL:
            return f"{prefix}_order.arrival"
        if column.relation and column.name in (ROW_OFFSET, ROW_PARTITION):
            number = f"{prefix}_order.number"
            is_offset = column.name == ROW_OFFSET
            return f"trim(LEADING '0' FROM {number})" if is_offset else _shard_of(number)
        if column.name in (WINDOW_START, WINDOW_END) and column.relation is None:
            bound = "_window.start" if column.name == WINDOW_START else "_window.end"
            return bound if self._times_are_timestamps else self.bound(bound)
        return f"{prefix}{name(column.name)}"

    def bound(self, path: str) -> str:
        """Return a window's bound, _window.start or _window.end, in milliseconds."""
        gap = f" - {self._gap_ms}L" if self._gap_ms and path == "_window.end" else ""
        return f"unix_millis({path}){gap}"

    def _item(self, item: Item) -> str:
        index = self._write(item.index)
        if not item.is_of_map and not (isinstance(item.index, Literal) and item.index.value):
            # Spark refuses 0, which KSQL answers with NULL; of an INT's least number its JVM dies.
            index = f"nullif({as_int(index)}, 0)"
        return f"try_element_at({self._write(item.of)}, {index})"

    def _operation(self, operation: Operation) -> str:
        parts = [self._write(operand) for operand in operation.operands]
        match operation.operator:
            case "NOT":
                return f"(NOT {parts[0]})"
            case "IS NULL":
                return f"({parts[0]} IS NULL)"
            case "IS DISTINCT FROM":
                return f"(NOT ({parts[0]} <=> {parts[1]}))"
            case "BETWEEN":
                return f"({parts[0]} BETWEEN {parts[1]} AND {parts[2]})"
            case "IN":
                return f"({parts[0]} IN ({', '.join(parts[1:])}))"
            case "LIKE":
                return _like(parts[0], parts[1], operation.operands)
            case "-" if len(parts) == 1:
                return f"(-{parts[0]})"
            case operator:
                return f"({f' {operator} '.join(parts)})"

    def _call(self, call: Call) -> str:
        if call.star:
            return "count(1)"
        return function_of(call).spark_text([self._write(argument) for argument in call.arguments])

    def _case(self, case: Case) -> str:
        branches = " ".join(
            f"WHEN {self._write(test)} THEN {self._write(value)}" for test, value in case.branches
        )
        otherwise = "" if case.otherwise is None else f" ELSE {self._write(case.otherwise)}"
        return f"CASE {branches}{otherwise} END"


def _like(value: str, pattern: str, operands: Sequence[Expression]) -> str:
    """Return LIKE: Spark's backslash escapes by itself, and where nothing follows that it knows, it ends the job."""
    if len(operands) == 2:
        if isinstance(operands[1], Literal) and "\\" not in str(operands[1].value):
            return f"({value} LIKE {pattern})"
        return f"({value} LIKE replace({pattern}, '\\\\', '\\\\\\\\'))"
    character = cast(Literal, operands[2]).value
    # Characters, each with the ESCAPE before it, become the same with a backslash where Spark needs one.
    tokens = f"regexp_extract_all({pattern}, {string(f'(?s){re.escape(character)}.|.')}, 0)"
    written = (
        f"array_join(transform({tokens}, _t -> CASE WHEN _t IN ('%', '_') THEN _t "
        "WHEN substring(_t, -1) IN ('%', '_', '\\\\') THEN concat('\\\\', substring(_t, -1)) "
        "ELSE substring(_t, -1) END), '')"
    )
    # A pattern that ends with its ESCAPE says nothing: NULL.
    last = f"length({pattern}) - length(trim(TRAILING {string(character)} FROM {pattern}))"
    return f"(CASE WHEN ({last}) % 2 = 0 THEN {value} LIKE {written} END)"


def _shard_of(number: str) -> str:
    """Return the number of the shard that is in bits 4 to 35 of a sequence number of 60 digits; see records.py."""
    high, low = (f"cast(substring({number}, {first}, 30) AS DECIMAL(30, 0))" for first in (1, 31))
    whole = f"{high} % {2**36}BD * {10**30 % 2**36}BD + {low} % {2**36}BD"
    return f"cast(shiftright(cast(({whole}) % {2**36}BD AS BIGINT), 4) AS INT)"


def _constant(literal: Literal) -> str:
    if literal.value is None:
        return "NULL"
    if literal.type == STRING:
        return string(literal.value)
    if isinstance(literal.value, bool):
        return str(literal.value).lower()
    suffix = {"BIGINT": "L", "DECIMAL": "BD", "DOUBLE": "D"}.get(literal.type.name, "")
    text = f"{literal.value}{suffix}"
    return f"({text})" if text.startswith("-") else text
