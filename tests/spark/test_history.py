"""From a running step's Spark UI to its history, through kills of the cloud and of the driver."""

from __future__ import annotations

import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from headrace.spark_submit.job import JobProcess
from tests.support.emr import cluster_request
from tests.support.server import ServerProcess, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.crash]

STATUS = "/_headrace/emr"
BUCKET = "history-jobs"
TITLE = "<title>long &lt;b&gt;job&lt;/b&gt; - Spark Jobs</title>"
JOB = """
import time
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("long <b>job</b>").getOrCreate()
print(spark.range(1000).count(), flush=True)
time.sleep(600)
"""


def _page(url: str) -> str:
    """Return a page, or nothing while it does not answer."""
    try:
        with urllib.request.urlopen(url, timeout=30) as page:
            return str(page.read().decode())
    except OSError:
        return ""


def _step(server: ServerProcess) -> Any:
    return server.page(f"{STATUS}?format=json")["clusters"][0]["steps"][0]


def _jobs(ui: str, server: ServerProcess) -> str:
    """Return what a Spark UI tells of the step's jobs; nothing before there is one."""
    for application in _step(server)["spark"]["applications"]:
        jobs = _page(f"{ui}/api/v1/applications/{application['id']}/jobs")
        if "jobId" in jobs:
            return jobs
    return ""


@pytest.mark.slow
def test_a_step_s_spark_ui_and_history_are_reached_from_the_status_page(data_dir: Path) -> None:
    with ServerProcess(data_dir) as server:
        s3, emr = server.client("s3"), server.client("emr")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="job.py", Body=JOB.encode())
        arguments = ["spark-submit", f"s3://{BUCKET}/job.py"]
        made = {"Jar": "command-runner.jar", "Args": arguments}
        step = {"Name": "long", "ActionOnFailure": "CONTINUE", "HadoopJarStep": made}
        emr.run_job_flow(**cluster_request(Steps=[step]))
        live = wait_until(
            lambda: _step(server)["spark"]["live"], within_s=90, what="the live UI's address"
        )
        wait_until(lambda: _jobs(live, server), within_s=60, what="the job in the live UI")
        assert TITLE in _page(f"{live}/jobs/")
        folder = next((data_dir / "emr").glob("*/s-*"))
        # Spark says where its UI is to headrace, not in the user's log.
        assert "SparkUI" not in (folder / "stderr").read_text()

        server.kill9()
        server.start()
        assert _step(server)["spark"]["live"] == live

        process = JobProcess.find(folder)
        assert process is not None
        for pid in process.members():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: _step(server)["state"] == "FAILED", what="the step's end")
        assert _step(server)["spark"]["live"] is None
        [application] = _step(server)["spark"]["applications"]
        assert TITLE in _page(application["history"])
        history = server.page(f"{STATUS}?format=json")["history"]["server"]
        assert _jobs(history, server)

        server.kill9()
        wait_until(lambda: not _page(history), what="the end of the history server")
