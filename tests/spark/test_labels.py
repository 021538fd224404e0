"""`format("aws-kinesis")` as a step on each release label: what headrace brings into a label's Spark runs there.

By day a step of test_sql_run.py reads and writes so on the default label.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.spark_submit.emr_releases import EMR, releases
from tests.spark.conftest import Stream
from tests.support.emr import cluster_request
from tests.support.server import ServerProcess, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

READS = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = (
    spark.readStream.format("aws-kinesis").option("kinesis.streamName", sys.argv[1])
    .option("kinesis.region", "us-east-1").option("kinesis.startingPosition", "TRIM_HORIZON")
    .option("kinesis.endpointUrl", "https://kinesis.us-east-1.amazonaws.com").load()
)
query = rows.writeStream.format("memory").queryName("rows").start()
query.processAllAvailable()
print("rows:", spark.table("rows").count())
query.stop()
"""
ENDED = {"COMPLETED", "CANCELLED", "FAILED"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with pytest.MonkeyPatch.context() as patch:
        # Fresh, so that no earlier headrace's packages are taken.
        patch.setenv("HEADRACE_SPARK_CACHE", str(tmp_path_factory.mktemp("cache")))
        with ServerProcess(tmp_path_factory.mktemp("cloud") / "data") as server:
            yield server


@pytest.mark.parametrize(
    "label", [release.label for release in releases(EMR) if release.has_kinesis_connector]
)
def test_a_stream_is_read_on_each_label(
    server: ServerProcess, make_stream: Any, label: str
) -> None:
    stream: Stream = make_stream(2)
    stream.put(50)
    s3, emr = server.client("s3"), server.client("emr")
    s3.create_bucket(Bucket="jobs")
    s3.put_object(Bucket="jobs", Key="reads.py", Body=READS.encode())
    args = ["spark-submit", "s3://jobs/reads.py", stream.name]
    step = {"Jar": "command-runner.jar", "Args": args}
    cluster = emr.run_job_flow(
        **cluster_request(ReleaseLabel=label),
        Steps=[{"Name": "s", "ActionOnFailure": "CONTINUE", "HadoopJarStep": step}],
    )["JobFlowId"]
    (step_id,) = [found["Id"] for found in emr.list_steps(ClusterId=cluster)["Steps"]]

    def ended() -> Any:
        status = emr.describe_step(ClusterId=cluster, StepId=step_id)["Step"]["Status"]
        return status if status["State"] in ENDED else None

    status = wait_until(ended, within_s=600, what="the step's end")
    folder: Path = server.data_dir / "emr" / cluster / step_id
    assert status["State"] == "COMPLETED", (folder / "stderr").read_text()[-4000:]
    assert (folder / "stdout").read_text() == "rows: 50\n"
