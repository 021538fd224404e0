"""What each function gives, by ksqlDB's reference and published tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.sql.analysis import read_script
from headrace.sql.fold import Record, run
from scripts.sql_published import outcomes

FACTS: dict[str, list[tuple[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("ksql_facts.yaml").read_text(encoding="utf-8")
)
SOURCE = "CREATE STREAM one (k VARCHAR, n INT, m INT, s VARCHAR) WITH (stream = 'one');\n"
RECORDS = [
    {"k": "same", "n": 5, "m": 1, "s": "b"},
    {"k": "same", "n": None, "m": 2, "s": "a"},
    {"k": "same", "n": 1, "m": 3, "s": "b"},
    {"k": "same", "n": 2, "m": None, "s": "c"},
]


def queries() -> str:
    """Return a stream of all scalar facts, and a table of all aggregates, a column for each."""
    scalars = [
        expression
        for name, facts in FACTS.items()
        if name != "aggregates"
        for expression, _ in facts
    ]
    columns = ",\n".join(f"{one} AS c{index}" for index, one in enumerate(scalars))
    groups = ",\n".join(f"{one} AS c{index}" for index, (one, _) in enumerate(FACTS["aggregates"]))
    return (
        f"{SOURCE}CREATE STREAM scalars AS SELECT {columns} FROM one WHERE n = 5;\n"
        f"CREATE TABLE aggregates AS SELECT k AS kk, {groups} FROM one GROUP BY k;\n"
    )


def expected(*names: str) -> dict[str, Any]:
    values = [value for name in names for _, value in FACTS[name]]
    return {f"c{index}": value for index, value in enumerate(values)}


@pytest.mark.parametrize("kind", ["scalars", "aggregates"])
def test_each_fact_holds(kind: str) -> None:
    names = (
        ["aggregates"] if kind == "aggregates" else [name for name in FACTS if name != "aggregates"]
    )
    fold = run(read_script(queries()), [("one", Record(record)) for record in RECORDS])
    row = fold.results[kind][-1].columns
    wrong = {
        name: (row[name], value)
        for name, value in expected(*names).items()
        if row[name] != (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)
    }
    assert not wrong


def test_each_fact_of_ksqldbs_tests_holds_or_says_why_not() -> None:
    of_all = list(outcomes())
    assert len(of_all) > 90
    assert not [one for one in of_all if bool(one.problem) != (one.departs is not None)]
    # What is not refused must say in its own words why its rows differ.
    assert not [one for one in of_all if one.problem and not (one.departs or one.sentence)]
