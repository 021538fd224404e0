"""Runs tests of queries: YAML files with records, and the rows that must come of them. Without Spark.

    - name: the mean of an hour
      input:
        - {stream: flights, key: UA, time: 2013-01-01T05:10:00Z, value: {origin: EWR, dep_delay: 20}}
      output:
        delays: [{origin: EWR, n: 1}]

`output` has the rows of streams (of late rows and errors too) in order, and of tables each key's latest row in any
order. A row must have the columns that are named, with equal values; `exact: true` wants no others. `late` and
`unreadable` are counts by name. An input's `shard` and `number`, its place in the shard, make its sequence number;
without them it is of shard 0.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# What YAML gives is of any type until it is looked at.
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from headrace.sql.conversions import EPOCH
from headrace.sql.fold import Fold, Record, ResultRow, run
from headrace.sql.plan import QueryPlan, Script
from headrace.sql.records import sequence_number
from headrace.sql.types import near
from headrace.sql.values import TooLarge

# The one in C, ten times as fast, where it is installed.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MEMBERS = frozenset({"name", "input", "output", "exact", "late", "unreadable"})
_INPUT = frozenset({"stream", "key", "time", "value", "shard", "number"})


class BadCase(Exception):
    """A file of tests that cannot be read; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """A test and what is wrong with its rows; nothing, if it holds."""

    name: str
    differences: tuple[str, ...]


def run_file(script: Script, path: Path) -> Iterator[Outcome]:
    """Run the tests of a file on `script`; raises BadCase."""
    try:
        cases = yaml.load(path.read_text(encoding="utf-8"), _LOADER)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise BadCase(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(cases, list):
        raise BadCase(f"{path}: a list of tests, each with name, input and output")
    for index, case in enumerate(cases):
        name = f"{path}: {case.get('name', f'test {index + 1}') if isinstance(case, dict) else f'test {index + 1}'}"
        yield Outcome(name, tuple(_run(script, case, name)))


def _run(script: Script, case: Any, name: str) -> Iterator[str]:
    if not isinstance(case, dict) or not set(case) <= _MEMBERS:
        raise BadCase(f"{name}: a test has {', '.join(sorted(_MEMBERS))}")
    records = [_record(one, index, name) for index, one in enumerate(case.get("input") or (), 1)]
    streams = sorted({one.stream for one in script.relations.values()} - {""})
    for stream, _ in records:
        if stream not in streams:
            relation = script.relations.get(stream.lower())
            hint = near(stream, streams)
            if relation is not None and relation.stream:
                hint = f"; {stream} is the relation of the stream {relation.stream!r}"
            raise BadCase(f"{name}: nothing reads the stream {stream!r}{hint}")
    for what in ("output", "late", "unreadable"):
        if not isinstance(case.get(what) or {}, dict):
            raise BadCase(f"{name}: {what} is by the names of streams and tables")
    named = {str(name).lower() for what in ("output", "late") for name in case.get(what) or {}}
    try:
        needs_all = script.errors.lower() in named
        queries = [q for q in script.queries if needs_all or named & _names_of(q)]
        fold = run(script.needed_by(queries), records)
    except TooLarge as error:
        yield str(error)
        return
    for relation, rows in (case.get("output") or {}).items():
        yield from _compare(script, fold, relation, rows or [], bool(case.get("exact")), name)
    for what, counts in (("late", fold.late), ("unreadable", fold.unreadable)):
        for relation, count in (case.get(what) or {}).items():
            actual = next(
                (n for key, n in counts.items() if key.lower() == str(relation).lower()), 0
            )
            if actual != count:
                yield f"{what} {relation}: {actual}, not {count}"


def _names_of(query: QueryPlan) -> set[str]:
    names = {query.name, query.late, query.target.name if query.target else query.name}
    return {name.lower() for name in names - {""}}


def _record(one: Any, index: int, name: str) -> tuple[str, Record]:
    if not isinstance(one, dict) or not set(one) <= _INPUT or "stream" not in one:
        raise BadCase(f"{name}: an input has {', '.join(sorted(_INPUT))}")
    time = one.get("time", EPOCH)
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise BadCase(f"{name}: {time!r} is no time, such as 2013-01-01T05:10:00Z") from None
    if not isinstance(time, datetime):
        raise BadCase(f"{name}: {time!r} is no time, such as 2013-01-01T05:10:00Z")
    arrival = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    shard, number = one.get("shard", 0), one.get("number", index)
    if not all(isinstance(part, int) and 0 <= part < 2**31 for part in (shard, number)):
        raise BadCase(f"{name}: shard is a shard's number, and number a record's place in it")
    record = Record(
        one.get("value"), str(one.get("key", "")), arrival, sequence_number(shard, number)
    )
    return str(one["stream"]), record


def _compare(
    script: Script, fold: Fold, relation: str, rows: Any, exact: bool, name: str
) -> Iterator[str]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadCase(f"{name}: the output of {relation} is a list of rows")
    aside = next((n for n in fold.aside if n.lower() == relation.lower()), None)
    if aside is not None:
        yield from _compare_in_order(relation, rows, fold.aside[aside], exact)
        return
    queries = [query for query in script.queries if relation.lower() in _names_of(query)]
    if not queries:
        names = ", ".join(
            query.target.name if query.target else query.name for query in script.queries
        )
        raise BadCase(f"{name}: no query writes {relation}; there is {names}")
    actual = [row for query in queries for row in fold.results[query.name]]
    target = queries[0].target
    keys = (
        [column.name for column in target.key_columns()]
        if target is not None and target.is_table
        else []
    )
    if keys:
        latest = {tuple(str(row.columns.get(key)) for key in keys): row for row in actual}
        actual = [row for row in latest.values() if not row.deleted]
        yield from _compare_as_set(relation, rows, actual, exact)
    else:
        yield from _compare_in_order(relation, rows, actual, exact)


def _compare_in_order(
    relation: str, rows: Sequence[Any], actual: Sequence[ResultRow], exact: bool
) -> Iterator[str]:
    for index, (row, result) in enumerate(zip(rows, actual, strict=False)):
        if not _equal(row, result.columns, exact):
            yield f"{relation}, row {index + 1}: {_words(result.columns, row, exact)}, not {row}"
    if len(rows) != len(actual):
        yield f"{relation}: {len(actual)} rows, not {len(rows)}{_rest(actual[len(rows) :])}"


def _compare_as_set(
    relation: str, rows: Sequence[Any], actual: Sequence[ResultRow], exact: bool
) -> Iterator[str]:
    left = list(actual)
    for row in rows:
        match = next((one for one in left if _equal(row, one.columns, exact)), None)
        if match is None:
            yield f"{relation}: no row {row}{_rest(left)}"
        else:
            left.remove(match)
    if len(rows) < len(actual) and len(left) == len(actual) - len(rows):
        yield f"{relation}: {len(actual)} rows, not {len(rows)}{_rest(left)}"


def _rest(rows: Sequence[ResultRow]) -> str:
    return f"; there is also {', '.join(str(row.columns) for row in rows[:3])}" if rows else ""


def _equal(row: dict[str, Any], columns: dict[str, Any], exact: bool) -> bool:
    names = {name.lower(): value for name, value in columns.items()}
    if exact and {name.lower() for name in row} != set(names):
        return False
    return all(
        name.lower() in names and _same(value, names[name.lower()]) for name, value in row.items()
    )


def _same(expected: Any, value: Any) -> bool:
    if isinstance(expected, datetime):
        aware = expected.replace(tzinfo=UTC) if expected.tzinfo is None else expected
        return isinstance(value, str) and datetime.fromisoformat(value) == aware
    if isinstance(expected, float) and isinstance(value, (int, float)):
        return abs(expected - value) <= 1e-9 * max(1.0, abs(expected))
    return expected == value


def _words(columns: dict[str, Any], row: dict[str, Any], exact: bool) -> str:
    names = {name.lower() for name in row}
    return str(
        columns
        if exact
        else {name: value for name, value in columns.items() if name.lower() in names}
    )
