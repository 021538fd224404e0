"""A stateful job whose driver is killed amid a micro-batch and started again gives what an unbroken run gives."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from scripts import reference_streams as reference
from tests.spark_jobs import test_compact
from tests.spark_jobs.feed import Event, Feed, cut, flights, late, table
from tests.support.server import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.crash,
    # Each start is a JVM; in `make test` tests/spark/test_kills.py and the core on Spark 3.5 kill drivers.
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

ROOT = Path(__file__).parents[2]
DELAY = pd.Timedelta(hours=2)
LIMIT_S = 300


def start(job: str, folder: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark_jobs.drive", job, str(folder), "2 hours"]
    # A session of its own: driver, JVM and Python workers are killed together, as a node dies.
    return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)


def kill_amid(job: str, folder: Path, batch: int) -> None:
    """Start the job, and kill it once micro-batch `batch` is begun."""
    begun = folder / "checkpoint" / "offsets" / str(batch)
    with (folder / "log").open("ab") as log, start(job, folder, log) as process:
        try:
            wait_until(
                lambda: begun.exists() or process.poll() is not None,
                within_s=LIMIT_S,
                what=f"micro-batch {batch}",
            )
            ended = process.poll()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert ended is None, (folder / "log").read_text()[-4000:]
    assert not (folder / "checkpoint" / "commits" / str(batch)).exists()


def finish(job: str, folder: Path) -> None:
    with (folder / "log").open("ab") as log, start(job, folder, log) as process:
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert status == 0, (folder / "log").read_text()[-4000:]


def fed(spark: SparkSession, folder: Path, count: int) -> list[list[Event]]:
    batches = cut(late(flights(count)), count // 6)
    feed = Feed(spark, folder / "input")
    for batch in batches:
        feed.put(batch)
    return batches


def test_sessions_are_those_of_an_unbroken_run_after_a_kill(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = fed(spark, tmp_path, 3000)
    for batch in (1, 3, 4):
        kill_amid("aircraft_days", tmp_path, batch)
    finish("aircraft_days", tmp_path)

    expected = reference.kept(batches, DELAY)
    wanted = reference.aircraft_days(expected.rows, expected.closed)
    found = table(tmp_path / "output" / "sessions")
    assert len(wanted) > 300
    assert reference.differing(wanted, found, ["tailnum", "session_start"]).empty


def test_cascades_are_those_of_an_unbroken_run_after_kills(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = fed(spark, tmp_path, 4800)
    for batch in (1, 3, 5):
        kill_amid("cascades", tmp_path, batch)
    finish("cascades", tmp_path)

    expected = reference.kept(batches, DELAY)
    wanted = reference.cascades(expected.rows, expected.closed)
    found = table(tmp_path / "output" / "cascades")
    assert len(wanted) > 20
    assert reference.differing(wanted, found, ["event_id"]).empty


def test_the_latest_rows_are_the_integral_of_the_stream_after_kills(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches, feed = test_compact.history(random.Random(9), 120), Feed(spark, tmp_path / "input")
    for batch in batches:
        feed.put(batch)
    for batch in (1, 3, 4):
        kill_amid("compact", tmp_path, batch)
    finish("compact", tmp_path)
    assert test_compact.rows(spark, tmp_path) == test_compact.integral(batches)
