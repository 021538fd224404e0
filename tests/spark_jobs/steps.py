"""The jobs' package, streams and an EMR cluster in the local cloud, and steps of real spark-submits."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scripts import reference
from tests.spark_jobs.feed import Event
from tests.support.emr import cluster_request
from tests.support.environments import cloud_python
from tests.support.server import REGION, ServerProcess, wait_until

JOBS = Path(__file__).parents[2] / "spark_jobs"
BUCKET = "jobs-work"
PUT_AT_ONCE = 500
# The release of the steps' cluster: the app's, or that of the Spark under test; none with a Spark that no release has.
RELEASE = os.environ.get("HEADRACE_TEST_RELEASE", "emr-spark-8.0.0")
# As the CDK app makes them: the options that bring all to a step, and the files that these name.
_BROUGHT = """
import json, sys
from pathlib import Path
from cdk.parts import python_packages
from headrace.spark.package import build
release, jobs, bucket, folder = sys.argv[1:]
archive = python_packages.archive_for(Path(jobs) / "requirements", release, "m5.xlarge")
source = build(Path(folder) / "headrace_spark.zip")
files = {path.name: str(path) for path in (archive, source)}
print(json.dumps([files, python_packages.options(f"s3://{bucket}/{archive.name}")]))
"""


def package() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted(JOBS.rglob("*.py")):
            archive.write(path, path.relative_to(JOBS.parent))
    return data.getvalue()


def brought(folder: Path) -> tuple[dict[str, Path], list[str]]:
    """What a step brings along beside the jobs: files by their names, and the options that name those in BUCKET."""
    done = subprocess.run(
        [cloud_python(), "-c", _BROUGHT, RELEASE, str(JOBS), BUCKET, str(folder)],
        cwd=JOBS.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files, options = json.loads(done.stdout)
    return {name: Path(path) for name, path in files.items()}, options


class Steps:
    """A bucket with the package and each job's script, and a cluster that runs them."""

    def __init__(self, server: ServerProcess) -> None:
        clients = (server.client(name) for name in ("kinesis", "s3", "emr"))
        self.kinesis, self.s3, self.emr = clients
        self.s3.create_bucket(Bucket=BUCKET)
        self.upload("spark_jobs.zip", package())
        files, self.options = brought(server.data_dir)
        for name, path in files.items():
            self.upload(name, path.read_bytes())
        self.options += [
            "--py-files",
            f"s3://{BUCKET}/spark_jobs.zip,s3://{BUCKET}/headrace_spark.zip",
        ]
        self.cluster = self.emr.run_job_flow(
            **cluster_request(Name="jobs", ReleaseLabel=RELEASE, LogUri=f"s3://{BUCKET}/logs/")
        )["JobFlowId"]

    def upload(self, key: str, body: bytes) -> str:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        return f"s3://{BUCKET}/{key}"

    def stream(self, name: str, events: Sequence[Event | bytes] = ()) -> None:
        """Make a stream of two shards, with `events` in it."""
        self.kinesis.create_stream(StreamName=name, ShardCount=2)
        waiter = self.kinesis.get_waiter("stream_exists")
        waiter.wait(StreamName=name, WaiterConfig={"Delay": 1})
        self.put(name, events)

    def put(self, name: str, events: Sequence[Event | bytes]) -> None:
        records = [
            {"Data": e, "PartitionKey": "-"}
            if isinstance(e, bytes)
            else {"Data": json.dumps(e).encode(), "PartitionKey": e["event_id"]}
            for e in events
        ]
        for start in range(0, len(records), PUT_AT_ONCE):
            put = records[start : start + PUT_AT_ONCE]
            while put:
                answer = self.kinesis.put_records(StreamName=name, Records=put)
                put = [
                    record
                    for record, result in zip(put, answer["Records"])
                    if "ErrorCode" in result
                ]

    def records(self, name: str) -> list[Event]:
        """All that is in a stream."""
        return [event for events in self.by_shard(name).values() for event in events]

    def by_shard(self, name: str) -> dict[str, list[Event]]:
        """All that is in a stream, by the shard's id."""
        found: dict[str, list[Event]] = {}
        for shard in self.kinesis.list_shards(StreamName=name)["Shards"]:
            events = found.setdefault(shard["ShardId"], [])
            at = self.kinesis.get_shard_iterator(
                StreamName=name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while True:
                answer = self.kinesis.get_records(ShardIterator=at)
                events += [json.loads(record["Data"]) for record in answer["Records"]]
                if not answer["MillisBehindLatest"]:
                    break
                at = answer["NextShardIterator"]
        return found

    def batch_ends(self, checkpoint: str) -> list[dict[str, tuple[int, int]]]:
        """From which record of a shard to which each micro-batch of a checkpoint reached."""
        prefix = f"{checkpoint}offsets/"
        listed = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
        names = (item["Key"].removeprefix(prefix) for item in listed)
        found: list[dict[str, tuple[int, int]]] = []
        before: dict[str, int] = {}
        for number in sorted(int(name) for name in names if name.isdigit()):
            body = self.s3.get_object(Bucket=BUCKET, Key=f"{prefix}{number}")["Body"].read()
            shards = json.loads(body.splitlines()[-1])["shards"]
            counts = {name: shard["count"] for name, shard in shards.items()}
            found.append({name: (before.get(name, 0), count) for name, count in counts.items()})
            before = counts
        return found

    def run(self, script: str, *argv: str, within_s: float = 300) -> str:
        """Run a script of the bucket as a step to its end, and return what it printed."""
        step_id, state = self.ended(script, *argv, options=self.options, within_s=within_s)
        assert state == "COMPLETED", self.log(step_id, "stderr")[-4000:]
        return self.log(step_id, "stdout")

    def ended(
        self, script: str, *argv: str, options: Sequence[str], within_s: float = 300
    ) -> tuple[str, str]:
        """Run a script of the bucket as a step with options of spark-submit; return its id and its last state."""
        shuffle = ("--conf", "spark.sql.shuffle.partitions=2")
        command = ["spark-submit", *shuffle, *options, f"s3://{BUCKET}/{script}", *argv]
        jar = {"Jar": "command-runner.jar", "Args": command}
        step = {"Name": script, "ActionOnFailure": "CONTINUE", "HadoopJarStep": jar}
        added = self.emr.add_job_flow_steps(JobFlowId=self.cluster, Steps=[step])
        step_id = added["StepIds"][0]

        def ended() -> str | None:
            found = self.emr.describe_step(ClusterId=self.cluster, StepId=step_id)
            state = found["Step"]["Status"]["State"]
            return state if state in ("COMPLETED", "FAILED", "CANCELLED") else None

        return step_id, wait_until(ended, within_s=within_s, what=f"the end of the step {script}")

    def log(self, step_id: str, name: str) -> str:
        """What the step's driver printed, in its container; what YARN's client printed when there is none."""
        below = f"logs/{self.cluster}/steps/{step_id}/"
        client = self._read(f"{below}stderr.gz")
        named = re.search(r"Submitted application (application_\d+_\d+)", client)
        if named is not None:
            containers = f"logs/{self.cluster}/containers/{named[1]}/"
            listed = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=containers).get("Contents", [])
            for key in (item["Key"] for item in listed):
                if key.endswith(f"_01_000001/{name}.gz"):
                    return self._read(key)
        return self._read(f"{below}{name}.gz")

    def _read(self, key: str) -> str:
        return gzip.decompress(self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()).decode()

    def rows(self, prefix: str) -> list[dict[str, Any]]:
        """The rows of the job's table under a prefix; without one, of all Parquet files."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        names = [item["Key"] for page in pages for item in page.get("Contents", [])]

        def read(name: str) -> bytes:
            return self.s3.get_object(Bucket=BUCKET, Key=name)["Body"].read()

        files = reference.table_files(names, read)
        files = files or [name for name in names if name.endswith(".parquet")]
        return pa.concat_tables(pq.read_table(io.BytesIO(read(name))) for name in files).to_pylist()


def arguments(job: str, *more: str, stream: str = "departed") -> list[str]:
    """A job's arguments: its output under `<job>/`, its checkpoint under `checkpoints/<job>/`."""
    return [
        *("--stream", stream, "--region", REGION, "--output", f"s3://{BUCKET}/{job}/"),
        *("--checkpoint", f"s3://{BUCKET}/checkpoints/{job}/", *more),
    ]
