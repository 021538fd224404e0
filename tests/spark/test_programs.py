"""What an EMR machine has beside `spark-submit` as a step: its programs in scripts, `hdfs:///`, buckets of later.

Nightly EMR's connector `aws-kinesis` is in such a job, too; by day a step of test_sql_run.py reads and writes with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.conftest import Stream
from tests.spark.test_labels import READS
from tests.support.emr import cluster_request
from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.spark

ENDED = {"COMPLETED", "CANCELLED", "FAILED"}
JOB = b"""
import os, sys, urllib.request
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("arguments:", sys.argv[1:], spark.sparkContext.master)
spark.range(10).write.parquet("hdfs:///tmp/rows")
print("hdfs:", spark.read.parquet("hdfs:///tmp/rows").count())
spark.range(3).write.parquet("s3n://code/rows")
print("s3n:", spark.read.parquet("s3a://code/rows").count())
credential = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
urllib.request.urlopen(urllib.request.Request(
    os.environ["AWS_ENDPOINT_URL"] + "/made-later", method="PUT", headers={"Authorization": credential}))
spark.range(7).write.parquet("s3://made-later/rows")
print("later:", spark.read.parquet("s3://made-later/rows").count())
"""
SCRIPT = b"""
set -e
spark-submit --master yarn --deploy-mode client --files s3://code/prod.ini#app.ini s3://code/job.py x "y z"
hadoop fs -ls hdfs:///tmp | grep -c /tmp/rows
cat app.ini
"""
SHELLS = b"""
set -e
spark-sql --master yarn -f s3://code/query.sql
echo 'println("from the shell: " + (20 + 22))' | spark-shell | grep -o 'from the shell: 42'
echo hello | hadoop fs -put - /tmp/hello
hdfs dfs -cat hdfs:///tmp/hello
s3-dist-cp --src hdfs:///tmp/ --dest s3://code/copied --srcPattern '.*hello'
hadoop fs -cat s3://code/copied/hello
hadoop fs -ls s3://code/ | grep -c /copied
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, nightly: bool) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cloud") / "data") as server:
        s3 = server.client("s3")
        s3.create_bucket(Bucket="code")
        # The stream is the first argument.
        job = JOB + READS.encode() if nightly else JOB
        files = {"job.py": job, "script.sh": SCRIPT, "shells.sh": SHELLS, "prod.ini": b"[app]\n"}
        files["query.sql"] = b"select 'two: ' || (1 + 1);\n"
        for name, body in files.items():
            s3.put_object(Bucket="code", Key=name, Body=body)
        if nightly:
            Stream(server, "x", 2).put(50)
        yield server


def printed(server: ServerProcess, script: str) -> list[str]:
    """Run a script as a step, and return what it prints."""
    emr = server.client("emr")
    step = {"Jar": "command-runner.jar", "Args": ["bash", f"s3://code/{script}"]}
    cluster = emr.run_job_flow(
        **cluster_request(),
        Steps=[{"Name": "s", "ActionOnFailure": "CONTINUE", "HadoopJarStep": step}],
    )["JobFlowId"]
    step_id = emr.list_steps(ClusterId=cluster)["Steps"][0]["Id"]

    def ended() -> Any:
        status = emr.describe_step(ClusterId=cluster, StepId=step_id)["Step"]["Status"]
        return status if status["State"] in ENDED else None

    status = wait_until(ended, within_s=300, what="the step's end")
    folder = server.data_dir / "emr" / cluster / step_id
    assert status["State"] == "COMPLETED", (folder / "stderr").read_text()[-4000:]
    return (folder / "stdout").read_text().splitlines()


def test_a_script_submits_a_job(server: ServerProcess, nightly: bool) -> None:
    assert printed(server, "script.sh") == [
        "arguments: ['x', 'y z'] local[*]", "hdfs: 10", "s3n: 3", "later: 7", *(["rows: 50"] if nightly else []),
        "1", "[app]",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_script_has_the_shells_and_hadoops_commands(server: ServerProcess) -> None:
    assert printed(server, "shells.sh") == [
        "two: 2", "from the shell: 42", "hello", "hello", "1",
    ]  # fmt: skip
