"""A SQL job that is killed again and again: each row once by its event id in streams, and a table's state as of all rows."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.sql import conversions
from headrace.sql.analysis import read_script
from headrace.sql.views import LocalFiles, View
from scripts.spark_matrix import environment_of
from tests.spark_jobs import sql_on_files
from tests.spark_jobs.sql_job import fold_of, in_order, write_job

TEXT = """
CREATE STREAM ticks (sym VARCHAR, price DOUBLE, ms BIGINT) WITH (stream = 'ticks', timestamp = 'ms');
CREATE TABLE names (sym VARCHAR PRIMARY KEY, name VARCHAR) WITH (stream = 'names');
CREATE STREAM dear AS SELECT sym, price, ms FROM ticks WHERE price > 2;
CREATE TABLE counts AS SELECT sym, COUNT(*) AS n FROM ticks
  WINDOW TUMBLING (SIZE 20 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY sym EMIT FINAL;
CREATE TABLE totals AS SELECT sym, SUM(price) AS total FROM ticks GROUP BY sym;
CREATE TABLE known AS SELECT sym, UCASE(name) AS name FROM names WHERE name <> 'gone';
CREATE STREAM rises AS SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY sym MEASURES a.ms AS from_ms, b.ms AS to_ms
  AFTER MATCH SKIP TO NEXT ROW PATTERN (a b+ c) WITHIN 1 MINUTE GRACE PERIOD 5 SECONDS DEFINE b AS price > PREV(price)) AS m;
SET 'late.stream' = 'lates';
CREATE TABLE in_time AS SELECT sym, COUNT(*) AS n FROM ticks
  WINDOW TUMBLING (SIZE 4 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY sym EMIT FINAL;
CREATE STREAM met AS SELECT a.ms AS from_ms, b.ms AS to_ms FROM ticks a
  LEFT JOIN ticks b WITHIN (0 SECONDS, 2 SECONDS) GRACE PERIOD 1 SECOND ON a.sym = b.sym;
"""
KILLS = 3


def batches_of(seed: int) -> list[list[tuple[str, str, Any]]]:
    draw = random.Random(seed)
    batches: list[list[tuple[str, str, Any]]] = []
    for number in range(5):
        batch: list[tuple[str, str, Any]] = []
        for _ in range(12):
            sym, second = draw.choice("AB"), number * 15 + draw.randrange(20)
            batch.append(
                (
                    "ticks",
                    sym,
                    {"sym": sym, "price": draw.randrange(5), "ms": 10**12 + second * 1000},
                )
            )
        sym = draw.choice("ABC")
        batch.append(
            (
                "names",
                sym,
                draw.choice([None, {"sym": sym, "name": draw.choice(["gone", "x", "y"])}]),
            )
        )
        batches.append(batch)
    return [*batches, [("ticks", "Z", {"sym": "Z", "price": 1, "ms": 10**12 + 10_000_000})]]


def files_in(folder: Path) -> int:
    # Of folders that are removed meanwhile os.walk has none.
    return sum(len(files) for part in ("progress", "out") for _, _, files in os.walk(folder / part))


def newest_in(log: Path) -> int:
    return max((int(file.name) for file in log.glob("[0-9]*") if file.name.isdigit()), default=-1)


def plans_a_batch(folder: Path) -> bool:
    """Whether a source has noted a micro-batch that its query has not: after a kill it is one with the batch after it.

    Spark's source of files does so. A row may be in time then that would have been late, as with any other division.
    """
    return any(
        newest_in(source) > newest_in(offsets)
        for offsets in (folder / "progress").rglob("offsets")
        for source in offsets.parent.glob("sources/*")
    )


def run_until(folder: Path, files: int | None, python: str) -> bool:
    """Run the job, and kill it when it has written so many more files; return whether it ended by itself."""
    before = files_in(folder)
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            [python, sql_on_files.__file__, str(folder)], stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip
        while process.poll() is None:
            now = files_in(folder)
            if files is not None and now - before >= files:
                os.killpg(process.pid, signal.SIGSTOP)
                if not plans_a_batch(folder):
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    return False
                os.killpg(process.pid, signal.SIGCONT)
            time.sleep(0.1)
    assert process.returncode == 0, (folder / "log").read_text()[-3000:]
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("minor", "seed"), [("", 1), ("", 2), ("", 3), ("3.5", 4), ("3.5", 5), ("4.1", 6), ("4.1", 7)]
)
def test_each_row_comes_once_by_its_event_id(minor: str, seed: int, tmp_path: Path) -> None:
    python = str(environment_of(minor).interpreter) if minor else sys.executable
    script, batches = read_script(TEXT), batches_of(seed)
    write_job(script, batches, tmp_path)
    draw = random.Random(seed)
    kills = 0
    # A whole run writes some hundreds of files.
    while not run_until(tmp_path, draw.randrange(20, 200) if kills < KILLS else None, python):
        kills += 1
    fold = fold_of(script, batches)
    assert fold.aside["lates"]
    for stream in ("dear", "counts", "rises", "in_time", "met", "lates"):
        by_id: dict[str, Any] = {}
        for data, _ in sql_on_files.records_of(tmp_path, stream):
            value = json.loads(data)
            event_id = value.pop("_event_id")
            assert by_id.setdefault(event_id, value) == value
        rows = fold.aside[stream] if stream == "lates" else fold.results[stream]
        expected = in_order([row.columns for row in rows])
        assert in_order(list(by_id.values())) == expected, f"{stream} after {kills} kills"
    for table in ("totals", "known"):
        query = next(query for query in script.queries if query.name == table)
        assert query.target is not None
        _, rows = View(query.target, LocalFiles(tmp_path / "progress" / table / "view")).rows({})
        state = {row.key: None if row.deleted else row.columns for row in fold.results[table]}
        expected = in_order([columns for columns in state.values() if columns is not None])
        stored = [
            {name: conversions.as_json(value) for name, value in row.columns.items()}
            for row in rows
        ]
        assert in_order(stored) == expected, f"{table} after {kills} kills"
