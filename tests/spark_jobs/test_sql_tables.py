"""The job and the fold agree on queries of tables: joins, groups and filters, with changes and tombstones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.sql.analysis import read_script
from headrace.sql.fold import Fold, result_of
from headrace.sql.plan import QueryPlan, Script
from headrace.sql.pyspark_job import compile_script
from headrace.sql.views import LocalFiles, View
from tests.spark_jobs import sql_on_files
from tests.spark_jobs.sql_job import differences, fold_of, in_order, run_job, run_job_on
from tests.spark_jobs.sql_job import sql_settings as sql_settings  # a fixture
from tests.spark_jobs.test_common import check_keeps_packages

QUERIES = """
CREATE TABLE users (id VARCHAR PRIMARY KEY, name VARCHAR, city INT) WITH (stream = 'users');
CREATE TABLE cities (id INT PRIMARY KEY, title VARCHAR) WITH (stream = 'cities');
CREATE TABLE scores (id VARCHAR PRIMARY KEY, points INT) WITH (stream = 'scores');
CREATE TABLE homes AS SELECT u.id, u.name, c.title FROM users u JOIN cities c ON u.city = c.id;
CREATE TABLE left_homes AS SELECT u.id AS user_id, c.title FROM users u LEFT JOIN cities c ON u.city = c.id WHERE u.name <> 'B';
CREATE TABLE known AS SELECT u.id, u.name, s.points, c.title FROM users u JOIN scores s ON u.id = s.id
  LEFT JOIN cities c ON u.city = c.id WHERE s.points > 1;
CREATE TABLE board AS SELECT COALESCE(u.id, s.id) AS id, u.name, s.points FROM users u FULL JOIN scores s ON u.id = s.id;
CREATE TABLE in_city AS SELECT city, COUNT(*) AS n, COLLECT_LIST(name) AS names FROM users GROUP BY city HAVING COUNT(*) > 1;
CREATE TABLE big AS SELECT id, points FROM scores WHERE points > 5;
"""


def user(id_: str, name: str, city: int) -> tuple[str, str, Any]:
    return "users", id_, {"id": id_, "name": name, "city": city}


BATCHES = [
    [user("u1", "A", 1), user("u2", "B", 2), ("cities", "1", {"title": "Rome"}), ("scores", "u1", {"points": 7})],
    [user("u3", "C", 1), ("cities", "1", {"title": "Roma"}), ("scores", "u9", {"points": 3}), ("users", "u2", "")],
    [user("u1", "A", 2), ("cities", "2", {"title": "Oslo"}), ("scores", "u1", {"points": 1}), ("scores", "u9", "null")],
    [user("u1", "A", 1), ("cities", "1", ""), ("scores", "u1", {"points": 7}), user("u3", "C", 2)],
]  # fmt: skip


def test_queries_of_tables_have_changes_and_tombstones(
    spark: SparkSession, sql_settings: None, tmp_path: Path, nightly: bool
) -> None:
    script = read_script(QUERIES)
    if not nightly:
        # Joins by the key and by a foreign key with a filter, and groups: the others have nothing else in the job.
        script = only(script, "in_city", "known")
    fold = fold_of(script, BATCHES)
    read = run_job(script, BATCHES, tmp_path)
    assert not differences(script, fold, read)
    gone = {
        query.name: [r.key for r in fold.results[query.name] if r.deleted]
        for query in script.queries
    }
    assert gone["in_city"] == ["1"]
    assert gone["known"] == ["u1"]
    assert gone.get("board", ["u2", "u9"]) == ["u2", "u9"]
    folders = sorted(path.name for path in (tmp_path / "progress" / "known" / "table").iterdir())
    assert folders == ["batch=2", "batch=3"]
    for query in script.queries:
        assert in_order(state(tmp_path, query)) == in_order(latest(fold, query)), query.name


@pytest.mark.slow
@pytest.mark.parametrize("minor", ["3.5", "4.1"])
def test_other_sparks_store_the_same_tables(minor: str, tmp_path: Path) -> None:
    script = read_script(QUERIES)
    fold = fold_of(script, BATCHES)
    read = run_job_on(minor, script, BATCHES, tmp_path)
    assert not differences(script, fold, read)
    for query in script.queries:
        assert in_order(state(tmp_path, query)) == in_order(latest(fold, query)), query.name


def only(script: Script, *names: str) -> Script:
    """Return a script without its other queries."""
    return replace(script, queries=tuple(q for q in script.queries if q.name in names))


def state(folder: Path, query: QueryPlan) -> list[dict[str, Any]]:
    """Return the stored state of a query's table."""
    assert query.target is not None
    files = LocalFiles(folder / "progress" / query.name / "view")
    return [result_of(row).columns for row in View(query.target, files).rows({})[1]]


def latest(fold: Fold, query: QueryPlan) -> list[dict[str, Any]]:
    """Return the fold of a query's changes."""
    assert query.target is not None
    keys = [column.name for column in query.target.key_columns()]
    rows = {tuple(str(row.columns[key]) for key in keys): row for row in fold.results[query.name]}
    columns = [row.columns for row in rows.values() if not row.deleted]
    if query.window is None or query.window.retention_ms is None:
        return columns
    oldest = max(row["WINDOWEND"] for row in columns) - query.window.retention_ms
    assert any(row["WINDOWEND"] < oldest for row in columns)
    return [row for row in columns if row["WINDOWEND"] >= oldest]


GROUPS = """
CREATE STREAM flights (id VARCHAR KEY, origin VARCHAR, at VARCHAR, delay INT, tags MAP<VARCHAR, INT>)
  WITH (stream = 'flights', timestamp = 'at', timestamp_format = 'yyyy-MM-dd''T''HH:mm:ssX');
CREATE TABLE hours AS SELECT origin, SUM(delay) AS total, LATEST_BY_OFFSET(tags) AS tags FROM flights
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 HOUR) GROUP BY origin;
CREATE TABLE recent AS SELECT origin, SUM(delay) AS total FROM flights
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS, RETENTION 1 HOUR) GROUP BY origin;
CREATE TABLE closed AS SELECT origin, SUM(delay) AS total FROM flights
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS) GROUP BY origin EMIT FINAL;
"""


def test_a_micro_batch_that_runs_again_changes_no_state(
    spark: SparkSession, sql_settings: None, tmp_path: Path, nightly: bool
) -> None:
    def flight(number: int) -> tuple[str, str, Any]:
        at = f"2013-01-01T{number // 4:02}:{number % 4 * 15:02}:00Z"
        row = {
            "origin": "EWR" if number % 3 else "JFK",
            "at": at,
            "delay": number,
            "tags": {"a": number},
        }
        return "flights", str(number), row

    # By day the one whose rows are final; those that change are in the test of changes and tombstones.
    names = ("hours", "recent", "closed") if nightly else ("closed",)
    script = only(read_script(GROUPS), *names)
    batches = [[flight(number) for number in range(at, at + 6)] for at in (0, 6)]
    fold = fold_of(script, batches)
    read = run_job(script, batches, tmp_path)
    records = {query.name: read(query.name) for query in script.queries}
    manifests = {}
    for query in script.queries:
        assert in_order(state(tmp_path, query)) == in_order(latest(fold, query)), query.name
        folder = tmp_path / "progress" / query.name
        # As after a kill between the last micro-batch's writes and its commit.
        last = max(
            (folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name)
        )
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        manifests[query.name] = {
            path.name: path.read_bytes() for path in (folder / "view" / "manifests").glob("*.json")
        }
    sql_on_files.run(tmp_path)
    for query in script.queries:
        view = tmp_path / "progress" / query.name / "view" / "manifests"
        assert {path.name: path.read_bytes() for path in view.glob("*.json")} == manifests[
            query.name
        ]
        assert in_order(state(tmp_path, query)) == in_order(latest(fold, query)), query.name
        # Nor does it put its records once more.
        assert read(query.name) == records[query.name]
    changed = read_script(GROUPS.replace("SUM(delay) AS total FROM", "MAX(delay) AS total FROM"))
    job = compile_script(only(changed, *names), "A test.")
    (tmp_path / "job.py").write_text(job, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"closed cannot go on from .*aggregates was sum\(delay\)"):
        sql_on_files.run(tmp_path)


@pytest.mark.slow
def test_the_list_of_files_that_have_been_put_does_not_grow(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    job = ModuleType("sql_job")
    source = compile_script(read_script(GROUPS), "A test.")
    exec(compile(source, "job.py", "exec", dont_inherit=True), job.__dict__)
    settings = {
        "spark.sql.streaming.fileSource.log.compactInterval": "2",
        # Files are deleted before their micro-batch ends, not beside it.
        "spark.sql.streaming.fileSource.cleaner.numThreads": "0",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    read: list[str] = []

    def take(batch: Any, _batch_id: int) -> None:
        read.extend(row["data"] for row in batch.collect())

    schema = spark.createDataFrame([], "data STRING").schema
    try:
        for number in range(6):
            row = spark.createDataFrame([(str(number),)], schema).coalesce(1)
            job.write_once(row, f"{tmp_path}/rows", number)
            rows = job.stored_stream(spark, f"{tmp_path}/rows/", schema)
            writer = rows.writeStream.foreachBatch(take).trigger(availableNow=True)
            writer.option("checkpointLocation", f"{tmp_path}/puts/").start().awaitTermination()
            job.forget_files(spark, f"{tmp_path}/", 0, least=0)
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert read == [str(number) for number in range(6)]
    (listed,) = (tmp_path / "puts" / "sources" / "0").glob("5.compact")
    # The last micro-batch's file, which the next one deletes, and that of no rows.
    assert len(listed.read_text().splitlines()) <= 4
    # A kill before the new list has its sum leaves no sum of the old one.
    assert not (listed.parent / ".5.compact.crc").exists()


def test_a_micro_batch_that_is_repeated_after_its_files_are_gone_is_no_news(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    job = ModuleType("sql_job")
    source = compile_script(read_script(GROUPS), "A test.")
    exec(compile(source, "job.py", "exec", dont_inherit=True), job.__dict__)
    listed = tmp_path / "puts" / "sources" / "0" / "9.compact"
    listed.parent.mkdir(parents=True)
    paths = [f"{tmp_path}/rows/{name}.parquet" for name in ("6-00000", "7-00000", "7-00001")]
    lines = [json.dumps({"path": path, "timestamp": 1, "batchId": 9}) for path in paths]
    listed.write_text("\n".join(["v1", *lines]))
    job.forget_files(spark, f"{tmp_path}/", 0, least=0)
    # What is repeated would be read again if the list had forgotten it.
    assert listed.read_text().splitlines() == ["v1", *lines[1:]]


def test_an_event_of_a_jobs_listener_has_java_look_for_no_package(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ModuleType("sql_job")
    source = compile_script(read_script(GROUPS), "A test.")
    exec(compile(source, "job.py", "exec", dont_inherit=True), job.__dict__)
    check_keeps_packages(job.keep_packages, spark, monkeypatch)
