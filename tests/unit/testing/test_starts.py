"""What the start of a test's cloud makes: tables, disk space, and how long it takes beside the first one."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

from headrace.store.database import STATE_FILE
from headrace.testing import LocalCloud


def tables_and_rows(folder: Path) -> tuple[set[str], dict[str, int]]:
    """Return a state file's schema, and how many rows each table has."""
    with contextlib.closing(sqlite3.connect(folder / STATE_FILE)) as state:
        schema = state.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        names = [name for kind, name, _ in schema if kind == "table"]
        counts = {
            name: state.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names
        }
        migrations = state.execute("SELECT * FROM headrace_migrations").fetchall()
        return {str(row) for row in [*schema, *migrations]}, counts


def test_a_later_cloud_has_the_tables_that_a_first_one_makes(tmp_path: Path) -> None:
    with LocalCloud() as here:
        here.client("kinesis").create_stream(StreamName="orders", ShardCount=1)
    with LocalCloud() as later, LocalCloud(data_dir=tmp_path / "data") as made:
        assert not later.client("kinesis").list_streams()["StreamNames"]
        assert tables_and_rows(later.data_dir) == tables_and_rows(made.data_dir)
        # Disk space is reserved only where data stays.
        assert [len(list(each.data_dir.glob("*.reserve"))) for each in (later, made)] == [0, 1]


_TIMES = """
import json, time
import boto3
from headrace.testing import cloud
def one():
    began = time.perf_counter()
    with cloud():
        boto3.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        return time.perf_counter() - began
print(json.dumps([one() for _ in range(20)]))
"""


def test_later_clouds_are_quick_beside_the_first() -> None:
    run = subprocess.run([sys.executable, "-c", _TIMES], capture_output=True, text=True, check=True)
    first, *later = json.loads(run.stdout)
    # The goals of scripts/bench testing are of a quiet machine. Here only that they are of that kind.
    assert first < 3
    assert min(later) < 0.1
