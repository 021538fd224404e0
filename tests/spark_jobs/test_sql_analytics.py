"""The job and the fold agree on Kinesis Analytics' sliding windows, reference tables and joins of streams."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.sql.analysis import read_script
from tests.spark_jobs import sql_on_files
from tests.spark_jobs.sql_job import (
    differences,
    fold_of,
    reader_of,
    run_job,
    run_job_on,
    write_job,
)
from tests.spark_jobs.sql_job import sql_settings as sql_settings  # a fixture
from tests.unit.sql import test_applications as applications

TEXT = """
CREATE STREAM "SOURCE_SQL_STREAM_001" ("ticker" VARCHAR(4), "price" DOUBLE, "sold" BIGINT)
  WITH (stream = 'ticks', timestamp = 'sold');
CREATE STREAM trades (ticker VARCHAR(4), id INT, at_ms BIGINT) WITH (stream = 'trades', timestamp = 'at_ms');
CREATE TABLE "CompanyName" ("Ticker" VARCHAR(4), "Company" VARCHAR(20))
  WITH (object = 's3://bucket/companies.csv', format = 'CSV');
CREATE STREAM slid (ticker VARCHAR(4), sold BIGINT, lo DOUBLE, hi DOUBLE, n BIGINT, mean DOUBLE, fst DOUBLE, spread DOUBLE)
  WITH (stream = 'slid');
CREATE PUMP slide AS INSERT INTO slid SELECT STREAM ticker, sold, MIN(price) OVER w, MAX(price) OVER w, COUNT(*) OVER w,
  AVG(price) OVER last2, FIRST_VALUE(price) OVER w, MAX(price) OVER w - MIN(price) OVER w
  FROM "SOURCE_SQL_STREAM_001" WHERE price > 0
  WINDOW w AS (PARTITION BY ticker RANGE INTERVAL '60' SECOND PRECEDING), last2 AS (PARTITION BY ticker ROWS 2 PRECEDING);
CREATE STREAM named (ticker VARCHAR(4), company VARCHAR(20), price DOUBLE) WITH (stream = 'named');
CREATE PUMP name AS INSERT INTO named SELECT STREAM t.ticker, "c"."Company", t.price
  FROM "SOURCE_SQL_STREAM_001" AS t LEFT JOIN "CompanyName" AS "c" ON t.ticker = "c"."Ticker";
CREATE STREAM met (ticker VARCHAR(4), price DOUBLE, id INT) WITH (stream = 'met');
CREATE PUMP meet AS INSERT INTO met SELECT STREAM o.ticker, o.price, t.id FROM "SOURCE_SQL_STREAM_001" AS o
  JOIN trades OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS t ON o.ticker = t.ticker;
CREATE STREAM crowded (ticker VARCHAR(4), spread DOUBLE, n BIGINT) WITH (stream = 'crowded');
CREATE PUMP crowd AS INSERT INTO crowded SELECT STREAM ticker, hi - lo AS spread, n FROM (
  SELECT STREAM ticker, MIN(price) OVER w AS lo, MAX(price) OVER w AS hi, COUNT(*) OVER w AS n
  FROM "SOURCE_SQL_STREAM_001" WHERE price > 0 WINDOW w AS (PARTITION BY ticker RANGE INTERVAL '1' MINUTE PRECEDING))
  WHERE n >= 2 AND hi > lo;
CREATE STREAM timed (ticker VARCHAR(4), before TIMESTAMP, text VARCHAR(30), s INT, again TIMESTAMP, day DATE, waited BIGINT,
  came TIMESTAMP) WITH (stream = 'timed');
CREATE PUMP time AS INSERT INTO timed SELECT STREAM ticker, ROWTIME - INTERVAL '5' MINUTE,
  TIMESTAMP_TO_CHAR('yyyy-MM-dd hh:mm:ss', ROWTIME), EXTRACT(SECOND FROM ROWTIME),
  CHAR_TO_TIMESTAMP('yyyy-MM-dd', TIMESTAMP_TO_CHAR('yyyy-MM-dd', ROWTIME)), CHAR_TO_DATE('yyyy-MM-dd', '2018-05-09'),
  TSDIFF(APPROXIMATE_ARRIVAL_TIME, ROWTIME), APPROXIMATE_ARRIVAL_TIME FROM "SOURCE_SQL_STREAM_001";
CREATE STREAM arrived (ticker VARCHAR(4), came TIMESTAMP, n BIGINT) WITH (stream = 'arrived');
CREATE PUMP arrive AS INSERT INTO arrived SELECT STREAM ticker, STEP("SOURCE_SQL_STREAM_001".APPROXIMATE_ARRIVAL_TIME BY
  INTERVAL '4' SECOND) AS came, COUNT(*) AS n FROM "SOURCE_SQL_STREAM_001" GROUP BY ticker,
  STEP("SOURCE_SQL_STREAM_001".ROWTIME BY INTERVAL '60' SECOND),
  STEP("SOURCE_SQL_STREAM_001".APPROXIMATE_ARRIVAL_TIME BY INTERVAL '4' SECOND);
CREATE STREAM met_by_name (id INT, price DOUBLE) WITH (stream = 'met_by_name');
CREATE PUMP meet_by_name AS INSERT INTO met_by_name SELECT STREAM t.id, o.price FROM "SOURCE_SQL_STREAM_001" AS o
  OUTER JOIN trades OVER t ON o.ticker = t.ticker WINDOW t AS (RANGE INTERVAL '1' MINUTE PRECEDING);
"""
# With an imported application whose columns are places of records, and logs.
TEXT += (
    applications.application(applications.PLACES).replace("SOURCE_SQL_STREAM_001", "ORDERS")
    + applications.LOGS
)
COMPANIES = ["AMZN,Amazon", "AMZN,Amazon again", "TBV,"]


def tick(second: int, ticker: str, price: float) -> tuple[str, str, Any]:
    return "ticks", ticker, {"ticker": ticker, "price": price, "sold": second * 1000}


def trade(second: int, ticker: str, number: int) -> tuple[str, str, Any]:
    return "trades", ticker, {"ticker": ticker, "id": number, "at_ms": second * 1000}


OTHERS = [*applications.ORDERS, *applications.LINES]
# Rows of one time in one micro-batch and in two, a row that is late, one on a window's edge, and one that WHERE leaves out.
BATCHES = [
    [tick(1, "AMZN", 2.0), tick(1, "AMZN", 5.0), tick(2, "TBV", 1.0), trade(30, "AMZN", 1), *OTHERS],
    [tick(1, "AMZN", 4.0), tick(61, "AMZN", 7.0), tick(30, "AMZN", 3.0), trade(62, "AMZN", 2), tick(40, "TBV", -1.0)],
    [tick(121, "AMZN", 6.0), tick(62, "TBV", 9.0), tick(500, "X", 1.0), trade(600, "X", 3)],
    [tick(100, "AMZN", 8.0), tick(122, "TBV", 3.0)],
]  # fmt: skip


def fold_and_objects(folder: Path) -> Any:
    (folder / "objects").mkdir()
    (folder / "objects" / "companies.csv").write_text("\n".join(COMPANIES) + "\n")
    script = read_script(TEXT, "kinesis-analytics")
    lines = [("s3://bucket/companies.csv", "", line) for line in COMPANIES]
    return script, fold_of(script, [[*lines, *BATCHES[0]], *BATCHES[1:]])


@pytest.mark.slow
def test_sliding_windows_reference_tables_and_joins(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    script, fold = fold_and_objects(tmp_path)
    read = run_job(script, BATCHES, tmp_path)
    assert not differences(script, fold, read)
    assert [row.columns["n"] for row in fold.results["slide"]][:3] == [2, 2, 1]
    assert len(fold.results["name"]) == 19
    assert [row.columns["n"] for row in fold.results["crowd"]] == [2, 2, 3, 2, 4]
    assert fold.results["time"][0].columns["text"] == "1970-01-01 12:00:01"


@pytest.mark.slow
@pytest.mark.parametrize("minor", ["3.5", "4.1"])
def test_the_same_rows_on_other_sparks(
    minor: str, spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    script, fold = fold_and_objects(tmp_path)
    read = run_job_on(minor, script, BATCHES, tmp_path)
    assert not differences(script, fold, read)


@pytest.mark.slow
def test_records_that_cannot_be_read_go_to_a_stream_of_errors(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    text = """CREATE STREAM ticks (ticker VARCHAR(4), price DOUBLE, sold BIGINT) WITH (stream = 'ticks', timestamp = 'sold');
CREATE STREAM out (price DOUBLE) WITH (stream = 'out');
CREATE PUMP p AS INSERT INTO out SELECT STREAM price FROM ticks;"""
    poison = ["{", '{"price": "x", "sold": 1}', '{"price": 1.0}']
    records = [("ticks", f"k{number}", text) for number, text in enumerate(poison)]
    write_job(read_script(text, "kinesis-analytics"), [[*records, tick(1, "AMZN", 2.0)]], tmp_path)
    sql_on_files.run(tmp_path, "--errors", "errors")
    read = reader_of(tmp_path)
    assert [row["price"] for row in read("out")] == [2.0]
    errors = sorted(read("errors"), key=lambda row: row["_key"])
    assert [base64.b64decode(row["data"]).decode() for row in errors] == poison
    assert {row["relation"] for row in errors} == {"ticks"}
