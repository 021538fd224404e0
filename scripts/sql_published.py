"""Tries the facts of ksqlDB's published query tests (tests/unit/sql/ksqldb/) on the runner without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.sql.analysis import Analysis
from headrace.sql.fold import Fold, ResultRow
from headrace.sql.operators import moment
from headrace.sql.parsing import parse
from headrace.sql.records import Record, record_of
from headrace.sql.types import SqlError

FACTS = Path(__file__).parent.parent / "tests" / "unit" / "sql" / "ksqldb"


@dataclass(frozen=True)
class Outcome:
    """A fact and what came of it: `problem` is empty if it holds; `departs` says why it is known not to.

    `sentence` is the compiler's, of a text that it refuses; `sampled` says what the file has besides.
    """

    file: str
    what: str
    problem: str
    departs: str | None
    sentence: str = ""
    sampled: str = ""


def outcomes() -> Iterator[Outcome]:
    """Return the outcome of every fact, file by file."""
    files = (
        file
        for path in sorted(FACTS.glob("*.yaml"))
        for file in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    )
    for file in files:
        for fact in file["facts"]:
            problem, sentence = _try(file["setup"], fact)
            yield Outcome(
                file["file"],
                fact["what"],
                problem,
                fact.get("departs"),
                sentence,
                file.get("sampled", ""),
            )


def _try(setup: str, fact: dict[str, Any]) -> tuple[str, str]:
    analysis = Analysis()
    try:
        for statement in parse(setup + fact["text"], analysis.words):
            analysis.take(statement)
    except SqlError as error:
        return ("" if fact.get("refused") else "refused", error.message)
    if fact.get("refused"):
        return "runs", ""
    fold = Fold(analysis.script())
    for stream, key, value, *at in fact.get("in", ()):
        fold.take(stream, Record(value, key, moment(at[0] if at else 0)))
    if "open" not in fact:
        fold.end()
    return "; ".join(_differences(fold, fact)), ""


def _differences(fold: Fold, fact: dict[str, Any]) -> Iterator[str]:
    for name, rows in {
        **fact.get("out", {}),
        **fact.get("open", {}),
        **fact.get("named", {}),
    }.items():
        yield from _compare(
            name, rows, [row.columns for row in fold.results[name] if not row.deleted]
        )
    for name, texts in fact.get("written", {}).items():
        relation = fold.script.relations[name]
        actual = [record_of(relation, row.columns)[1].decode() for row in fold.results[name]]
        if actual != texts:
            yield f"{name} has the records {actual}, not {texts}"
    for name, keys in fact.get("keys", {}).items():
        actual = [row.key for row in fold.results[name]]
        if actual != keys:
            yield f"{name} has the keys {actual}, not {keys}"
    for name, keys in fact.get("gone", {}).items():
        gone = {row.key for row in fold.results[name] if row.deleted}
        if not gone >= set(keys):
            yield f"{name} has no tombstone of {keys}"
    for name, rows in fact.get("table", {}).items():
        latest = _latest(fold, name)
        by_text = sorted(rows, key=str)
        actual = [
            {column: one.columns.get(column) for column in (rows[0] if rows else {})}
            for one in latest
        ]
        if sorted(actual, key=str) != by_text or len(latest) != len(rows):
            yield f"{name} is {actual}, not {rows}"


def _latest(fold: Fold, name: str) -> list[ResultRow]:
    target = fold.script.relations[name]
    keys = [column.name for column in target.key_columns()]
    latest = {tuple(str(row.columns[key]) for key in keys): row for row in fold.results[name]}
    return [row for row in latest.values() if not row.deleted]


def _compare(name: str, rows: list[Any], actual: list[dict[str, Any]]) -> Iterator[str]:
    shown = [
        {column: row.get(column, "none") for column in (rows[i] if i < len(rows) else row)}
        for i, row in enumerate(actual)
    ]
    if shown != rows:
        yield f"{name} has {shown}, not {rows}"
