"""Jobs of Spark 3.5 as they are submitted: with the zip alone, and for the connector that EMR bundles."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace.spark
from headrace.spark.package import build
from headrace.spark.versions import HAS_DATA_SOURCES
from tests.spark.bundled_job import READS
from tests.spark.test_streams_writes import stored
from tests.support.server import ServerProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(HAS_DATA_SOURCES, reason="of the way on Spark 3.5"),
]

ROOT = Path(__file__).parents[2]
AUTOLOAD = Path(headrace.spark.__file__).parent / "connector35"
# For Python's start in the driver and in tasks.
WITHOUT_PANDAS = """
import sys
sys.modules["pandas"] = sys.modules["numpy"] = None
"""

COPY = """
import sys
from pyspark.sql import SparkSession
from headrace.spark.streams import kinesis_stream, stream_to_kinesis
spark = SparkSession.builder.getOrCreate()
source, target, checkpoint = sys.argv[1:]
rows = kinesis_stream(spark, **{"kinesis.streamName": source, "kinesis.startingPosition": "TRIM_HORIZON"})
writer = stream_to_kinesis(rows, **{"kinesis.streamName": target})
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
assert sys.modules["pandas"] is None
import headrace.spark
assert ".zip" in headrace.spark.__file__, headrace.spark.__file__
"""

BUNDLED = (
    READS
    + """
try:
    spark.readStream.load(format="aws-kinesis", **{"kinesis.streamName": "s"})
except Exception as error:
    assert "endpointUrl is not specified" in str(error), error
else:
    raise AssertionError("a stream without its endpoint is read")
writer = (
    rows.selectExpr("data", "partitionKey", "length(data) more")
    .writeStream.format("aws-kinesis").options(**options(target))
    .option("checkpointLocation", checkpoint).trigger(availableNow=True)
)
try:
    writer.start(outputMode="update")
except Exception as error:
    assert "append only" in str(error), error
else:
    raise AssertionError("updates are written")
query = writer.start(queryName="copied")
assert query.name == "copied"
query.awaitTermination()
assert spark.readStream.format("rate").load().columns == ["timestamp", "value"]
import next_at_start
"""
)


def submit(server: ServerProcess, job: Path, *arguments: Path | str, path: list[Path]) -> str:
    """Run a job by spark-submit; return all that it prints."""
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": server.endpoint_url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(str(folder) for folder in path),
    }
    submit = Path(sys.executable).parent / "spark-submit"
    options = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
    done = subprocess.run(
        [submit, "--master", "local[2]", *options, *arguments[:-3], job, *arguments[-3:]],
        cwd=job.parent, env=environment, capture_output=True, text=True, check=False, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def test_a_job_with_the_zip_needs_pyarrow_and_boto3_only(
    server: ServerProcess, make_stream: Any, tmp_path: Path
) -> None:
    source, target = make_stream(2), make_stream(1)
    source.put(60)
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(WITHOUT_PANDAS)
    job = tmp_path / "job.py"
    job.write_text(COPY)
    package = str(build(tmp_path / "headrace_spark.zip"))
    submit(
        server, job, "--py-files", package, source.name, target.name, str(tmp_path / "c"),
        path=[tmp_path / "start"],
    )  # fmt: skip
    assert sum(map(len, stored(target).values())) == 60


def test_a_job_for_the_bundled_connector_runs_as_it_is(
    server: ServerProcess, make_stream: Any, tmp_path: Path
) -> None:
    source, target = make_stream(2), make_stream(1)
    source.put(60)
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(
        "import sys, types\nsys.modules['next_at_start'] = types.ModuleType('next_at_start')\n"
    )
    job = tmp_path / "job.py"
    job.write_text(BUNDLED)
    log = submit(
        server, job, source.name, target.name, str(tmp_path / "c"), path=[AUTOLOAD, ROOT, other]
    )
    assert sum(map(len, stored(target).values())) == 60
    assert "written one by one" in log
