"""Writes docs/sql-reference.md: what `headrace sql` takes of KSQL and Kinesis Analytics, from the code itself.

`python -m scripts.sql_page` writes it; with --check it writes nothing, and exits 1 when the page is stale. Whether a
statement runs is not claimed but tried: each is given to the compiler, whose sentence stands in the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from headrace.sql.analysis import Analysis, read_script
from headrace.sql.functions import FUNCTIONS, NOT_BUILT, SYNONYMS
from headrace.sql.inference import GlueTable, Nothing, Schema
from headrace.sql.kinesis_analytics import import_application
from headrace.sql.parsing import parse
from headrace.sql.plan import KINESIS_ANALYTICS, KSQL
from headrace.sql.pyspark_job import compile_script
from headrace.sql.types import Function, Location, SqlError, result_word, signature
from scripts.sql_published import Outcome, outcomes

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "sql-reference.md"
STATEMENTS = ROOT / "scripts" / "sql_statements.yaml"
FACTS = ROOT / "tests" / "unit" / "sql" / "ksql_facts.yaml"


def page() -> str:
    """Return the whole page."""
    facts: dict[str, list[Any]] = yaml.safe_load(FACTS.read_text(encoding="utf-8"))
    count = sum(map(len, facts.values()))
    lines = [
        "# Streaming SQL: what there is",
        "",
        "`python -m scripts.sql_page` writes this page from the code: each statement below was given to the compiler,",
        "and its sentence stands here. [sql.md](sql.md) says how to use it.",
        "",
        *_statements(),
        *_published(),
        "",
        "## Functions",
        "",
        f"{count} values, of ksqlDB's reference and its published test of URLs where these give them, hold in the",
        "runner without Spark, and in the compiled job on Spark 3.5, 4.0 and 4.1 (`tests/unit/sql/ksql_facts.yaml`):",
        f"{', '.join(f'{name} {len(values)}' for name, values in facts.items())}.",
        "",
    ]
    for kind, title in (("scalar", "Scalar"), ("aggregate", "Aggregate"), ("table", "Table")):
        lines += [
            f"### {title} functions",
            "",
            "| function | result | also called |",
            "|---|---|---|",
        ]
        functions = sorted((f for f in FUNCTIONS.values() if f.kind == kind), key=lambda f: f.name)
        lines += [_function(function) for function in functions]
        lines.append("")
    lines += ["### Refused by name", "", "| function | reason |", "|---|---|"]
    lines += [
        f"| {name} | {reason or 'headrace does not have it yet'} |"
        for name, reason in sorted(NOT_BUILT.items())
    ]
    return "\n".join(lines) + "\n"


def _function(function: Function) -> str:
    others = ", ".join(sorted(name for name, of in SYNONYMS.items() if of == function.name))
    return f"| {signature(function)} | {result_word(function)} | {others} |"


def _statements() -> Iterator[str]:
    sections: list[dict[str, Any]] = yaml.safe_load(STATEMENTS.read_text(encoding="utf-8"))
    for section in sections:
        dialect = KINESIS_ANALYTICS if section.get("dialect") == KINESIS_ANALYTICS else KSQL
        rows = [
            (one, _imported(one["application"]))
            if "application" in one
            else (one, _outcome(section["setup"], one["text"], dialect))
            for one in section["statements"]
        ]
        runs = sum(outcome == "runs" for _, outcome in rows)
        yield from (
            f"## {section['title']}",
            "",
            f"{section['about']} {runs} of {len(rows)} run.",
            "",
        )
        yield from ("| what | example | |", "|---|---|---|")
        for one, outcome in rows:
            example = " ".join((one.get("text") or "headrace sql import").split()).replace(
                "|", "\\|"
            )
            sentence = outcome.replace("|", "\\|")
            yield f"| {one['what']} | `{example}` | {sentence} |"
        yield ""


def _published() -> Iterator[str]:
    by_file: dict[str, list[Outcome]] = {}
    for outcome in outcomes():
        by_file.setdefault(outcome.file, []).append(outcome)
    count = sum(map(len, by_file.values()))
    hold = sum(not one.problem for file in by_file.values() for one in file)
    rows = [_row(file, by_file[file]) for file in sorted(by_file)]
    yield from (
        "## ksqlDB's published query tests",
        "",
        f"{count} facts, in names and values of ours (`tests/unit/sql/ksqldb/`): {hold} hold in the",
        f"runner without Spark. The table has a row for each of {len(rows)} files of query-validation tests, by their",
        "names in the three folders that ksqlDB has had: all were read, and what a file repeats is here once. The",
        "newest folder has 232 paths, 52 of them copies (bin1 to bin14, alan).",
        "",
        "| file | facts | hold | what does not |",
        "|---|---|---|---|",
        *rows,
    )


def _row(file: str, facts: list[Outcome]) -> str:
    """Return a file's row of the table."""
    others = [
        f"{one.what}: {one.departs or 'refused: ' + one.sentence}" for one in facts if one.problem
    ]
    words = "; ".join(others).replace("|", "\\|")
    sampled = f" (sampled: {facts[0].sampled})" if facts[0].sampled else ""
    return f"| {file}{sampled} | {len(facts)} | {len(facts) - len(others)} | {words} |"


def _imported(special: dict[str, Any]) -> str:
    """Return what comes of the import of an application whose input, schema or output has `special` parts."""
    try:
        read_script(import_special(special), KINESIS_ANALYTICS)
    except SqlError as error:
        return f"refused: {error.message}"
    return "runs"


def import_special(special: dict[str, Any]) -> str:
    """Return the SQL of an application whose input, schema or output has `special` parts; raises SqlError."""
    schema = special.get("InputSchema", {})
    format_ = {
        "RecordFormatType": "JSON",
        "MappingParameters": {
            "JSONMappingParameters": {"RecordRowPath": schema.get("RecordRowPath", "$")}
        },
    }
    column = {"Name": "price", "SqlType": "DOUBLE", "Mapping": schema.get("Mapping", "$.price")}
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/"
    source = {
        "NamePrefix": "SOURCE_SQL_STREAM", "KinesisStreamsInputDescription": {"ResourceARN": f"{arn}in"},
        "InputSchema": {"RecordFormat": format_, "RecordColumns": [column]}, **special.get("Input", {}),
    }  # fmt: skip
    output = special.get(
        "Output", {"KinesisStreamsOutputDescription": {"ResourceARN": f"{arn}out"}}
    )
    code = "CREATE STREAM d (price DOUBLE); INSERT INTO d SELECT STREAM price FROM SOURCE_SQL_STREAM_001;"
    description = {
        "ApplicationCode": code,
        "InputDescriptions": [source],
        "OutputDescriptions": [{"Name": "d", **output}],
    }
    return import_application({"ApplicationDetail": description})


class _Outside(Nothing):
    """A stream with one record, a table, a schema and a file, for the statements that ask for one."""

    def records(self, stream: str, location: Location) -> list[bytes]:
        return [b'{"a": 1}']

    def table(self, database: str, name: str, location: Location) -> GlueTable:
        return GlueTable((("a", "int"),), "s", "JSON")

    def schema(self, registry: str, name: str, version: int | None, location: Location) -> Schema:
        return Schema("JSON", (("v", '{"properties": {"a": {"type": "integer"}}}'),))

    def file(self, path: str, location: Location) -> str:
        return "def f(a): return a"


def _outcome(setup: str, text: str, dialect: str) -> str:
    """Return "runs", "at the prompt", or why the compiler refuses a statement."""
    analysis = Analysis(dialect, _Outside())
    for statement in parse(setup, analysis.words):
        analysis.take(statement)
    try:
        for statement in parse(text, analysis.words):
            analysis.take(statement)
        if analysis.queries:
            compile_script(analysis.script(), "An example.")
    except SqlError as error:
        return (
            "at the prompt" if "is for the prompt" in error.message else f"refused: {error.message}"
        )
    return "runs"


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        print("docs/sql-reference.md is stale; run python -m scripts.sql_page", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
