"""CloudWatch Logs Insights: reads a query of its language, and runs it over events in bounded time.

Source: docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html and its pages (documented).
"""
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from headrace.core.patterns import MatchTooLong
from headrace.services.logs.insights_expressions import (
    Expression,
    QueryRefused,
    QueryTooLong,
    Reader,
    Row,
    Run,
    Value,
    field_of,
    is_true,
    number_of,
    read_arguments,
    read_expression,
    read_operand,
    text_of,
    unquote,
)

# Documented: API_StartQuery.
MOST_CHARACTERS = 10_000
MOST_ROWS = 10_000
# Documented: CWL_AnalyzeLogData-discoverable-fields.
_MOST_FIELDS = 200


@dataclass(frozen=True, slots=True)
class Event:
    """A log event: times in milliseconds since 1970."""

    at_ms: int
    ingested_ms: int
    message: str
    stream: str
    group: str
    id: str


# Commands

Command = Callable[[list[Row], Run], list[Row]]


def _read_named_list(reader: Reader, read: Callable[[Reader], Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a list between commas has: its name, which may follow `as`, and itself."""
    while True:
        begin = reader.at
        item = read(reader)
        name = reader.text[begin : reader.at].strip().strip("`")
        if reader.skip("as"):
            name = reader.take()[1].strip("`")
        yield name, item
        if not reader.skip(","):
            return


def _expect_end(reader: Reader) -> None:
    if not reader.is_done():
        raise QueryRefused(f"unexpected symbol found {reader.peek()[1]} in: {reader.text[:200]}")


def _filter(reader: Reader) -> Command:
    condition = read_expression(reader)
    _expect_end(reader)
    return lambda rows, run: [row for row in rows if is_true(condition(row, run))]


def _fields(reader: Reader) -> tuple[list[str], Command]:
    items = list(_read_named_list(reader, read_expression))
    _expect_end(reader)

    def add(rows: list[Row], run: Run) -> list[Row]:
        return [{**row, **{name: item(row, run) for name, item in items}} for row in rows]

    return [name for name, _ in items], add


def _sort(reader: Reader) -> Command:
    keys: list[tuple[Expression, bool]] = []
    while True:
        key = read_expression(reader)
        falls = reader.skip("desc")
        if not falls:
            reader.skip("asc")
        keys.append((key, falls))
        if not reader.skip(","):
            break
    _expect_end(reader)

    def order(value: Value) -> tuple[int, float, str]:
        number = number_of(value)
        if number is not None:
            return 1, number, ""
        return (0, 0.0, "") if value is None else (2, 0.0, text_of(value))

    def sort(rows: list[Row], run: Run) -> list[Row]:
        for key, falls in reversed(keys):
            rows = sorted(rows, key=lambda row: order(key(row, run)), reverse=falls)
        return rows

    return sort


def _limit(reader: Reader) -> Command:
    kind, text = reader.take()
    if kind != "number" or not text.isdecimal() or not 1 <= int(text) <= MOST_ROWS:
        raise QueryRefused(f"limit needs a number from 1 to {MOST_ROWS}")
    _expect_end(reader)
    return lambda rows, _run: rows[: int(text)]


def _dedup(reader: Reader) -> Command:
    items = list(_read_named_list(reader, read_expression))
    _expect_end(reader)

    def keep_first(rows: list[Row], run: Run) -> list[Row]:
        first: dict[tuple[str, ...], Row] = {}
        for row in rows:
            first.setdefault(tuple(text_of(item(row, run)) for _, item in items), row)
        return list(first.values())

    return keep_first


def _parse(reader: Reader) -> Command:
    source: Expression = field_of("@message")
    kind, _ = reader.peek() if not reader.has_pattern() else ("", "")
    if kind in ("name", "quoted"):
        source = read_operand(reader)
    if reader.pattern() is not None:
        raise QueryRefused(
            "headrace's Logs Insights parses by patterns with stars, not by regular expressions"
        )
    kind, text = reader.take()
    if kind != "text":
        raise QueryRefused("parse needs a pattern in quotes")
    if not reader.skip("as"):
        raise QueryRefused("parse needs as and a name for each star")
    names: list[str] = []
    while True:
        names.append(reader.take()[1].strip("`"))
        if not reader.skip(","):
            break
    _expect_end(reader)
    parts = unquote(text).split("*")
    if len(parts) - 1 != len(names):
        raise QueryRefused(f"parse has {len(parts) - 1} stars and {len(names)} names")

    def add(rows: list[Row], run: Run) -> list[Row]:
        return [{**row, **dict(split(row, run))} for row in rows]

    def split(row: Row, run: Run) -> Iterator[tuple[str, Value]]:
        text = text_of(source(row, run))
        run.make(len(text))
        return _split(text, parts, names)

    return add


def _split(text: str, parts: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, Value]]:
    """Yield the texts that stand for the stars of a pattern; nothing when it does not match."""
    at = text.find(parts[0])
    if at < 0:
        return
    at += len(parts[0])
    values: list[str] = []
    for part in parts[1:]:
        end = len(text) if not part else text.find(part, at)
        if end < 0:
            return
        values.append(text[at:end])
        at = end + len(part)
    yield from zip(names, values, strict=True)


# Statistics

Aggregate = Callable[[list[Row], Run], Value]


def _aggregate(reader: Reader) -> Aggregate:
    """Read an aggregate, such as `avg(@duration)`; arithmetic between aggregates is not read."""
    kind, text = reader.take()
    name = text.lower()
    if kind != "name" or name not in _AGGREGATES:
        raise QueryRefused(f"headrace's Logs Insights has no statistic {text}")
    reader.expect("(")
    if name == "count" and (reader.skip("*") or reader.peek()[1] == ")"):
        reader.expect(")")
        return lambda rows, _run: float(len(rows))
    arguments = read_arguments(reader)
    function = _AGGREGATES[name]
    if len(arguments) != (2 if name in ("pct", "percentile") else 1):
        raise QueryRefused(f"{name} has another number of arguments than {len(arguments)}")

    def apply(rows: list[Row], run: Run) -> Value:
        given = [[argument(row, run) for row in rows] for argument in arguments]
        return function(rows, *given)

    return apply


def _numbers(values: Iterable[Value]) -> list[float]:
    return [number for value in values if (number := number_of(value)) is not None]


def _of_numbers(compute: Callable[[list[float]], float]) -> Callable[..., Value]:
    def apply(_rows: list[Row], values: list[Value]) -> Value:
        numbers = _numbers(values)
        try:
            return float(compute(numbers)) if numbers else None
        except OverflowError:
            return None

    return apply


def _percentile(_rows: list[Row], values: list[Value], shares: list[Value]) -> Value:
    numbers, share = sorted(_numbers(values)), number_of(shares[0]) if shares else None
    if not numbers or share is None:
        return None
    place = max(0.0, min(1.0, share / 100)) * (len(numbers) - 1)
    low = math.floor(place)
    high = min(low + 1, len(numbers) - 1)
    return numbers[low] + (numbers[high] - numbers[low]) * (place - low)


def _at_time(choose: Callable[[list[float]], float]) -> Callable[..., Value]:
    def apply(rows: list[Row], values: list[Value]) -> Value:
        there = [(row, value) for row, value in zip(rows, values, strict=True) if value is not None]
        if not there:
            return None
        moments = [number_of(row.get("@timestamp")) or 0.0 for row, _ in there]
        return there[moments.index(choose(moments))][1]

    return apply


_AGGREGATES: dict[str, Callable[..., Value]] = {
    "count": lambda _rows, values: float(sum(value is not None for value in values)),
    "count_distinct": lambda _rows, values: float(
        len({text_of(v) for v in values if v is not None})
    ),
    "sum": _of_numbers(math.fsum),
    "avg": _of_numbers(statistics.fmean),
    "min": _of_numbers(min),
    "max": _of_numbers(max),
    "stddev": _of_numbers(statistics.pstdev),
    "median": _of_numbers(statistics.median),
    "pct": _percentile,
    "percentile": _percentile,
    "earliest": _at_time(min),
    "latest": _at_time(max),
    "sortsfirst": lambda _rows, values: min(
        (v for v in values if v is not None), key=text_of, default=None
    ),
    "sortslast": lambda _rows, values: max(
        (v for v in values if v is not None), key=text_of, default=None
    ),
}


def _stats(reader: Reader) -> tuple[list[str], Command]:
    items = list(_read_named_list(reader, _aggregate))
    groups = list(_read_named_list(reader, read_expression)) if reader.skip("by") else []
    _expect_end(reader)

    def gather(rows: list[Row], run: Run) -> list[Row]:
        of_group: dict[tuple[Value, ...], list[Row]] = {}
        for row in rows:
            of_group.setdefault(tuple(group(row, run) for _, group in groups), []).append(row)
        if not groups and not of_group:
            of_group[()] = []
        names = [name for name, _ in groups]
        return [
            dict(zip(names, key, strict=True)) | {name: item(members, run) for name, item in items}
            for key, members in of_group.items()
        ]

    return [*(name for name, _ in groups), *(name for name, _ in items)], gather


# Queries


@dataclass(frozen=True, slots=True)
class Query:
    """A query that was read.

    Attributes:
        shown: the names of the columns of its result, in order.
        is_events: whether its rows are events, which have a pointer.
    """

    commands: tuple[Command, ...]
    shown: tuple[str, ...]
    is_events: bool

    def run(self, events: Iterable[Event]) -> tuple[list[Row], int]:
        """Run over events; return the rows and how many events there were. Raises QueryTooLong, QueryRefused."""
        run = Run()
        rows: list[Row] = []
        for event in events:
            run.step()
            rows.append(_row_of(event))
        scanned = len(rows)
        rows.sort(key=lambda row: -cast("float", row["@timestamp"]))
        try:
            for command in self.commands:
                rows = command(rows, run)
        except MatchTooLong:
            raise QueryTooLong from None
        return rows[:MOST_ROWS], scanned


def parse_query(text: str) -> Query:
    """Read a query. Raises QueryRefused."""
    if len(text) > MOST_CHARACTERS:
        raise QueryRefused(f"A query has at most {MOST_CHARACTERS} characters")
    commands: list[Command] = []
    shown: list[str] = []
    is_events = True
    for part in _split_commands(text):
        word, _, rest = part.strip().partition(" ")
        reader, name = Reader(rest), word.lower()
        if name == "fields":
            names, command = _fields(reader)
            shown += [one for one in names if one not in shown]
        elif name == "display":
            shown, command = _fields(reader)
        elif name == "stats":
            shown, command = _stats(reader)
            is_events = False
        elif name in _COMMANDS:
            command = _COMMANDS[name](reader)
        else:
            raise QueryRefused(f"headrace's Logs Insights does not have the command {word[:50]}")
        commands.append(command)
    return Query(tuple(commands), tuple(shown or ("@timestamp", "@message")), is_events)


_COMMANDS: Mapping[str, Callable[[Reader], Command]] = {
    "filter": _filter, "where": _filter, "sort": _sort, "order": _sort, "limit": _limit, "head": _limit,
    "dedup": _dedup, "parse": _parse,
}  # fmt: skip


def _split_commands(text: str) -> list[str]:
    """Split a query at its bars, but not within strings and regular expressions; comments go."""
    parts, begin, at, quote = [""], 0, 0, ""
    while at < len(text):
        sign = text[at]
        if quote:
            if sign == "\\":
                at += 1
            elif sign == quote:
                quote = ""
        elif sign in "\"'`" or (
            sign == "/" and re.search(r"(?:like|=~|parse(?:\s+\S+)?)\s*$", text[begin:at])
        ):
            quote = sign
        elif sign == "#":
            end = text.find("\n", at)
            text = text[:at] + ("" if end < 0 else text[end:])
            continue
        elif sign == "|":
            parts[-1] = text[begin:at]
            parts.append("")
            begin = at + 1
        at += 1
    parts[-1] = text[begin:]
    if not all(part.strip() for part in parts):
        raise QueryRefused("unexpected symbol found |")
    return [part.strip().replace("\n", " ") for part in parts]


# Events


def _row_of(event: Event) -> Row:
    row: Row = {
        "@timestamp": float(event.at_ms),
        "@ingestionTime": float(event.ingested_ms),
        "@message": event.message,
        "@logStream": event.stream,
        "@log": event.group,
        "@ptr": event.id,
    }
    text = event.message.strip()
    if text.startswith("{") and text.endswith("}"):
        try:
            _add_members(row, json.loads(text), "", 0)
        except (ValueError, RecursionError):
            return row
    elif text.startswith(("REPORT RequestId: ", "START RequestId: ", "END RequestId: ")):
        row |= dict(_lambda_fields(text))
    return row


def _add_members(row: Row, value: Any, name: str, level: int) -> None:
    """Add the members of a JSON object by their paths: `a.b.0`."""
    if len(row) >= _MOST_FIELDS or level > 20:
        return
    if isinstance(value, (dict, list)):
        items = (
            cast("Any", value).items()
            if isinstance(value, dict)
            else enumerate(cast("list[Any]", value))
        )
        for key, item in items:
            _add_members(row, item, f"{name}.{key}" if name else str(key), level + 1)
    elif name and not name.startswith("@"):
        row[name] = value if isinstance(value, str | bool) or value is None else _finite(value)


def _finite(number: float) -> Value:
    """Return a number of JSON; one that no double can be is a text."""
    try:
        value = float(number)
    except OverflowError:
        return str(number)
    return value if math.isfinite(value) else str(number)


_LAMBDA = {
    "Duration": "@duration", "Billed Duration": "@billedDuration", "Memory Size": "@memorySize",
    "Max Memory Used": "@maxMemoryUsed", "Init Duration": "@initDuration",
}  # fmt: skip


def _lambda_fields(text: str) -> Iterator[tuple[str, Value]]:
    """Yield what is discovered in a line of Lambda's: times in milliseconds, memory in bytes (documented)."""
    yield "@type", text.split(" ", 1)[0]
    for part in text.split(" ", 1)[1].split("\t"):
        key, _, value = part.strip().partition(": ")
        if key == "RequestId":
            yield "@requestId", value.split(" ")[0]
        elif key in _LAMBDA:
            number, _, unit = value.partition(" ")
            amount = number_of(number)
            if amount is not None:
                yield _LAMBDA[key], amount * 1_000_000 if unit == "MB" else amount


def render_value(name: str, value: Value) -> str:
    """Return a value as GetQueryResults writes it: times as dates."""
    if value is not None and (
        name in ("@timestamp", "@ingestionTime") or name.startswith(("bin(", "datefloor("))
    ):
        number = number_of(value)
        if number is not None:
            try:
                moment = datetime.fromtimestamp(number / 1000, UTC)
            except (OverflowError, ValueError, OSError):
                return text_of(value)  # beyond the years of dates
            return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    return text_of(value)
