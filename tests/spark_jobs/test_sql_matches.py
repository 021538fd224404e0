"""The job and the fold agree on MATCH_RECOGNIZE: every kind of value, late rows, and rows cut into micro-batches anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.sql.analysis import Analysis, read_script
from headrace.sql.inference import Folder
from headrace.sql.parsing import parse
from headrace.sql.plan import Script
from tests.spark_jobs.sql_job import differences, fold_of, run_job, run_job_on
from tests.spark_jobs.sql_job import sql_settings as sql_settings  # a fixture

TEXT = """
CREATE STREAM ticks (sym VARCHAR, price DOUBLE, n BIGINT, cost DECIMAL(10, 2), sold_on DATE, ok BOOLEAN, ms BIGINT)
  WITH (stream = 'ticks', timestamp = 'ms');
CREATE STREAM falls AS SELECT *, ROWTIME AS at_ms FROM ticks MATCH_RECOGNIZE (
  PARTITION BY sym ORDER BY ROWTIME
  MEASURES FIRST(s.ms) AS start_ms, LAST(down.price) AS lowest, up.price AS last_price, COUNT(*) AS n, CLASSIFIER() AS c,
    SUM(down.price) AS s, AVG(up.n) AS a, SUM(n) AS big, MIN(cost) AS cheap, SUM(cost) AS costs, LAST(sold_on) AS day,
    FIRST(down.ok) AS ok, COLLECT_LIST(down.n) AS ns, MATCH_NUMBER() AS k, MAX(sym) AS who, UCASE(s.sym) AS upper
  AFTER MATCH SKIP PAST LAST ROW PATTERN (s down+ up+) WITHIN 30 SECONDS GRACE PERIOD 5 SECONDS
  DEFINE down AS price < PREV(price), up AS up.price > PREV(up.price)) AS m WHERE m.n < 9;
CREATE STREAM pairs AS SELECT * FROM ticks MATCH_RECOGNIZE (
  MEASURES a.n AS first_n, b.n AS next_n, COLLECT_LIST(m.cost) AS costs AFTER MATCH SKIP TO NEXT ROW PATTERN (a m* b)
  WITHIN 10 SECONDS GRACE PERIOD 0 SECONDS
  DEFINE m AS cost < 2.5 OR SUM(m.price) < 3, b AS b.sym <> a.sym AND COALESCE(b.cost, 0) >= AVG(m.cost));
CREATE STREAM above AS SELECT who, far FROM ticks MATCH_RECOGNIZE (
  PARTITION BY sym, ok MEASURES sym AS who, PREV(n, 2) AS far PATTERN (a) GRACE PERIOD 0 SECONDS DEFINE a AS price > PREV(price));
"""


def tick(sym: str | None, second: int, price: float, n: int = 0) -> tuple[str, str, Any]:
    row = {
        "sym": sym,
        "price": price,
        "n": n,
        "cost": price / 2,
        "sold_on": f"2026-01-{second % 28 + 1:02}",
        "ms": second * 1000,
    }
    return "ticks", sym or "", row | {"ok": n % 2 == 0}


# A fall over three micro-batches, one without an end, equal times, a late row, NULL, sums that wrap, and one cut by WITHIN.
BATCHES = [
    [tick("A", 10, 9.0, 2**62), tick("B", 10, 5.0), tick("A", 13, 7.0, 2**62), tick("A", 12, 8.0, 2**62)],
    [tick("A", 20, 8.5, 1), tick("B", 11, 4.0, 3), tick(None, 21, 1.0), tick("A", 20, 8.75, 2)],
    [tick("A", 22, 3.0, 5), tick("B", 30, 9.0), tick("A", 15, 1.0), tick("A", 4, 1.0)],
    [tick("A", 70, 4.0), tick(None, 71, 0.5), tick("A", 71, 3.5), tick("A", 72, 9.5)],
    [tick("Z", 300, 1.0, 1), tick("Z", 301, 2.0, 1)],
]  # fmt: skip
FUNCTIONS = "def doubled(value):\n    return None if value is None else value * 2\n"
STAGGERED = """
CREATE FUNCTION doubled (value DOUBLE) RETURNS DOUBLE FROM 'functions.py';
CREATE STREAM ticks (sym VARCHAR, price DOUBLE, n BIGINT, sold_on DATE, ms BIGINT) WITH (stream = 'ticks', timestamp = 'ms');
CREATE STREAM staggered (minute TIMESTAMP, who VARCHAR, rows_in BIGINT, twice DOUBLE, day DATE) WITH (stream = 'staggered');
CREATE PUMP stagger AS INSERT INTO staggered
  SELECT STREAM FLOOR(ROWTIME TO MINUTE), sym, COUNT(*), AVG(doubled(price)) * 2 - doubled(AVG(price)), MAX(sold_on)
  FROM ticks WHERE doubled(price) > 2 WINDOWED BY STAGGER (PARTITION BY FLOOR(ROWTIME TO MINUTE), sym RANGE INTERVAL '10' SECOND);
"""
ROW = st.tuples(
    st.sampled_from(["A", "B", None]),
    st.integers(1, 60),
    st.sampled_from([1.0, 2.0, 3.5]),
    st.integers(0, 3),
)


def staggered(folder: Path) -> Script:
    (folder / "functions.py").write_text(FUNCTIONS)
    analysis = Analysis("kinesis-analytics", Folder(folder))
    for statement in parse(STAGGERED, analysis.words):
        analysis.take(statement)
    return analysis.script()


@pytest.mark.slow
@pytest.mark.parametrize("minor", ["3.5", "4.1"])
def test_the_same_matches_on_other_sparks(minor: str, tmp_path: Path) -> None:
    for script in (read_script(TEXT), staggered(tmp_path)):
        folder = tmp_path / str(len(script.queries))
        folder.mkdir()
        read = run_job_on(minor, script, BATCHES, folder)
        assert not differences(script, fold_of(script, BATCHES), read)


@pytest.mark.slow
def test_the_job_has_the_staggered_windows_of_the_fold(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    script = staggered(tmp_path)
    fold = fold_of(script, BATCHES)
    of_a = [row for row in fold.results["stagger"] if row.key.endswith("A")]
    assert [row.columns["rows_in"] for row in of_a] == [3, 3, 3]
    assert not differences(script, fold, run_job(script, BATCHES, tmp_path))


@pytest.mark.slow
def test_the_job_has_the_matches_of_the_fold(
    spark: SparkSession, sql_settings: None, tmp_path_factory: Any
) -> None:
    script = read_script(TEXT)
    fold = fold_of(script, BATCHES)
    assert [row.columns["ns"] for row in fold.results["falls"]] == [[2**62, 2**62, 0], [3], [0]]
    assert fold.late == {"falls": 1, "pairs": 1, "above": 1}

    @settings(
        max_examples=15,
        deadline=None,
        database=None,
        # A run takes half a minute: a failing one is not shrunk.
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @example(BATCHES)
    @given(
        st.lists(
            st.lists(ROW.map(lambda one: tick(*one)), min_size=1, max_size=8),
            min_size=2,
            max_size=4,
        )
    )
    def check(parts: list[Any]) -> None:
        parts = [*parts, [tick("end", 10_000, 1.0)]]
        read = run_job(script, parts, tmp_path_factory.mktemp("matches"))
        assert not differences(script, fold_of(script, parts), read), parts

    check()
