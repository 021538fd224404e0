"""Kinesis Analytics' sliding windows, joins over windows and reference tables, and what is refused of them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.fold import Fold, Record, run
from headrace.sql.pyspark_job import compile_script
from headrace.sql.types import SqlError

RELATIONS = """CREATE STREAM ticks (ticker VARCHAR(4), price DOUBLE, ms BIGINT) WITH (stream = 'ticks', timestamp = 'ms');
CREATE TABLE names (ticker VARCHAR(4), name VARCHAR(9)) WITH (object = 's3://b/names.csv', format = 'CSV');
"""


def rows(query: str, *seconds: int) -> list[dict[str, Any]]:
    records = [
        ("ticks", Record({"ticker": "A", "price": float(s), "ms": s * 1000})) for s in seconds
    ]
    fold = run(read_script(RELATIONS + query, "kinesis-analytics"), records)
    return [row.columns for row in fold.results["query_1"]]


def test_each_row_counts_those_of_the_window_before_it() -> None:
    """The guide's example: a window of five seconds, and rows at 1, 2, 6, 7 and 8."""
    query = "SELECT STREAM COUNT(*) OVER (PARTITION BY ticker RANGE INTERVAL '5' SECOND PRECEDING) AS n FROM ticks;"
    assert [row["n"] for row in rows(query, 1, 2, 6, 7, 8)] == [1, 2, 2, 2, 3]


def test_windows_of_rows_have_names_and_stand_in_expressions() -> None:
    query = (
        "SELECT STREAM price - MIN(price) OVER w AS rise, SUM(price) OVER one AS two FROM ticks "
        "WINDOW w AS (ROWS 2 PRECEDING), one AS (PARTITION BY ticker ROWS 1 PRECEDING);"
    )
    assert rows(query, 1, 2, 3, 9) == [
        {"rise": 0.0, "two": 1.0}, {"rise": 1.0, "two": 3.0}, {"rise": 2.0, "two": 5.0}, {"rise": 7.0, "two": 12.0},
    ]  # fmt: skip


def test_a_select_in_from_is_filtered_before_or_after_its_windows() -> None:
    """The guide's throttled alerts: a condition on a sliding window's value."""
    inner = (
        "(SELECT STREAM price AS p, COUNT(*) OVER w AS n FROM ticks WHERE price <> 2"
        " WINDOW w AS (RANGE INTERVAL '5' SECOND PRECEDING))"
    )
    after = f"SELECT STREAM p * 10 AS p, n FROM {inner} AS i WHERE i.n >= 2 AND p < 8;"
    assert rows(after, 1, 2, 3, 7, 8) == [{"p": 30.0, "n": 2}, {"p": 70.0, "n": 2}]
    assert rows(f"SELECT STREAM * FROM {inner} WHERE p > 6;", 1, 7, 8) == [
        {"p": 7.0, "n": 1},
        {"p": 8.0, "n": 2},
    ]
    groups = "(SELECT STREAM ticker, COUNT(*) AS n FROM ticks GROUP BY ticker, FLOOR(ROWTIME TO MINUTE) HAVING COUNT(*) < 4)"
    assert rows(f"SELECT STREAM n FROM {groups} WHERE n > 2;", 1, 2, 3, 61, 62, 121) == [{"n": 3}]


def test_groups_of_one_window_come_to_the_next_query_in_one_micro_batch() -> None:
    text = """CREATE STREAM counts (ticker VARCHAR(4), t TIMESTAMP, n DOUBLE);
    CREATE STREAM sums (ticker VARCHAR(4), n DOUBLE) WITH (stream = 'sums');
    CREATE PUMP p1 AS INSERT INTO counts SELECT STREAM ticker, STEP(ticks.ROWTIME BY INTERVAL '1' MINUTE), COUNT(*) FROM ticks
      GROUP BY ticker, STEP(ticks.ROWTIME BY INTERVAL '1' MINUTE);
    CREATE PUMP p2 AS INSERT INTO sums SELECT STREAM ticker, SUM(n) OVER w FROM counts
      WINDOW w AS (PARTITION BY t RANGE INTERVAL '10' MINUTE PRECEDING);"""
    records = [
        ("ticks", Record({"ticker": ticker, "price": 1.0, "ms": second * 1000}))
        for ticker, second in (("A", 1), ("B", 2), ("B", 3), ("C", 61), ("C", 200), ("C", 300))
    ]
    script = read_script(RELATIONS + text, "kinesis-analytics")
    of_first = [{"ticker": "A", "n": 3.0}, {"ticker": "B", "n": 3.0}]
    assert [row.columns for row in run(script, records).results["p2"]][:2] == of_first
    fold = Fold(script)
    fold.take_batch(records)
    fold.settle()
    assert [row.columns for row in fold.results["p2"]][:2] == of_first


def test_times_in_the_guides_forms() -> None:
    query = """SELECT STREAM TIMESTAMP_TO_CHAR('hh:mm', ROWTIME) AS a, EXTRACT(MINUTE FROM ROWTIME) AS b,
      TSDIFF(ROWTIME, APPROXIMATE_ARRIVAL_TIME) AS c, REGEX_REPLACE(ticker, 'A', 'b', 1, 0) AS d,
      UNIX_TIMESTAMP(CHAR_TO_TIMESTAMP('yyyy', '1971')) AS e FROM ticks;"""
    assert rows(query, 0, 13 * 3600 + 240) == [
        {"a": "12:00", "b": 0, "c": 0, "d": "b", "e": 31_536_000_000},
        {"a": "01:04", "b": 4, "c": 47_040_000, "d": "b", "e": 31_536_000_000},
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT STREAM n FROM (SELECT STREAM price + 1 FROM ticks);", "each value of a SELECT in FROM has a name"),
        ("SELECT STREAM m FROM (SELECT STREAM price AS n FROM ticks);", "column 15: no column 'm' in the SELECT in FROM"),
        ("SELECT STREAM x.n FROM (SELECT STREAM price AS n FROM ticks) AS y;", "no relation 'x'"),
        ("SELECT STREAM COUNT(*) AS c FROM (SELECT STREAM price AS n FROM ticks) GROUP BY FLOOR(ROWTIME TO MINUTE);",
         "chosen and filtered from alone"),
        ("SELECT STREAM CURRENT_DATE AS d FROM ticks;", "CURRENT_DATE is refused: on AWS every row has"),
        ("SELECT STREAM CHAR_TO_TIMESTAMP('hh', ticker) AS t FROM ticks;", "hh has no half of the day"),
        ("SELECT STREAM EXTRACT(EPOCH FROM ROWTIME) AS t FROM ticks;", "EPOCH is none of DAY, HOUR"),
        ("SELECT STREAM REGEX_REPLACE(ticker, 'A', 'b', 2, 0) AS t FROM ticks;", "REGEX_REPLACE is refused"),
        ("SELECT STREAM COUNT(*) OVER w FROM ticks;", "no window w: WINDOW w AS (..) makes one"),
        ("SELECT STREAM TOPK(price, 2) OVER (ROWS 2 PRECEDING) FROM ticks;", "TOPK has no sliding window"),
        ("SELECT STREAM EXP_AVG(price) OVER (ROWS 2 PRECEDING) FROM ticks;", "EXP_AVG is refused"),
        ("SELECT STREAM price FROM ticks WHERE COUNT(*) OVER (ROWS 2 PRECEDING) > 1;", "WHERE has no sliding window"),
        (
            "SELECT STREAM ticker, COUNT(*) OVER (ROWS 2 PRECEDING) AS n FROM ticks GROUP BY ticker, FLOOR(ROWTIME TO MINUTE);",
            "OVER goes without GROUP BY",
        ),
        ("SELECT STREAM price FROM ticks WINDOWED BY STAGGER (RANGE INTERVAL '1' MINUTE);",
         "price is neither in PARTITION BY nor in an aggregate function"),
        ("SELECT STREAM COUNT(*) FROM ticks WINDOWED BY HOP (RANGE INTERVAL '1' MINUTE);", "WINDOWED BY STAGGER, not HOP"),
        ("SELECT STREAM COUNT(*) AS n FROM ticks WINDOWED BY STAGGER (RANGE INTERVAL '1' MINUTE) GROUP BY ticker;",
         "PARTITION BY in place of GROUP BY"),
        ("SELECT STREAM COUNT(1, 2) AS n FROM ticks WINDOWED BY STAGGER (RANGE INTERVAL '1' MINUTE);", "COUNT takes"),
        ("SELECT STREAM NULL AS n FROM ticks WINDOWED BY STAGGER (RANGE INTERVAL '1' MINUTE);", "a column of NULL"),
        ("SELECT STREAM COUNT(*) AS n FROM ticks WHERE COUNT(*) > 1 WINDOWED BY STAGGER (RANGE INTERVAL '1' MINUTE);",
         "WHERE has no aggregate function"),
        ("SELECT STREAM COUNT(*) AS n FROM ticks WINDOWED BY STAGGER (PARTITION BY MAX(price) RANGE INTERVAL '1' MINUTE);",
         "PARTITION BY has no aggregate function"),
        ("SELECT STREAM MAX(ROWTIME) OVER (ROWS 2 PRECEDING) AS n FROM ticks WINDOWED BY STAGGER (RANGE INTERVAL '1' MINUTE);",
         "a staggered window has no sliding window"),
        ("SELECT STREAM TOPK(price, 2) FROM ticks WINDOWED BY STAGGER (RANGE INTERVAL '1' MINUTE);",
         "TOPK is not computed of a match's rows"),
        ("SELECT STREAM a.price FROM ticks a JOIN ticks OVER (ROWS 2 PRECEDING) AS b ON a.ticker = b.ticker;",
         "a join's window is RANGE INTERVAL"),
        ("SELECT name FROM names;", "a reference table is joined with a stream"),
        ("SELECT t.price FROM ticks t RIGHT JOIN names n ON t.ticker = n.ticker;", "INNER and LEFT joins, not RIGHT"),
        ("SELECT * FROM error_stream;", "--errors STREAM` puts them into a stream"),
        ("CREATE TABLE x (a INT) WITH (object = 'names.csv');", "object is the address of a reference table"),
        ("SELECT STREAM price FROM ticks WHERE ticker SIMILAR TO '(A|B)%';", "SIMILAR TO takes % and _ here"),
    ],
)  # fmt: skip
def test_what_has_no_window_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        read_script(RELATIONS + query, "kinesis-analytics")
    assert message in str(error.value)


def test_a_job_reads_a_reference_table_and_says_what_it_is() -> None:
    text = """CREATE STREAM out (name VARCHAR) WITH (stream = 'out'); CREATE PUMP p AS INSERT INTO out
SELECT STREAM n.name FROM ticks t JOIN names n ON t.ticker = n.ticker;"""
    job = compile_script(read_script(RELATIONS + text, "kinesis-analytics"), "A test.")
    assert '"""TABLE names, line 2: the object s3://b/names.csv."""' in job
    assert '"""STREAM ticks, line 1: the Kinesis stream ticks."""' in job


def test_a_stream_between_queries_of_micro_batches_needs_a_kinesis_stream() -> None:
    text = """CREATE STREAM mid (n BIGINT); CREATE STREAM out (n BIGINT) WITH (stream = 'out');
CREATE PUMP p AS INSERT INTO mid SELECT STREAM COUNT(*) OVER (ROWS 2 PRECEDING) FROM ticks;
CREATE PUMP q AS INSERT INTO out SELECT STREAM n FROM mid;"""
    with pytest.raises(SqlError, match="mid needs a Kinesis stream"):
        compile_script(read_script(RELATIONS + text, "kinesis-analytics"), "A test.")


def test_a_stream_in_the_application_that_nothing_writes_is_refused() -> None:
    text = """CREATE STREAM mid (n INT); CREATE STREAM out (n INT) WITH (stream = 'out');
CREATE PUMP p AS INSERT INTO out SELECT STREAM n FROM mid;"""
    with pytest.raises(SqlError, match=r"line 3, .*: no query writes into mid, which is read"):
        compile_script(read_script(RELATIONS + text, "kinesis-analytics"), "A test.")


def test_a_staggered_window_begins_with_its_partitions_first_row() -> None:
    """Rows at 3 to 62 are of one window, the row at 63, a minute after the first, is the next one's first."""
    query = (
        "SELECT STREAM ticker, COUNT(*) AS n, AVG(price) * 2 AS twice FROM ticks WHERE price <> 20 "
        "WINDOWED BY STAGGER (PARTITION BY ticker RANGE INTERVAL '1' MINUTE);"
    )
    assert rows(query, 3, 3, 62, 20, 63, 70, 200) == [
        {"ticker": "A", "n": 3, "twice": 136.0 / 3}, {"ticker": "A", "n": 2, "twice": 133.0}, {"ticker": "A", "n": 1, "twice": 400.0},
    ]  # fmt: skip


@pytest.mark.parametrize("alias", ["a", "B", "t"])
def test_a_staggered_windows_stream_may_have_any_name(alias: str) -> None:
    query = (
        f"SELECT STREAM {alias}.ticker, COUNT({alias}.price), MAX(price) FROM ticks AS {alias} "
        f"WINDOWED BY STAGGER (PARTITION BY {alias}.ticker RANGE INTERVAL '1' MINUTE);"
    )
    assert rows(query, 3, 5) == [{"ticker": "A", "KSQL_COL_0": 2, "KSQL_COL_1": 5.0}]
