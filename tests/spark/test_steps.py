"""Spark steps on EMR: a real spark-submit on `s3://`, killed and started again in the middle of a reshard."""

from __future__ import annotations

import gzip
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spark.conftest import Stream
from tests.support.emr import cluster_request
from tests.support.server import ServerProcess, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.crash]

JOB = Path(__file__).parent / "jobs" / "copy_stream.py"
ENDED = {"COMPLETED", "CANCELLED", "FAILED"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A cloud whose steps find headrace's own packages, so that the job need not bring the source."""
    data_dir = tmp_path_factory.mktemp("cloud") / "data"
    with ServerProcess(data_dir, "--spark", "installed") as server:
        yield server


class Steps:
    """A cluster, a bucket with the job, and the copying of one stream to `s3://work/`."""

    def __init__(self, server: ServerProcess, stream: Stream) -> None:
        self.server = server
        self.stream = stream
        self.emr = server.client("emr")
        self.s3 = server.client("s3")
        self.bucket = f"work-{stream.name[-20:]}".replace("_", "-").lower()
        self.s3.create_bucket(Bucket=self.bucket)
        self.s3.upload_file(str(JOB), self.bucket, "jobs/copy_stream.py")
        self.cluster = self.emr.run_job_flow(**cluster_request(LogUri=f"s3://{self.bucket}/logs/"))[
            "JobFlowId"
        ]

    def add(self, *arguments: str) -> str:
        step = {
            "Name": "copy",
            "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": list(arguments)},
        }
        return self.emr.add_job_flow_steps(JobFlowId=self.cluster, Steps=[step])["StepIds"][0]

    def copy(self, mode: str) -> str:
        return self.add(
            "spark-submit", "--deploy-mode", "cluster", "--master", "yarn",
            f"s3://{self.bucket}/jobs/copy_stream.py", self.stream.name, f"s3://{self.bucket}/out/", mode,
        )  # fmt: skip

    def ended(self, step_id: str) -> Any:
        def status() -> Any:
            found = self.emr.describe_step(ClusterId=self.cluster, StepId=step_id)
            status = found["Step"]["Status"]
            return status if status["State"] in ENDED else None

        return wait_until(status, within_s=180, what="the step's end")

    def commits(self) -> int:
        listed = self.s3.list_objects_v2(Bucket=self.bucket, Prefix="out/checkpoint/commits/")
        return len(listed.get("Contents", []))

    def kill(self, step_id: str) -> None:
        """Kill -9 everything that a step has started."""
        folder = self.server.data_dir / "emr" / self.cluster / step_id
        session = int((folder / "pid").read_text())
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if os.getsid(int(entry.name)) == session:
                        os.kill(int(entry.name), signal.SIGKILL)
                except ProcessLookupError:
                    continue

    def rows(self) -> list[bytes]:
        """Return the rows of the files that the sink has committed."""
        folder = self.server.data_dir / "s3" / self.bucket / "out" / "rows"
        names: set[str] = set()
        for log in (folder / "_spark_metadata").iterdir():
            if not log.name.startswith("."):
                for line in log.read_text().splitlines()[1:]:
                    names.add(line.partition("/out/rows/")[2].partition('"')[0])
        tables = [pq.read_table(folder / name, columns=["data"]) for name in names]
        return [row for table in tables for row in table["data"].to_pylist()]

    def log(self, step_id: str, name: str) -> str:
        key = f"logs/{self.cluster}/steps/{step_id}/{name}.gz"
        return gzip.decompress(
            self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        ).decode()


@pytest.mark.slow
def test_a_query_killed_amid_reshards_writes_every_record_once(
    server: ServerProcess, make_stream: Any
) -> None:
    stream = make_stream(2)
    steps = Steps(server, stream)
    for change in (stream.split, stream.merge):
        stream.put(1500)
        before = steps.commits()
        step_id = steps.copy("follow")
        wait_until(lambda enough=before + 2: steps.commits() >= enough, within_s=120)
        change()
        stream.put(700)
        steps.kill(step_id)
        assert steps.ended(step_id)["State"] == "FAILED"
    drained = steps.copy("drain")
    status = steps.ended(drained)
    assert status["State"] == "COMPLETED", steps.log(drained, "stderr")
    assert Counter(int(row) for row in steps.rows()) == Counter(range(stream.count))


def test_a_failing_job_says_why(server: ServerProcess, make_stream: Any) -> None:
    steps = Steps(server, make_stream(1))
    steps.s3.put_object(
        Bucket=steps.bucket, Key="jobs/bad.py", Body=b"raise ValueError('no such airport')\n"
    )
    status = steps.ended(steps.add("spark-submit", f"s3://{steps.bucket}/jobs/bad.py"))
    assert status["State"] == "FAILED"
    assert status["FailureDetails"]["Message"] == "ValueError: no such airport"
    assert status["FailureDetails"]["LogFile"].endswith("/stdout.gz")
