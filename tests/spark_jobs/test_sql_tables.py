"""The job and the fold agree on queries of tables: joins, groups and filters, with changes and tombstones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.sql.analysis import read_script
from tests.spark_jobs.sql_job import differences, fold_of, run_job
from tests.spark_jobs.sql_job import sql_settings as sql_settings  # a fixture

QUERIES = """
CREATE TABLE users (id VARCHAR PRIMARY KEY, name VARCHAR, city INT) WITH (stream = 'users');
CREATE TABLE cities (id INT PRIMARY KEY, title VARCHAR) WITH (stream = 'cities');
CREATE TABLE scores (id VARCHAR PRIMARY KEY, points INT) WITH (stream = 'scores');
CREATE TABLE homes AS SELECT u.id, u.name, c.title FROM users u JOIN cities c ON u.city = c.id;
CREATE TABLE left_homes AS SELECT u.id AS user_id, c.title FROM users u LEFT JOIN cities c ON u.city = c.id WHERE u.name <> 'B';
CREATE TABLE board AS SELECT COALESCE(u.id, s.id) AS id, u.name, s.points FROM users u FULL JOIN scores s ON u.id = s.id;
CREATE TABLE in_city AS SELECT city, COUNT(*) AS n, COLLECT_LIST(name) AS names FROM users GROUP BY city HAVING COUNT(*) > 1;
CREATE TABLE big AS SELECT id, points FROM scores WHERE points > 5;
"""


def user(id_: str, name: str, city: int) -> tuple[str, str, Any]:
    return "users", id_, {"id": id_, "name": name, "city": city}


BATCHES = [
    [user("u1", "A", 1), user("u2", "B", 2), ("cities", "1", {"title": "Rome"}), ("scores", "u1", {"points": 7})],
    [user("u3", "C", 1), ("cities", "1", {"title": "Roma"}), ("scores", "u9", {"points": 3}), ("users", "u2", "")],
    [user("u1", "A", 2), ("cities", "2", {"title": "Oslo"}), ("scores", "u1", {"points": 2}), ("scores", "u9", "null")],
    [user("u1", "A", 1), ("cities", "1", ""), ("scores", "u1", {"points": 7}), user("u3", "C", 2)],
]  # fmt: skip


def test_queries_of_tables_have_changes_and_tombstones(
    spark: SparkSession, sql_settings: None, tmp_path: Path
) -> None:
    script = read_script(QUERIES)
    fold = fold_of(script, BATCHES)
    read = run_job(spark, script, BATCHES, tmp_path)
    assert not differences(script, fold, read)
    gone = [row.key for row in fold.results["board"] if row.deleted]
    assert gone == ["u2", "u9"]
    folders = sorted(path.name for path in (tmp_path / "progress" / "homes" / "table").iterdir())
    assert folders == ["batch=2", "batch=3"]
