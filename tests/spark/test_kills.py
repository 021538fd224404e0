"""The driver is killed (-9) at seeded points while the stream is split and merged: every record once, in Parquet."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import headrace.spark
from headrace.spark.planner import SPOOL_PREFIX
from headrace.spark.streams import kinesis_stream
from headrace.spark.versions import HAS_DATA_SOURCES
from tests.spark.conftest import Stream
from tests.support.java import FILE_SYSTEM, session_variables
from tests.support.server import REGION, ServerProcess, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.crash]

JOB = Path(__file__).parent / "jobs" / "copy_stream.py"
AUTOLOAD = Path(headrace.spark.__file__).parent / "autoload"


class Driver:
    """The copying job as a process of its own, its JVM and its Python workers in one session."""

    def __init__(
        self, server: ServerProcess, stream: Stream, folder: Path, job: Path = JOB
    ) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.stream = stream
        self.job = job
        conf = "--conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1"
        conf += " --conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN"
        conf += "".join(f" --conf {name}={value}" for name, value in FILE_SYSTEM.items())
        path = os.pathsep.join([str(AUTOLOAD), str(Path(__file__).parents[2])])
        self._environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": server.endpoint_url,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": str(self.temporary),
            "PYSPARK_SUBMIT_ARGS": f"--master local[2] {conf} pyspark-shell",
            **session_variables(path, is_spark_4=HAS_DATA_SOURCES),
        }

    @contextmanager
    def running(self, mode: str) -> Iterator[subprocess.Popen[bytes]]:
        self.temporary.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", str(self.job), self.stream.name, f"{self.folder}/", mode],
                stdout=log, stderr=log, env=self._environment, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            self.kill9(process)

    def kill9(self, process: subprocess.Popen[bytes]) -> None:
        """Kill everything of the process's session at once."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(ProcessLookupError):
                    if os.getsid(int(entry.name)) == process.pid:
                        os.kill(int(entry.name), signal.SIGKILL)
        process.wait()

    def batches(self, kind: str) -> int:
        """Return how many batches are planned (`offsets`) or done (`commits`)."""
        folder = self.folder / "checkpoint" / kind
        return sum(name.name.isdigit() for name in folder.iterdir()) if folder.exists() else 0

    def spools(self) -> list[Path]:
        """Return the folders of what has been read ahead."""
        return list(self.temporary.glob(f"{SPOOL_PREFIX}*"))

    def rows(self) -> list[int]:
        """Return the numbers in the files that the sink has committed."""
        folder = self.folder / "rows"
        names: set[str] = set()
        for entry in (folder / "_spark_metadata").iterdir():
            if not entry.name.startswith("."):
                lines = entry.read_text().splitlines()[1:]
                names |= {json.loads(line)["path"].rpartition("/")[2] for line in lines}
        return [
            int(row)
            for name in names
            for row in pq.read_table(folder / name, columns=["data"])["data"].to_pylist()
        ]


def run(
    server: ServerProcess,
    stream: Stream,
    folder: Path,
    seed: int,
    kills: int,
    job: Path = JOB,
    spark: Any = None,
) -> None:
    """Kill the job's driver so many times, and read the rest; with `spark` in that session, without a last driver."""
    chance = random.Random(seed)
    driver = Driver(server, stream, folder, job)
    for _ in range(kills):
        merge = len(stream.open_shards()) > 2 and chance.random() < 0.5
        change: Any = stream.merge if merge else stream.split
        stream.put(600)
        # A batch is planned but not written, or written but the next not planned.
        kind = chance.choice(("offsets", "commits"))
        enough = driver.batches(kind) + chance.randint(1, 3)
        with driver.running("follow") as process:
            change()
            stream.put(600)

            def there(kind: str = kind, enough: int = enough, alive: Any = process) -> bool:
                assert alive.poll() is None, (folder / "log").read_text()[-4000:]
                return driver.batches(kind) >= enough

            wait_until(there, within_s=300, what=f"{enough} {kind}")
        # That of the driver before was swept, and that of the one just killed was not removed by itself.
        assert len(driver.spools()) == 1
    if spark is not None:
        drain_in(spark, stream, folder)
    else:
        with driver.running("drain") as process:
            assert process.wait(300) == 0, (folder / "log").read_text()[-4000:]
            wait_until(lambda: not driver.spools(), what="the removal of every spool")
    assert Counter(driver.rows()) == Counter(range(stream.count))


def drain_in(spark: Any, stream: Stream, folder: Path) -> None:
    """Do in a session what the copying job does to drain the stream."""
    options = stream.options(maxRecordsPerTrigger="400")
    rows = kinesis_stream(spark, available_now=True, **options)
    writer = rows.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    # As in the job: a run that begins with a batch that was interrupted has no other.
    for _ in range(2):
        assert writer.start(str(folder / "rows")).awaitTermination(120)


def test_every_record_is_written_once_whatever_was_killed(
    spark: Any, server: ServerProcess, make_stream: Any, tmp_path: Path
) -> None:
    run(server, make_stream(3), tmp_path / "job", seed=5, kills=1, spark=spark)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_every_record_is_written_once_whatever_was_killed_often(
    server: ServerProcess, make_stream: Any, tmp_path: Path, seed: int
) -> None:
    run(server, make_stream(4), tmp_path / "job", seed=seed, kills=8)
