"""`headrace submit --serverless`, with a stand-in for Spark and once with Spark itself."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.forked_command import run_headrace
from tests.support.server import REGION, ServerProcess


def submit(endpoint_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ("--region", REGION, "--serverless", "--endpoint-url", endpoint_url)
    return run_headrace("submit", *where, *arguments)


def test_a_job_is_run_and_followed_and_its_application_is_used_again(
    tmp_path: Path, spark_home: Path
) -> None:
    job = tmp_path / "job.sh"
    job.write_text('echo "$@"; exit ${2:-0}\n')
    with ServerProcess(tmp_path / "data") as server:
        done = submit(server.endpoint_url, "--conf", "a.b=c d", str(job), "hello")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "hello\n"
        assert "start-job-run" in done.stderr
        assert "SUCCESS" in done.stderr
        failed = submit(server.endpoint_url, str(job), "hello", "3")
        assert failed.returncode == 1
        assert "ExitCode: 3" in failed.stderr
        emr = server.client("emr-serverless")
        assert len(emr.list_applications()["applications"]) == 1


def test_a_dry_run_prints_the_command_for_aws(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("")
    done = submit("http://127.0.0.1:9", "--dry-run", "--conf", "a=b c", str(job), "x y")
    assert done.returncode == 0, done.stderr
    copy, start = done.stdout.splitlines()
    assert shlex.split(copy)[:3] == ["aws", "s3", "cp"]
    words = shlex.split(start)
    assert words[:3] == ["aws", "emr-serverless", "start-job-run"]
    driver = json.loads(words[words.index("--job-driver") + 1])["sparkSubmit"]
    assert driver["entryPoint"].endswith("/job.py")
    assert driver["entryPointArguments"] == ["x y"]
    assert driver["sparkSubmitParameters"] == "--conf 'a=b c'"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--serverless", "--cluster", "j-1"), "--cluster is for steps"),
        (("--application", "a"), "--application is for --serverless"),
        (("--role", "arn:aws:iam::1:role/r"), "--role is for --serverless"),
    ],
)
def test_a_step_and_a_job_run_are_not_mixed_up(
    tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    job = tmp_path / "job.py"
    job.write_text("")
    done = run_headrace("submit", "--endpoint-url", "http://127.0.0.1:9", *options, str(job))
    assert done.returncode == 1
    assert sentence in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_spark_itself_reads_kinesis_and_writes_to_s3_without_a_word_in_the_job(
    tmp_path: Path,
) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "options = {'kinesis.streamName': 'flights', 'kinesis.region': 'us-east-1',\n"
        "           'kinesis.startingposition': 'TRIM_HORIZON'}\n"
        "rows = spark.read.format('kinesis').options(**options).load()\n"
        "rows.selectExpr('cast(data as string) text').write.text(sys.argv[1])\n"
        "print('rows', rows.count())\n"
    )
    # With a label's Spark a job brings the source itself: tests/spark_jobs/test_packages.py.
    with ServerProcess(tmp_path / "data", "--spark", "installed") as server:
        kinesis, s3 = server.client("kinesis"), server.client("s3")
        kinesis.create_stream(StreamName="flights", ShardCount=1)
        for text in ("one", "two"):
            kinesis.put_record(StreamName="flights", Data=text.encode(), PartitionKey="k")
        s3.create_bucket(Bucket="out")
        done = submit(server.endpoint_url, str(job), "s3://out/rows")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "rows 2\n"
        keys = [o["Key"] for o in s3.list_objects_v2(Bucket="out", Prefix="rows/")["Contents"]]
        parts = [s3.get_object(Bucket="out", Key=k)["Body"].read() for k in keys if "part-" in k]
        assert sorted(b"".join(parts).split()) == [b"one", b"two"]
