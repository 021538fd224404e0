"""A cloud in process, and job runs that take milliseconds: shell scripts by a stand-in for spark-submit."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until
from tests.support.spark_home import make_spark_home

ENDED = {"SUCCESS", "FAILED", "CANCELLED"}
BUCKET = "jobs"
ROLE = "arn:aws:iam::000000000000:role/job"


class Lab:
    """A client of EMR Serverless, and what tests do with it over and over."""

    def __init__(self, client: Any, s3: Any) -> None:
        self.emr = client
        self.s3 = s3
        self._tokens = itertools.count()

    def application(self, **more: Any) -> str:
        answer = self.emr.create_application(
            name="a", releaseLabel="emr-7.9.0", type="SPARK",
            clientToken=f"t{next(self._tokens)}", **more,
        )  # fmt: skip
        return str(answer["applicationId"])

    def script(self, text: str) -> str:
        key = f"job{next(self._tokens)}.sh"
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=text.encode())
        return f"s3://{BUCKET}/{key}"

    def start(
        self, application_id: str, script: str, *arguments: str, logs: bool = True, **more: Any
    ) -> str:
        monitoring = {"s3MonitoringConfiguration": {"logUri": f"s3://{BUCKET}/logs"}}
        params: dict[str, Any] = {
            "applicationId": application_id,
            "clientToken": f"t{next(self._tokens)}",
            "executionRoleArn": ROLE,
            "jobDriver": {
                "sparkSubmit": {
                    "entryPoint": self.script(script),
                    "entryPointArguments": list(arguments),
                }
            },
            **more,
        }
        if logs:
            overrides = params.setdefault("configurationOverrides", {})
            overrides.setdefault("monitoringConfiguration", monitoring)
        return str(self.emr.start_job_run(**params)["jobRunId"])

    def run(self, application_id: str, run_id: str) -> Any:
        return self.emr.get_job_run(applicationId=application_id, jobRunId=run_id)["jobRun"]

    def until(self, application_id: str, run_id: str, *states: str) -> Any:
        """Wait until a job run is in one of these states; return it."""
        return wait_until(
            lambda: run if (run := self.run(application_id, run_id))["state"] in states else None,
            what=f"{run_id} {states}",
        )

    def ended(self, application_id: str, run_id: str) -> Any:
        """Wait until a job run has ended; return it."""
        return self.until(application_id, run_id, *ENDED)

    def log(self, application_id: str, run_id: str, name: str, below: str = "") -> str:
        key = f"logs/applications/{application_id}/jobs/{run_id}{below}/SPARK_DRIVER/{name}.gz"
        return gzip.decompress(self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()).decode()

    def state(self, application_id: str) -> str:
        found = self.emr.get_application(applicationId=application_id)["application"]
        return str(found["state"])


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = make_spark_home(tmp_path / "spark")
    monkeypatch.setenv("HEADRACE_SPARK_HOME", str(home))
    return home


@pytest.fixture
def lab_cloud(data_dir: Path, spark_home: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir) as cloud:
        yield cloud


@pytest.fixture
def lab(lab_cloud: InProcessCloud) -> Lab:
    lab = Lab(lab_cloud.client("emr-serverless"), lab_cloud.client("s3"))
    lab.s3.create_bucket(Bucket=BUCKET)
    return lab
