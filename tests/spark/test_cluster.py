"""The distributed mode on a standalone cluster of two workers: exactly once, whatever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.spark.planner import SPOOL_PREFIX
from tests.spark.conftest import Stream
from tests.support.server import ServerProcess, wait_until
from tests.support.spark_cluster import Cluster, kill_session

pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.slow]

JOB = Path(__file__).parent / "jobs" / "copy_by_executors.py"


class Job:
    """The copying job, its JVM and its Python processes in a session."""

    def __init__(self, cluster: Cluster, stream: Stream, folder: Path, master: str) -> None:
        self.folder, self.stream = folder, stream
        (folder / "tmp").mkdir(parents=True)
        conf = "--conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 --conf spark.executor.memory=512m"
        conf += " --conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN"
        self._environment = {
            **cluster.environment,
            "TMPDIR": str(folder / "tmp"),
            "PYSPARK_SUBMIT_ARGS": f"--master {master} {conf} pyspark-shell",
        }

    @contextlib.contextmanager
    def running(self, mode: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", str(JOB), self.stream.name, str(self.folder), mode, *options],
                stdout=log, stderr=log, env=self._environment, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            kill_session(process)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def batches(self, kind: str) -> int:
        folder = self.folder / "checkpoint" / kind
        return sum(name.name.isdigit() for name in folder.iterdir()) if folder.exists() else 0

    def drain(self, *options: str) -> None:
        """Run to the stream's end; on Spark 4.0 and 4.1 a run may only repeat an interrupted batch, so twice."""
        for _ in range(2):
            with self.running("drain", *options) as process:
                assert process.wait(300) == 0, self.log[-4000:]

    def rows(self) -> list[dict[str, str]]:
        names: set[str] = set()
        for entry in (self.folder / "rows" / "_spark_metadata").iterdir():
            if not entry.name.startswith("."):
                lines = entry.read_text().splitlines()[1:]
                names |= {json.loads(line)["path"].rpartition("/")[2] for line in lines}
        return [
            row for name in names for row in pq.read_table(self.folder / "rows" / name).to_pylist()
        ]


@pytest.fixture
def cluster(server: ServerProcess, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster", server.endpoint_url)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def until(job: Job, process: Any, kind: str, enough: int) -> None:
    """Put records until the job has so many batches."""

    def there() -> bool:
        assert process.poll() is None, job.log[-4000:]
        job.stream.put(20)
        return job.batches(kind) >= enough

    wait_until(there, within_s=240, what=f"{enough} {kind}")


def copied_once(job: Job, stream: Stream) -> None:
    assert Counter(int(row["data"]) for row in job.rows()) == Counter(range(stream.count))
    # The driver has read nothing: it has no spool, and the offsets name plans.
    assert not list((job.folder / "tmp").glob(f"{SPOOL_PREFIX}*"))
    last = max(
        (p for p in (job.folder / "checkpoint" / "offsets").iterdir() if p.name.isdigit()),
        key=lambda p: int(p.name),
    )
    assert json.loads(last.read_text().splitlines()[-1])["v"] == 2


def test_executors_read_by_themselves_on_a_standalone_cluster_and_survive_kills(
    cluster: Cluster, server: ServerProcess, make_stream: Callable[[int], Stream], tmp_path: Path
) -> None:
    stream = make_stream(3)
    stream.put(1000)
    job = Job(cluster, stream, tmp_path / "job", cluster.master)
    chance = random.Random(7)
    for victim in ("executor", "driver"):
        with job.running("follow") as process:
            until(job, process, "offsets", job.batches("offsets") + 1)
            (stream.split if len(stream.open_shards()) < 4 else stream.merge)()
            stream.put(600)
            if victim == "executor":
                wait_until(lambda: bool(cluster.executors()), within_s=120, what="an executor")
                os.kill(chance.choice(cluster.executors()), signal.SIGKILL)
            until(job, process, chance.choice(["offsets", "commits"]), job.batches("commits") + 1)
    job.drain()
    copied_once(job, stream)


def test_executors_read_by_themselves_in_a_local_cluster_while_the_cloud_is_killed(
    cluster: Cluster, server: ServerProcess, make_stream: Callable[[int], Stream], tmp_path: Path
) -> None:
    stream = make_stream(3)
    stream.put(1000)
    job = Job(cluster, stream, tmp_path / "job", "local-cluster[2,1,1024]")
    with job.running("follow") as process:
        until(job, process, "commits", 1)
        stream.split()
        stream.put(500)
        server.kill9()
        time.sleep(0.5)  # the query meets a cloud that is not there; nothing waits for that
        server.start()
        stream.put(500)
        until(job, process, "commits", job.batches("commits") + 1)
    job.drain()
    copied_once(job, stream)
