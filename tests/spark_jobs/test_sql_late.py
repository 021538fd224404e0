"""The job and the fold agree on late rows: in every order of the records, cut into micro-batches anywhere."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.sql.analysis import read_script
from tests.spark_jobs import sql_on_files
from tests.spark_jobs.sql_job import differences, fold_of, in_order, interpret, run_job, write_job
from tests.spark_jobs.sql_job import sql_settings as sql_settings  # a fixture

QUERIES = """
CREATE STREAM a (id VARCHAR KEY, k VARCHAR, n INT, ms BIGINT) WITH (stream = 'a', timestamp = 'ms');
CREATE STREAM b (id VARCHAR KEY, k VARCHAR, n INT, ms BIGINT) WITH (stream = 'b', timestamp = 'ms');
CREATE TABLE tumbling AS SELECT k, COUNT(*) AS c, SUM(n) AS s FROM a
  WINDOW TUMBLING (SIZE 10 MINUTES, GRACE PERIOD 5 MINUTES) WHERE n > 0 GROUP BY k EMIT FINAL;
CREATE TABLE changing AS SELECT k, COUNT(*) AS c FROM a
  WINDOW TUMBLING (SIZE 10 MINUTES, GRACE PERIOD 5 MINUTES) GROUP BY k EMIT CHANGES;
CREATE TABLE hopping AS SELECT k, COUNT(*) AS c FROM a
  WINDOW HOPPING (SIZE 20 MINUTES, ADVANCE BY 10 MINUTES, GRACE PERIOD 0 SECONDS) GROUP BY k EMIT FINAL;
CREATE TABLE sessions AS SELECT k, COUNT(*) AS c FROM a
  WINDOW SESSION (7 MINUTES, GRACE PERIOD 3 MINUTES) GROUP BY k EMIT FINAL;
CREATE TABLE corrected AS SELECT k, COUNT(*) AS c, COLLECT_LIST(n) AS ns, LATEST_BY_OFFSET(id) AS l FROM a
  WINDOW SESSION (7 MINUTES, GRACE PERIOD 3 MINUTES) WHERE n > 0 GROUP BY k HAVING COUNT(*) < 4 EMIT CHANGES;
CREATE STREAM met AS SELECT a.id, a.n, b.n AS m FROM a JOIN b WITHIN 6 MINUTES GRACE PERIOD 4 MINUTES ON a.k = b.k
  WHERE a.n > 0;
CREATE STREAM left_met AS SELECT a.id, b.id AS other FROM a LEFT JOIN b
  WITHIN (2 MINUTES, 8 MINUTES) GRACE PERIOD 4 MINUTES ON a.k = b.k;
CREATE STREAM full_met AS SELECT a.id, b.id AS other, ROWTIME AS t FROM a FULL JOIN b
  WITHIN 5 MINUTES GRACE PERIOD 4 MINUTES ON a.k = b.k;
CREATE TABLE titles (k VARCHAR PRIMARY KEY, title VARCHAR) WITH (stream = 'titles');
CREATE STREAM chained AS SELECT a.id, b.id AS other, d.id AS third, b.ROWTIME AS t, d.ROWOFFSET AS o FROM a
  LEFT JOIN b WITHIN 6 MINUTES GRACE PERIOD 4 MINUTES ON a.k = b.k
  LEFT JOIN b AS d WITHIN (3 MINUTES, 1 MINUTE) GRACE PERIOD 2 MINUTES ON b.k = d.k;
CREATE STREAM met_twice AS SELECT a.id, b.id AS other, d.id AS third FROM a
  JOIN b WITHIN 6 MINUTES GRACE PERIOD 4 MINUTES ON a.k = b.k
  JOIN b AS d WITHIN (3 MINUTES, 1 MINUTE) GRACE PERIOD 2 MINUTES ON b.k = d.k WHERE a.n > 0 PARTITION BY d.id;
CREATE STREAM titled AS SELECT a.id, b.id AS other, t.title, b.ROWTIME AS t, t.ROWPARTITION AS p FROM a
  LEFT JOIN b WITHIN 6 MINUTES GRACE PERIOD 4 MINUTES ON a.k = b.k LEFT JOIN titles AS t ON b.k = t.k;
SET 'errors.stream' = 'bad';
SET 'late.stream' = 'lates';
CREATE TABLE hopping_aside AS SELECT k, COUNT(*) AS c FROM a
  WINDOW HOPPING (SIZE 20 MINUTES, ADVANCE BY 10 MINUTES, GRACE PERIOD 0 SECONDS) WHERE n > 0 GROUP BY k EMIT FINAL;
CREATE TABLE changing_aside AS SELECT k, COUNT(*) AS c FROM a
  WINDOW TUMBLING (SIZE 10 MINUTES, GRACE PERIOD 5 MINUTES) GROUP BY k EMIT CHANGES;
CREATE TABLE sessions_aside AS SELECT k, COUNT(*) AS c FROM a
  WINDOW SESSION (7 MINUTES, GRACE PERIOD 3 MINUTES) GROUP BY k EMIT FINAL;
CREATE TABLE corrected_aside AS SELECT k, COUNT(*) AS c FROM a
  WINDOW SESSION (7 MINUTES, GRACE PERIOD 3 MINUTES) GROUP BY k EMIT CHANGES;
CREATE STREAM full_aside AS SELECT a.id, b.id AS other FROM a FULL JOIN b
  WITHIN 5 MINUTES GRACE PERIOD 4 MINUTES ON a.k = b.k;
CREATE STREAM chained_aside AS SELECT a.id, b.id AS other, d.id AS third FROM a
  LEFT JOIN b WITHIN 6 MINUTES GRACE PERIOD 4 MINUTES ON a.k = b.k
  LEFT JOIN b AS d WITHIN (3 MINUTES, 1 MINUTE) GRACE PERIOD 2 MINUTES ON b.k = d.k WHERE a.n > 0;
"""
START_MS = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
ROW = st.tuples(
    st.sampled_from("ab"), st.sampled_from("xy"), st.integers(-1, 3), st.integers(0, 90)
)


def row(stream: str, id_: str, k: str, n: int, minute: int) -> tuple[str, str, Any]:
    return stream, id_, {"k": k, "n": n, "ms": START_MS + minute * 60_000}


# Late by one micro-batch and by two, on bounds, filtered rows that are the newest, partners of late rows, and none.
LATE = [
    [
        row("a", "a1", "x", 1, 0),
        ("titles", "x", {"title": "X"}),
        row("b", "b1", "x", 1, 0),
        row("a", "a2", "y", 2, 9),
        row("a", "a3", "x", -1, 60),
    ],
    [
        row("a", "a4", "x", 3, 30),
        row("b", "b2", "x", 2, 31),
        ("titles", "x", {"title": "Y"}),
        row("a", "a5", "x", 1, 10),
        row("b", "b7", "z", 1, 45),
        row("b", "b3", "y", 1, 17),
    ],
    [
        row("a", "a6", "x", 1, 26),
        ("a", "a-bad", "garbage " * 20),
        row("a", "a7", "x", 2, 9),
        row("b", "b4", "x", 1, 27),
        row("a", "a8", "y", 1, 13),
    ],
    [
        row("a", "a9", "x", 1, 20),
        row("b", "b5", "x", 1, 20),
        row("a", "a10", "x", 1, 30),
        row("b", "b6", "x", 0, 55),
        row("a", "a-end", "end", 1, 600),
        row("b", "b-end", "end", 1, 600),
    ],
]


NAMES = tuple(re.findall(r"(\w+) AS SELECT", QUERIES))
# By day a join with late rows that go aside, and sessions that are corrected.
SHORT = ("full_aside", "corrected")
# Each query sees the micro-batches above and some that are drawn: all with all take a quarter of an hour.
GROUPS = tuple(NAMES[start::4] for start in range(4))


@st.composite
def batches(draw: st.DrawFn) -> list[list[tuple[str, str, Any]]]:
    """Return up to five micro-batches of rows of two streams, at whole minutes, so that times fall on bounds."""
    parts = draw(st.lists(st.lists(ROW, min_size=1, max_size=6), min_size=2, max_size=5))
    count = 0
    result: list[list[tuple[str, str, Any]]] = []
    for part in parts:
        batch: list[tuple[str, str, Any]] = []
        for stream, k, n, minute in part:
            count += 1
            ms = START_MS + minute * 60_000
            batch.append((stream, f"{stream}{count}", {"k": k, "n": n, "ms": ms}))
        result.append(batch)
    end = START_MS + 60_000 * 600
    result[0] += [
        ("titles", "x", {"title": "X"}),
        ("a", "a0", {"k": "x", "n": 1, "ms": START_MS}),
        ("b", "b0", {"k": "x", "n": 1, "ms": START_MS}),
    ]
    closing = [(s, f"{s}-end", {"k": "end", "n": 1, "ms": end}) for s in "ab"]
    return [*result, closing]


def test_late_rows_are_the_same_ones_in_every_order(
    spark: SparkSession,
    sql_settings: None,
    tmp_path_factory: Any,
    nightly: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    interpret(spark)
    script = read_script(QUERIES)
    group_of: dict[str, tuple[str, ...]] = {}

    @settings(
        max_examples=len(GROUPS),
        deadline=None,
        database=None,
        # A run takes a minute: a failing one is not shrunk.
        phases=(Phase.explicit, Phase.generate) if nightly else (Phase.explicit,),
        suppress_health_check=list(HealthCheck),
    )
    @example(LATE)
    @given(batches())
    def check(parts: list[list[tuple[str, str, Any]]]) -> None:
        folder: Path = tmp_path_factory.mktemp("late")
        if parts == LATE:
            names = NAMES if nightly else SHORT
        else:
            # A failing example is run again.
            names = group_of.setdefault(str(parts), GROUPS[len(group_of) % len(GROUPS)])
        drawn = replace(script, queries=tuple(q for q in script.queries if q.name in names))
        # Of drawn records none is bad, and what sorts those out would read each micro-batch once more.
        drawn = drawn if parts == LATE else replace(drawn, errors="")
        read = run_job(drawn, parts, folder, keeps_views=False)
        fold = fold_of(drawn, parts)
        assert not differences(drawn, fold, read), parts
        aside = [row.columns | {"_key": row.key} for row in fold.aside["lates"]]
        assert in_order(read("lates")) == in_order(aside), parts
        if parts == LATE:
            assert aside
            bad = [row.columns | {"_key": row.key} for row in fold.aside["bad"]]
            assert in_order(bad) == in_order(read("bad"))
            printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            counts = {one.pop("query"): one for one in printed}
            assert counts["corrected"] | {"read a": 12, "unreadable a": 1} == counts["corrected"]
            late = Counter(row["_query"] for row in aside)
            assert late == {name: counts[name]["late"] for name in late}

    check()


@pytest.mark.slow
def test_what_a_repeated_micro_batch_sorts_out_is_read_once(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    script = read_script(QUERIES)
    script = replace(script, queries=tuple(q for q in script.queries if q.name == "hopping_aside"))
    write_job(script, LATE[:3], tmp_path)
    sql_on_files.run(tmp_path)
    # As if it had been killed before it noted that it was through with its last micro-batch.
    commits = tmp_path / "progress" / "hopping_aside" / "intake" / "checkpoint" / "commits"
    for name in ("2", ".2.crc"):
        (commits / name).unlink()
    read = run_job(script, LATE, tmp_path)
    fold = fold_of(script, LATE)
    assert not differences(script, fold, read)
    aside = [row.columns | {"_key": row.key} for row in fold.aside["lates"]]
    assert in_order(read("lates")) == in_order(aside)
