"""MATCH_RECOGNIZE in SQL: what it gives, what is refused, and what a job and `explain` say."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.explain import explain
from headrace.sql.fold import Fold, Record, run
from headrace.sql.pyspark_job import compile_script
from headrace.sql.types import SqlError

TICKS = """CREATE STREAM ticks (sym VARCHAR KEY, price DOUBLE, n INT, ms BIGINT, tags ARRAY<VARCHAR>, seen STRUCT<by VARCHAR>) WITH (stream = 'ticks', timestamp = 'ms');
CREATE TABLE names (sym VARCHAR PRIMARY KEY, name VARCHAR) WITH (stream = 'names');
"""
FALL = """SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY sym ORDER BY ROWTIME
  MEASURES FIRST(s.ms) AS start_ms, LAST(down.price) AS lowest, up.price AS last_price, COUNT(*) AS n, CLASSIFIER() AS c
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (s down+ up+) WITHIN 1 HOUR
  DEFINE down AS price < PREV(price), up AS up.price > PREV(up.price)) AS m"""


def tick(sym: str, second: int, price: float) -> tuple[str, Record]:
    parts = {"tags": [str(float(price))], "seen": {"by": str(float(price))}}
    return "ticks", Record({"sym": sym, "price": price, "n": second, "ms": second * 1000, **parts})


def rows_of(query: str, prices: list[float], dialect: str = "ksql") -> list[dict[str, Any]]:
    records = [tick("A", second, price) for second, price in enumerate(prices)]
    return [
        row.columns for row in run(read_script(TICKS + query, dialect), records).results["query_1"]
    ]


def match(rest: str) -> str:
    return f"SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY sym {rest}) AS m EMIT CHANGES;"


def test_falls_that_turn_are_found_in_each_partition() -> None:
    prices = [10.0, 8, 7, 9, 12, 11, 10, 15, 3]
    rows = rows_of(FALL + " EMIT CHANGES;", prices)
    assert rows == [
        {"sym": "A", "start_ms": 0, "lowest": 7.0, "last_price": 12.0, "n": 5, "c": "UP"},
        {"sym": "A", "start_ms": 5000, "lowest": 10.0, "last_price": 15.0, "n": 3, "c": "UP"},
    ]
    mixed = [tick(sym, second, price) for second, price in enumerate(prices) for sym in "BA"]
    fold = run(read_script(TICKS + FALL + " WHERE m.n > 3 EMIT CHANGES;"), mixed)
    assert [(row.key, row.columns["n"]) for row in fold.results["query_1"]] == [("B", 5), ("A", 5)]


@pytest.mark.parametrize(
    ("rest", "prices", "results"),
    [
        # Greedy and reluctant, overlapping matches, counts, alternatives.
        ("MEASURES COUNT(*) AS c PATTERN (a+ b) DEFINE b AS price > 1", [1, 2, 3, 1], [3]),
        ("MEASURES COUNT(*) AS c PATTERN (a+? b) DEFINE b AS price > 1", [1, 2, 3, 1], [2]),
        ("MEASURES FIRST(n) AS c AFTER MATCH SKIP TO NEXT ROW PATTERN (a b) DEFINE b AS price > PREV(price)", [1, 2, 3, 1], [0, 1]),
        ("MEASURES COUNT(*) AS c PATTERN (a{2,3}) DEFINE a AS price = 1", [1, 1, 1, 1, 1, 2, 1], [3, 2]),
        ("MEASURES CLASSIFIER() AS c PATTERN (a | b) DEFINE a AS price = 1, b AS price = 2", [1, 2, 3], ["A", "B"]),
        # Conditions over the rows before: sums, averages, first and earlier rows, and rows before the match.
        ("MEASURES SUM(a.price) AS c PATTERN (a+ b) DEFINE a AS SUM(a.price) < 5", [1, 2, 1, 4, 9], [4.0]),
        ("MEASURES COUNT(*) AS c PATTERN (a b+) DEFINE b AS price < AVG(a.price)", [5, 4, 3, 6], [3]),
        ("MEASURES COLLECT_LIST(n) AS c PATTERN (a+) DEFINE a AS price >= FIRST(a.price) AND price <> 9", [3, 2, 4, 9], [[0], [1, 2]]),
        ("MEASURES a.price AS c PATTERN (a) DEFINE a AS price > PREV(price, 2)", [3, 2, 4, 9], [4.0, 9.0]),
        ("MEASURES n AS c, LAST(a.n, 1) AS d PATTERN (a a) DEFINE a AS LAST(a.n, 1) IS NULL OR n > LAST(a.n, 1)", [0, 0], [1]),
        # Functions of one row are those of SQL; CASE and COALESCE put rows together.
        ("MEASURES UCASE(sym) || '!' AS c PATTERN (a) DEFINE a AS SQRT(price) = 2 AND sym LIKE 'A%'", [4], ["A!"]),
        ("MEASURES MIN(price) + MAX(price) AS c PATTERN (a b) DEFINE b AS CASE WHEN a.price > 1 THEN n > 5 ELSE ABS(COALESCE(b.price, 0) - a.price) = 4 END", [1, 5], [6.0]),
        ("MEASURES MATCH_NUMBER() AS c PATTERN (a) DEFINE a AS price = 1", [1, 2, 1], [1, 2]),
        # A part of a row's value is the row's; of none, NULL.
        ("MEASURES a.tags[1] AS c PATTERN (a b) DEFINE b AS b.tags[1] <> a.tags[1]", [1, 1, 2], ["1.0"]),
        ("MEASURES a.seen->by AS c PATTERN (a b) DEFINE b AS seen->by > a.seen->by", [1, 1, 2], ["1.0"]),
        ("MEASURES COALESCE(b.seen->by, 'none') AS c PATTERN (a b? d) DEFINE b AS price > 1", [1, 1, 1], ["none"]),
    ],
)  # fmt: skip
def test_what_a_pattern_matches(rest: str, prices: list[float], results: list[Any]) -> None:
    assert [row["c"] for row in rows_of(match(rest), prices)] == results


def test_a_match_ends_within_its_time_and_rows_come_in_any_order() -> None:
    query = match(
        "MEASURES FIRST(n) AS a, LAST(n) AS b PATTERN (x y+) WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS"
    )
    fold = Fold(read_script(TICKS + query))
    # 12 is taken before 11 comes; 3 is older than the watermark of 5 seconds before the newest row.
    for second in (0, 4, 2, 12, 11, 3, 40):
        fold.take(*tick("A", second, 1.0))
    fold.settle()
    assert [(row.columns["a"], row.columns["b"]) for row in fold.results["query_1"]] == [
        (0, 4),
        (11, 12),
    ]
    assert fold.late["query_1"] == 1


def test_kinesis_analytics_has_times_and_intervals() -> None:
    query = """SELECT STREAM ROWTIME AS at, m.first_at FROM ticks MATCH_RECOGNIZE (MEASURES a.ROWTIME AS first_at
      PATTERN (a b) DEFINE b AS b.ROWTIME >= a.ROWTIME + INTERVAL '3' SECOND) AS m;"""
    records = [tick("A", second, 1.0) for second in (0, 1, 4)]
    fold = run(read_script(TICKS + query, "kinesis-analytics"), records)
    assert [row.columns for row in fold.results["query_1"]] == [
        {"at": "1970-01-01T00:00:04.000Z", "first_at": "1970-01-01T00:00:01.000Z"}
    ]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("MEASURES n AS c PATTERN (a) DEFINE b AS n > 1", "B is not in PATTERN"),
        ("MEASURES n AS c PATTERN (a*)", "matches no rows at all"),
        ("MEASURES n AS c PATTERN ((a{900}){900})", "at most 1,000 rows"),
        ("MEASURES n AS c PATTERN (a{3,2})", "m of at least 1 and of at least n"),
        ("MEASURES n AS c PATTERN (a b) DEFINE a AS n > NEXT(n)", "NEXT is not there when a row comes"),
        ("MEASURES n AS c ALL ROWS PER MATCH PATTERN (a)", "a match is one row here"),
        ("MEASURES n AS c AFTER MATCH SKIP TO FIRST a PATTERN (a)", "could begin at the same row for ever"),
        ("ORDER BY price MEASURES n AS c PATTERN (a)", "in the order of their time: ORDER BY ROWTIME"),
        ("MEASURES x.n AS c PATTERN (a)", "no row 'x' in PATTERN"),
        ("MEASURES a.m AS c PATTERN (a)", "no column 'm' in ticks"),
        ("MEASURES FIRST(a.n + b.n) AS c PATTERN (a b)", "of one row of PATTERN"),
        ("MEASURES FIRST(PREV(n)) AS c PATTERN (a b)", "PREV does not stand in another"),
        ("MEASURES TOPK(n, 2) AS c PATTERN (a)", "TOPK is not computed of a match's rows"),
        ("MEASURES COUNT(DISTINCT n) AS c PATTERN (a)", "COUNT is not computed of a match's rows"),
        ("MEASURES tags AS c PATTERN (a)", "carries values of one part, not ARRAY<STRING>"),
        ("MEASURES n AS c PATTERN (a b) DEFINE b AS SQRT(a.price) > price", "other functions stand within PREV"),
        ("MEASURES n AS c PATTERN (a) DEFINE a AS n", "DEFINE A needs a condition, not INT"),
        ("MEASURES n AS c PATTERN (a) DEFINE a AS MATCH_NUMBER() > 1", "MATCH_NUMBER() stands in MEASURES"),
        ("MEASURES PREV(n, -1) AS c PATTERN (a)", "a number of rows is 0 to 1,000"),
        ("MEASURES n AS sym PATTERN (a)", "two columns of MATCH_RECOGNIZE are called sym"),
        ("MEASURES n AS c PATTERN (a) WITHIN 0 SECONDS", "WITHIN is longer than 0"),
    ],
)  # fmt: skip
def test_what_no_stream_has_is_refused(rest: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        read_script(TICKS + match(rest))
    assert message in str(error.value)
    assert error.value.location.line == 3


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM names MATCH_RECOGNIZE (MEASURES name AS x PATTERN (a)) EMIT CHANGES;", "a table has no order of rows"),
        ("CREATE TABLE x AS SELECT sym, COUNT(*) AS k FROM ticks MATCH_RECOGNIZE (PARTITION BY sym MEASURES n AS c PATTERN (a)) GROUP BY sym;",
         "goes without JOIN, GROUP BY and DISTINCT"),
        ("SELECT m.c FROM ticks JOIN ticks MATCH_RECOGNIZE (MEASURES n AS c PATTERN (a)) AS m WITHIN 1 HOUR ON ticks.n = m.c EMIT CHANGES;",
         "name the matches by CREATE STREAM"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_a_pattern_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        read_script(TICKS + query)
    assert message in str(error.value)


def test_a_pattern_that_may_wait_for_ever_is_warned_of() -> None:
    (_, warning), *_ = read_script(TICKS + match("MEASURES n AS c PATTERN (a b)")).warnings()
    assert "WITHIN bounds it" in warning


def test_the_job_has_the_matcher_and_needs_nothing_of_headrace() -> None:
    script = read_script(TICKS + f"CREATE STREAM falls AS {FALL};")
    job = compile_script(script, "A test.")
    compile(job, "job.py", "exec")
    assert "class Matcher" in job
    assert "import headrace" not in job
    assert "from headrace" not in job
    assert "class Matcher" not in compile_script(
        read_script(TICKS + "CREATE STREAM x AS SELECT n FROM ticks;"), "A test."
    )
    text = "\n".join(explain(script))
    assert (
        "matches  rows by sym, in the order of their time, within 1 hour; the next match begins past its end"
        in text
    )
    assert (
        "state    rows until their match is decided, at most 1 hour (at most 10,000 of each partition)"
        in text
    )
