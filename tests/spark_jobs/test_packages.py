"""A step has what it brings along and nothing of headrace's own: what is missing on EMR is missing here first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark_jobs.steps import BUCKET, JOBS, Steps
from tests.support.server import ServerProcess

pytestmark = pytest.mark.spark

# Imports where the driver does, and where the tasks do.
IMPORTS = b"""\
import sys
from pyspark.sql import SparkSession

def found(_):
    import boto3, pandas, pyarrow
    return [pyarrow.__file__]

print(found(None)[0])
spark = SparkSession.builder.getOrCreate()
print(spark.sparkContext.parallelize([0], 1).mapPartitions(found).collect()[0])
"""


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    with ServerProcess(tmp_path / "data") as server:
        steps = Steps(server)
        steps.upload("imports.py", IMPORTS)
        yield steps


@pytest.mark.slow
def test_a_step_finds_its_packages_in_its_archive_and_without_it_none(steps: Steps) -> None:
    said = steps.run("imports.py").splitlines()

    assert len(said) == 2
    assert all(
        line.endswith("/work/packages/pyarrow/__init__.py") or "./packages/" in line
        for line in said
    )

    without = ["--deploy-mode", "cluster", *steps.options[steps.options.index("--py-files") :]]
    step_id, state = steps.ended("imports.py", options=without)

    assert state == "FAILED"
    assert "ModuleNotFoundError: No module named" in steps.log(step_id, "stdout")
    failure = steps.emr.describe_step(ClusterId=steps.cluster, StepId=step_id)["Step"]["Status"]
    assert "ModuleNotFoundError" in failure["FailureDetails"]["Message"]


@pytest.mark.slow
def test_a_step_of_a_job_without_its_packages_fails_as_on_emr(steps: Steps) -> None:
    steps.stream("departed")
    steps.upload("departures.py", (JOBS / "departures.py").read_bytes())
    without = ["--deploy-mode", "cluster", *steps.options[steps.options.index("--py-files") :]]
    uri = f"s3://{BUCKET}"
    argv = ["--stream", "departed", "--region", "us-east-1", "--output", f"{uri}/o/"]

    step_id, state = steps.ended(
        "departures.py", *argv, "--checkpoint", f"{uri}/c/", options=without
    )

    assert state == "FAILED"
    assert "ModuleNotFoundError: No module named 'pyarrow'" in steps.log(step_id, "stdout")
