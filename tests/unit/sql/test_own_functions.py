"""CREATE FUNCTION from a Python file, CREATE TYPE, and a STRUCT's fields as columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import sql_prompt
from headrace.cli.commands import headrace
from headrace.core.evaluation import Lane, Pool
from headrace.sql.analysis import Analysis, read_script
from headrace.sql.fold import run
from headrace.sql.inference import Nothing
from headrace.sql.parsing import parse
from headrace.sql.plan import Script
from headrace.sql.pyspark_job import compile_script
from headrace.sql.records import Record
from headrace.sql.types import Location, OwnFunction, SqlError

SOURCE = """
def late_class(delay, least):
    if delay is None:
        return "none"
    if delay == 13:
        raise ValueError("unlucky")
    if delay == 14:
        return 5
    return "late" if delay > least else "ok"

def total(values, by_name):
    return {"sum": sum(one for one in values if one), "n": len(by_name or {})}

def Halves(*values): return [one / 2 for one in values]
def of_one(a, *, b): return a
def endless(a):
    while True:
        pass
"""
FUNCTIONS = """CREATE TYPE amounts AS ARRAY<BIGINT>;
CREATE FUNCTION late_class (delay DOUBLE, least INT) RETURNS VARCHAR FROM 'f.py';
CREATE FUNCTION total (a amounts, m MAP<VARCHAR, INT>) RETURNS MAP<VARCHAR, BIGINT> FROM 'f.py';
CREATE FUNCTION halves (a INT, b INT) RETURNS ARRAY<DOUBLE> FROM 'f.py';
"""
QUERIES = """CREATE STREAM calls (d INT, xs amounts, st STRUCT<a INT, b amounts>) WITH (stream = 'calls');
CREATE STREAM called AS SELECT LATE_CLASS(d, 15) AS c, total(xs, NULL) AS t, halves(d, 3) AS h, st->*, st->b[1] AS f,
  CAST(xs AS amounts) AS y FROM calls WHERE late_class(d, 15) <> 'ok' OR d IS NULL OR d > 12;
CREATE TABLE counted AS SELECT late_class(d, 0) AS c, COUNT(*) AS n FROM calls GROUP BY late_class(d, 0);
"""
RECORDS: list[dict[str, Any]] = [
    {"d": 20, "xs": [1, 2, None], "st": {"a": 1, "b": [7]}}, {"d": 13, "xs": []}, {"d": 14}, {}, {"d": 2},
]  # fmt: skip


class Files(Nothing):
    """Has one file, f.py."""

    def file(self, path: str, location: Location) -> str:
        if path != "f.py":
            raise SqlError(f"{path} is not read", location)
        return SOURCE


def script_of(text: str, dialect: str = "ksql") -> Script:
    analysis = Analysis(dialect, Files())
    for statement in parse(text, analysis.words):
        analysis.take(statement)
    return analysis.script()


def test_a_function_of_python_gives_values_of_its_type_or_null() -> None:
    fold = run(script_of(FUNCTIONS + QUERIES), [("calls", Record(one)) for one in RECORDS])
    rows = [row.columns for row in fold.results["called"]]
    assert rows[0] == {
        "c": "late", "t": {"sum": 3, "n": 0}, "h": [10.0, 1.5], "a": 1, "b": [7], "f": 7, "y": [1, 2, None],
    }  # fmt: skip
    # What fails, and what has another type, is NULL.
    assert [(row["c"], row["t"], row["h"]) for row in rows[1:]] == [
        (None, {"sum": 0, "n": 0}, [6.5, 1.5]), (None, None, [7.0, 1.5]), ("none", None, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "dialect", "called", "results"),
    [
        ("""SELECT * FROM calls MATCH_RECOGNIZE (MEASURES late_class(x.d, 15) AS a, COLLECT_LIST(late_class(d, 15)) AS b
  PATTERN (x y) DEFINE y AS late_class(d, 15) = 'late' AND PREV(late_class(d, 15)) = 'ok') EMIT CHANGES;""",
         "ksql", ["own_late_class"], [{"a": "ok", "b": ["ok", "late"]}]),
        ("""SELECT STREAM late_class(d, 15) AS c, halves(MAX(d), 1)[1] AS h, MAX(late_class(d, 1)) AS m FROM calls
  WHERE late_class(d, 99) = 'ok' WINDOWED BY STAGGER (PARTITION BY late_class(d, 15) RANGE INTERVAL '1' MINUTE);""",
         "kinesis-analytics", ["own_late_class", "own_halves"],
         [{"c": "ok", "h": 1.0, "m": "late"}, {"c": "late", "h": 10.0, "m": "late"}]),
    ],
)  # fmt: skip
def test_row_patterns_and_staggered_windows_call_functions(
    query: str, dialect: str, called: list[str], results: list[dict[str, Any]]
) -> None:
    relation = "CREATE STREAM calls (d INT) WITH (stream = 'calls');"
    script = script_of(FUNCTIONS + relation + query, dialect)
    fold = run(script, [("calls", Record({"d": one})) for one in (2, 20)])
    assert [row.columns for row in fold.results["query_1"]] == results
    job = compile_script(script, "A test.")
    (registered,) = re.findall(r"^FUNCTIONS = \((.*?)^\)", job, re.MULTILINE | re.DOTALL)
    assert sorted(re.findall(r"^    \('(own_\w+)'", registered, re.MULTILINE)) == sorted(called)


def test_a_job_has_one_function_of_a_name() -> None:
    again = FUNCTIONS.partition("\n")[2].replace("CREATE", "CREATE OR REPLACE")
    later = "CREATE STREAM later AS SELECT late_class(d, 1) AS c FROM calls;"
    assert "FUNCTIONS = (" in compile_script(
        script_of(FUNCTIONS + QUERIES + again + later), "A test."
    )
    other = again.replace("least INT", "least DOUBLE")
    with pytest.raises(SqlError, match="LATE_CLASS was made anew after a query that calls it"):
        compile_script(script_of(FUNCTIONS + QUERIES + other + later), "A test.")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("CREATE FUNCTION f (a INT) RETURNS INT FROM 'g.py';", "line 1, column 1: g.py is not read"),
        ("CREATE FUNCTION late_clas (a INT) RETURNS INT FROM 'f.py';", "f.py has no function late_clas; did you mean 'late_class'"),
        ("CREATE FUNCTION late_class (a INT) RETURNS INT FROM 'f.py';", "late_class in f.py, line 2, does not take 1 arguments"),
        ("CREATE FUNCTION of_one (a INT) RETURNS INT FROM 'f.py';", "does not take 1 arguments"),
        ("CREATE FUNCTION total (a INT, b DATE) RETURNS INT FROM 'f.py';", "a function takes and gives .* not DATE: CAST"),
        ("CREATE FUNCTION lpad (a INT) RETURNS INT FROM 'f.py';", "lpad is a function of SQL's own"),
        (FUNCTIONS + "CREATE FUNCTION TOTAL (a INT, b INT) RETURNS INT FROM 'f.py';", "the function TOTAL is there already"),
        (FUNCTIONS + QUERIES + "CREATE STREAM z AS SELECT late_class('x', 1) FROM calls;",
         "line 9, column 38: argument 1 of late_class is DOUBLE, not STRING"),
        (FUNCTIONS + QUERIES + "CREATE STREAM z AS SELECT late_class(1) AS a FROM calls;", "LATE_CLASS takes 2 arguments, not 1"),
        (FUNCTIONS + QUERIES + "CREATE STREAM z AS SELECT halvs(1, 2) FROM calls;", "no function HALVS; did you mean 'HALVES'"),
        ("DROP FUNCTION f;", "no function f"),
        (FUNCTIONS + "DROP FUNCTION halvs;", "did you mean 'HALVES'"),
        ("CREATE TYPE int AS VARCHAR;", "int is a type of SQL's own"),
        ("CREATE TYPE a AS INT; CREATE TYPE A AS INT;", "column 35: the type A is there already"),
        ("CREATE TYPE address AS INT; CREATE STREAM s (a adress) WITH (stream = 's');", "no type adress; did you mean 'address'"),
        ("DROP TYPE a;", "no type a"),
        ("CREATE STREAM s (a VARCHAR) WITH (stream = 's'); CREATE STREAM z AS SELECT CAST(a AS ARRAY<INT>) AS b FROM s;",
         "line 1, column 76: STRING is not cast to ARRAY<INT>"),
        (FUNCTIONS + QUERIES + "CREATE TABLE z AS SELECT d, COUNT(*) AS n FROM calls WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 1 MINUTE) GROUP BY d;",
         "RETENTION is at least a window's size and its GRACE PERIOD"),
        ("CREATE STREAM s (a INT) WITH (stream = 's'); CREATE STREAM z AS SELECT a->* FROM s;", "->\\* reads a STRUCT's fields, and this is INT"),
        ("CREATE STREAM s (a INT, b STRUCT<a INT>) WITH (stream = 's'); CREATE STREAM z AS SELECT a, b->* FROM s;", "two columns are called a"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SqlError, match=sentence):
        script_of(text)


def test_a_type_may_be_dropped_and_made_again() -> None:
    text = """CREATE TYPE a AS INT; CREATE TYPE IF NOT EXISTS a AS VARCHAR; CREATE STREAM s (x a) WITH (stream = 's');
    DROP TYPE a; DROP TYPE IF EXISTS a; CREATE TYPE a AS VARCHAR; CREATE STREAM t (x a, type INT) WITH (stream = 't');"""
    relations = read_script(text).relations
    assert [str(relations[name].columns[0].type) for name in "st"] == ["INT", "STRING"]


def test_sql_test_bounds_a_function_and_counts_its_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_prompt, "POOL", Pool((Lane(0.1, 1, 0),)))
    (tmp_path / "f.py").write_text(SOURCE)
    queries, cases = tmp_path / "q.sql", tmp_path / "t.yaml"
    queries.write_text(
        FUNCTIONS + QUERIES + "CREATE FUNCTION endless (a INT) RETURNS INT FROM 'f.py';\n"
        "CREATE STREAM never AS SELECT endless(d) AS e FROM calls;\n"
    )
    cases.write_text("""
- name: of functions
  input: [{stream: calls, value: {d: 20, xs: [1]}}, {stream: calls, value: {d: 13, xs: []}}]
  output:
    called: [{c: late, t: {sum: 1, n: 0}, h: [10.0, 1.5]}, {c: null}]
- name: endless
  input: [{stream: calls, value: {d: 20}}]
  output: {never: []}
""")
    done = CliRunner().invoke(headrace, ["sql", "test", str(queries), str(cases)])
    assert done.exit_code == 1
    assert f"ok      {cases}: of functions" in done.output
    assert "endless of f.py takes too much time or memory" in done.output
    assert "calls of late_class gave NULL: ValueError: unlucky" in done.output
    # It is read, not run, until a row needs it.
    (tmp_path / "f.py").write_text("raise SystemExit('run')\n" + SOURCE)
    assert CliRunner().invoke(headrace, ["sql", "check", str(queries)]).exit_code == 0
    (tmp_path / "f.py").write_text("def (")
    done = CliRunner().invoke(headrace, ["sql", "check", str(queries)])
    assert "line 2, column 1: f.py is no Python: invalid syntax" in done.output


def test_a_functions_file_is_run_once() -> None:
    own = OwnFunction(
        "f.py", "runs = []\ndef f():\n    runs.append(1)\n    return len(runs)\n", "f", ()
    )
    outside = Nothing()
    assert [outside.call(own, ["INT"], ()) for _ in range(3)] == [1, 2, 3]
