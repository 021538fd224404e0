"""Of AWS's SQL reference: functions of a CURSOR, EXP_AVG, LAG, distinct rows in FROM, logs, forms of texts and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.sql.analysis import read_script
from headrace.sql.fold import Fold, Record
from headrace.sql.types import SqlError

RELATIONS = (
    "CREATE STREAM ticks (sym VARCHAR(4), price DOUBLE, log VARCHAR(99)) WITH (stream = 'ticks');"
)
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
Ticks = list[tuple[int, str, float | None]]
TICKS: Ticks = [
    (1, "A", 1.0),
    (2, "B", 2.0),
    (3, "A", 1.0),
    (3, "A", 1.0),
    (4, "C", None),
    (70, "C", 5.0),
]


def rows(query: str, ticks: Ticks, log: str = "") -> list[dict[str, Any]]:
    fold = Fold(read_script(RELATIONS + query, "kinesis-analytics"))
    for second, sym, price in ticks:
        value = {"sym": sym, "price": price, "log": log}
        fold.take("ticks", Record(value, sym, BEGIN + timedelta(seconds=second)))
    fold.end()
    return [row.columns for row in fold.results["query_1"]]


def test_the_most_frequent_values_of_each_window() -> None:
    query = "SELECT STREAM {} FROM TABLE(TOP_K_ITEMS_TUMBLING(CURSOR(SELECT STREAM {} FROM ticks), '{}', {}, 60));"
    assert rows(query.format("ITEM, ITEM_COUNT", "*", "sym", 2), TICKS) == [
        {"ITEM": "A", "ITEM_COUNT": 3}, {"ITEM": "C", "ITEM_COUNT": 1}, {"ITEM": "C", "ITEM_COUNT": 1},
    ]  # fmt: skip
    assert rows(query.format("ITEM AS i", "LCASE(sym) AS low", "LOW", 1), TICKS) == [
        {"i": "a"},
        {"i": "c"},
    ]


def test_how_many_values_each_window_has() -> None:
    query = "SELECT STREAM * FROM TABLE(COUNT_DISTINCT_ITEMS_TUMBLING(CURSOR(SELECT STREAM * FROM ticks), 'price', 60));"
    assert rows(query, TICKS) == [{"NUMBER_OF_DISTINCT_ITEMS": 2}, {"NUMBER_OF_DISTINCT_ITEMS": 1}]


def test_distinct_rows_in_from_are_chosen_filtered_and_counted() -> None:
    inner = "(SELECT STREAM DISTINCT ROWTIME AS at, sym, price, STEP(ticks.ROWTIME BY INTERVAL '1' MINUTE) FROM ticks)"
    counted = (
        "SELECT STREAM sym, COUNT(*) AS n, COUNT(d.price) AS p, MAX(price) AS m "
        f"FROM {inner} AS d GROUP BY sym, STEP(d.at BY INTERVAL '1' MINUTE);"
    )
    assert rows(counted, TICKS) == [
        {"sym": "A", "n": 2, "p": 2, "m": 1.0}, {"sym": "B", "n": 1, "p": 1, "m": 2.0},
        {"sym": "C", "n": 1, "p": 0, "m": None}, {"sym": "C", "n": 1, "p": 1, "m": 5.0},
    ]  # fmt: skip
    chosen = "SELECT STREAM price AS p, s FROM (SELECT STREAM DISTINCT sym AS s, price FROM ticks) WHERE price < 3;"
    assert rows(chosen, TICKS) == [{"p": 1.0, "s": "A"}, {"p": 2.0, "s": "B"}]


def test_the_newest_interval_weighs_most() -> None:
    query = (
        "SELECT STREAM EXP_AVG(price, INTERVAL '10' SECOND) OVER w AS a FROM ticks "
        "WINDOW w AS (PARTITION BY sym RANGE INTERVAL '25' SECOND PRECEDING);"
    )
    ticks: Ticks = [
        (0, "A", 8.0),
        (5, "A", 4.0),
        (14, "A", None),
        (15, "A", 2.0),
        (24, "A", 1.0),
        (39, "A", 3.0),
    ]
    # At 24 s: 1 and 2 weigh 1, 4 a half, and 8 a quarter. At 39 s 1 is in the second interval, and 2 in the third.
    expected = [8.0, 6.0, 20 / 3, 5.6 / 1.4, 7 / 2.75, 4 / 1.75]
    expected[2] = (4 + 8 / 2) / 1.5
    expected[3] = (2 + (8 + 4) / 2) / 2
    assert [row["a"] for row in rows(query, ticks)] == pytest.approx(expected)


def test_a_line_has_columns_by_places_and_syslog_has_a_time() -> None:
    fixed = (
        "SELECT STREAM FIXED_COLUMN_LOG_PARSE(log, 'm TYPE VARCHAR(3) START 0 FOR 3, d TYPE INTEGER NOT NULL START 3 FOR 4, "
        "t TYPE TIME ''HH:mm:ss'' START 7 FOR 8, rest START 16') AS c FROM ticks;"
    )
    line = "Mar  5 10:11:12 host it works"
    assert rows(fixed, TICKS[:1], line) == [
        {"c": {"m": "Mar", "d": 5, "t": "10:11:12", "rest": "host it works"}}
    ]
    marks = "SELECT STREAM FIXED_COLUMN_LOG_PARSE(log, 't TYPE TIME ''HH;mm'' START 0 FOR 5') AS c FROM ticks;"
    assert rows(marks, TICKS[:1], "10;15") == [{"c": {"t": "10:15:00"}}]
    syslog = "SELECT STREAM t.r.COLUMN1 AS a, t.r.COLUMN2 AS b FROM (SELECT STREAM SYS_LOG_PARSE(log) AS r FROM ticks) AS t;"
    assert rows(syslog, TICKS[:1], line) == [
        {"a": "2026-03-05T10:11:12.000Z", "b": "host it works"}
    ]
    assert rows(syslog, TICKS[:1], "nothing") == [{"a": None, "b": None}]


def test_a_rows_moment_is_its_arrival() -> None:
    query = "SELECT STREAM CURRENT_ROW_TIMESTAMP AS a, CURRENT_ROW_TIMESTAMP() AS b FROM ticks;"
    assert rows(query, TICKS[:1]) == [
        {"a": "2026-03-01T00:00:01.000Z", "b": "2026-03-01T00:00:01.000Z"}
    ]


def test_a_window_looks_back_at_the_row_before() -> None:
    query = (
        "SELECT STREAM LAG(price) OVER w AS a, LAG(price, 2, -1.0) OVER w AS b, LAG(price, 3) OVER w AS c, "
        "LAG(price) OVER t AS d FROM ticks WINDOW w AS (PARTITION BY sym ORDER BY ROWTIME ROWS BETWEEN 2 PRECEDING "
        "AND CURRENT ROW), t AS (RANGE INTERVAL '5' SECOND PRECEDING);"
    )
    ticks: Ticks = [(0, "A", 1.0), (3, "A", None), (9, "A", 3.0), (10, "A", 4.0)]
    assert rows(query, ticks) == [
        {"a": None, "b": -1.0, "c": None, "d": None}, {"a": 1.0, "b": -1.0, "c": None, "d": 1.0},
        {"a": None, "b": 1.0, "c": None, "d": None}, {"a": 3.0, "b": None, "c": None, "d": 3.0},
    ]  # fmt: skip


def test_forms_of_the_sql_reference() -> None:
    query = (
        "SELECT STREAM TRIM(BOTH '.' FROM log) AS a, TRIM(LEADING '.' FROM log) AS b, TRIM(TRAILING FROM log || ' ') AS c, "
        "POSITION('b' IN log) AS d, OVERLAY(log PLACING 'ZZ' FROM 2) AS e, OVERLAY(log PLACING '' FROM 2 FOR 1) AS f, "
        "CEIL(ROWTIME TO MINUTE) AS g, CEIL(TIMESTAMP '2026-01-01 00:00:00' TO HOUR) AS h, DATE '2026-01-31' AS i, "
        "TIME '10:15' AS j, LOG10(100) AS k, TO_TIMESTAMP(0) AS l FROM ticks WHERE ROWTIME > TIMESTAMP '2026-01-01 00:00:00';"
    )
    assert rows(query, TICKS[:1], "..b.") == [{
        "a": "b", "b": "b.", "c": "..b.", "d": 3, "e": ".ZZ.", "f": ".b.", "g": "2026-03-01T00:01:00.000Z",
        "h": "2026-01-01T00:00:00.000Z", "i": "2026-01-31", "j": "10:15:00", "k": 2.0, "l": "1970-01-01T00:00:00.000Z",
    }]  # fmt: skip


def test_a_window_by_a_difference_from_1970_is_one_by_step() -> None:
    old = "FLOOR((ticks.ROWTIME - TIMESTAMP '1970-01-01 00:00:00') SECOND / 30 TO SECOND)"
    step = "STEP(ticks.ROWTIME BY INTERVAL '30' SECOND)"
    query = "SELECT STREAM sym, COUNT(*) AS n FROM ticks GROUP BY sym, {};"
    assert rows(query.format(old), TICKS) == rows(query.format(step), TICKS)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT STREAM p FROM (SELECT STREAM DISTINCT sym AS s, price AS p FROM ticks);", "all columns of a SELECT DISTINCT"),
        ("SELECT STREAM p + 1 AS q FROM (SELECT STREAM DISTINCT price AS p FROM ticks);", "is chosen as it is"),
        ("SELECT STREAM SUM(p) AS q FROM (SELECT STREAM DISTINCT price AS p FROM ticks) GROUP BY FLOOR(ROWTIME TO MINUTE);",
         "SUM of a SELECT DISTINCT in FROM is not built"),
        ("SELECT STREAM COUNT(*) AS q FROM (SELECT STREAM DISTINCT * FROM ticks) AS d GROUP BY FLOOR(d.t TO MINUTE);",
         "is of one stream's columns, by their names"),
        ("SELECT STREAM ITEM FROM TABLE(TOP_K_ITEMS_TUMBLING(CURSOR(SELECT STREAM * FROM ticks), 'sym', 5));",
         "takes a CURSOR, a column's name and a number of values and a window's seconds"),
        ("SELECT STREAM ITEM FROM TABLE(TOP_K_ITEMS_TUMBLING(CURSOR(SELECT STREAM * FROM ticks), 'sym', 5, 3601));",
         "a window's seconds is from 1 to 3,600"),
        ("SELECT STREAM ITEM FROM TABLE(TOP_K_ITEMS_TUMBLING(CURSOR(SELECT STREAM sym FROM ticks), 'price', 5, 60));",
         "no column 'price' in the CURSOR"),
        ("SELECT STREAM a FROM TABLE(RANDOM_CUT_FOREST(CURSOR(SELECT STREAM price FROM ticks), 100, 256));",
         "PyPI has no kept library of it"),
        ("SELECT STREAM EXP_AVG(price, INTERVAL '1' SECOND) OVER (RANGE INTERVAL '61' SECOND PRECEDING) AS a FROM ticks;",
         "1 to 60 intervals"),
        ("SELECT STREAM EXP_AVG(price, INTERVAL '1' SECOND) AS a FROM ticks;", "it is of a sliding window of a time"),
        ("SELECT STREAM FIXED_COLUMN_LOG_PARSE(log, 'a TYPE INTEGER') AS a FROM ticks;", "a has no place: START 0 FOR 4"),
        ("SELECT STREAM FIXED_COLUMN_LOG_PARSE(log, 'a TYPE INTEGER ''yyyy'' START 0') AS a FROM ticks;", "is no column"),
        ("SELECT STREAM LAG(price, 0) OVER (ROWS 1 PRECEDING) AS a FROM ticks;", "a number from 1 to 1,000"),
        ("SELECT STREAM LAG(price) AS a FROM ticks;", "it is of a sliding window: LAG"),
        ("SELECT STREAM DATE '2026-02-30' AS a FROM ticks;", "'2026-02-30' is no DATE"),
        ("SELECT STREAM NUMBER '1' AS a FROM ticks;", "'1' does not belong here"),
        ("SELECT STREAM TRIM(BOTH 'ab' FROM log) AS a FROM ticks;", "TRIM takes off a character"),
        ("SELECT STREAM CEIL(price TO HOUR) AS a FROM ticks;", "is rounded, not DOUBLE"),
        ("SELECT STREAM FLOOR((ROWTIME - TIMESTAMP '1970-01-02 00:00:00') SECOND / 10 TO SECOND) AS a FROM ticks;",
         "a time is rounded by STEP"),
        ("SELECT STREAM AVG(price) OVER (ORDER BY price ROWS 2 PRECEDING) AS a FROM ticks;", "in the order of ROWTIME"),
        ("SELECT STREAM CURRENT_TIMESTAMP AS a FROM ticks;", "the moment at which its query began"),
    ],
)  # fmt: skip
def test_what_is_refused(query: str, words: str) -> None:
    with pytest.raises(SqlError, match=words.replace("(", r"\(").replace("+", r"\+")):
        read_script(RELATIONS + query, "kinesis-analytics")


def test_a_group_has_no_table_function_in_ksql() -> None:
    text = (
        "CREATE STREAM s (k VARCHAR KEY, a INT) WITH (stream = 's');"
        "CREATE TABLE t AS SELECT k, EXPLODE(COLLECT_LIST(a)) AS e FROM s GROUP BY k;"
    )
    with pytest.raises(SqlError, match="a table function goes without GROUP BY"):
        read_script(text)
