"""The zip for `--py-files` holds all that the source needs of headrace, and needs pyspark, pyarrow and boto3 only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.package import build
from headrace.spark.versions import HAS_DATA_SOURCES
from tests.support.server import ServerProcess

needs_spark_4 = pytest.mark.skipif(not HAS_DATA_SOURCES, reason="the sources of Spark 4")
# Everything but the standard library and what these three bring along is as if it were not installed.
ALONE = """
import importlib.abc, os, pkgutil, sys
sys.path.insert(0, {path!r})
library = os.path.dirname(os.__file__)
# Python 3.9, the oldest one of EMR 7, does not list the names itself.
own = getattr(sys, "stdlib_module_names", None) or {{
    *sys.builtin_module_names, *(m.name for m in pkgutil.iter_modules([library, library + "/lib-dynload"]))}}
known = set(own) | set(
    "headrace pyspark_headrace pyspark py4j pyarrow boto3 botocore s3transfer jmespath dateutil six urllib3".split())

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in known and not name.startswith("_"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
"""

IMPORTS = """
import importlib, zipfile
from pyspark.sql.worker.lookup_data_sources import iter_modules
assert "pyspark_headrace" in {{module.name for module in iter_modules()}}
from pyspark_headrace import DefaultSource
assert DefaultSource.name() == "kinesis"
assert "boto3" not in sys.modules, "a task that reads from the spool does without it"
for name in zipfile.ZipFile({path!r}).namelist():
    importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
import headrace.spark.source
assert headrace.spark.source.__file__.startswith({path!r}), headrace.spark.source.__file__
theirs = [name for name in sys.modules if name.startswith("headrace.")]
assert all(name.startswith(("headrace.spark", "headrace.cdc")) for name in theirs), theirs
folds = {{name for name in theirs if name.startswith("headrace.cdc.")}}
assert folds == {{f"headrace.cdc.{{name}}" for name in ("events", "iceberg_table")}}, folds
"""

USES = """
import json
import pyarrow as pa
from headrace.spark.client import KinesisClient
from headrace.spark.offsets import Offset, TrimHorizon
from headrace.spark.options import parse_options, parse_sink_options
from headrace.spark.planner import Planner
from headrace.spark.reading import read_span
from headrace.spark.sink import write
given = json.loads({options!r})
rows = pa.RecordBatch.from_pydict({{"data": [b"%d" % n for n in range(50)], "partitionKey": ["k"] * 50}})
write(parse_sink_options(given), iter([rows]))
options = parse_options(given)
planner = Planner(KinesisClient(options), options)
start = Offset(options.stream, TrimHorizon())
for slices_are_there in (True, False):
    found = []
    for span, slices in planner.slices(start, planner.plan(start, None)):
        for batch in read_span(options, start.init, span, slices if slices_are_there else []):
            found += [int(data) for data in batch.column("data").to_pylist()]
    assert found == list(range(50)), found
planner.close()
"""


def run(program: str, folder: Path, **values: str) -> None:
    path = str(build(folder / "headrace_spark.zip"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program.format(path=path, **values)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@needs_spark_4
def test_the_source_is_found_and_stands_alone_in_the_zip(tmp_path: Path) -> None:
    run(ALONE + IMPORTS, tmp_path)


@pytest.mark.spark
def test_what_is_in_the_zip_reads_and_writes_without_numpy_or_pandas(
    make_stream: Any, tmp_path: Path
) -> None:
    options = make_stream(1).options()
    del options["kinesis.startingposition"]
    run(ALONE + USES, tmp_path, options=json.dumps(options))


JOB = """
import sys
from pyspark.sql import SparkSession
from headrace.spark.registering import register
spark = SparkSession.builder.getOrCreate()
register(spark)
register(spark)
stream = spark.readStream.format("kinesis").option("kinesis.streamName", sys.argv[1])
query = (
    stream.option("kinesis.startingPosition", "TRIM_HORIZON").load().selectExpr("int(string(data)) n")
    .writeStream.format("json").option("checkpointLocation", sys.argv[2] + "/checkpoint")
    .trigger(availableNow=True).start(sys.argv[2] + "/rows")
)
query.awaitTermination()
assert sorted(row.n for row in spark.read.json(sys.argv[2] + "/rows").collect()) == list(range(20))
print("all", "there")
"""


@needs_spark_4
@pytest.mark.spark
@pytest.mark.slow
def test_a_job_that_spark_submit_gives_the_zip_reads_a_stream(
    server: ServerProcess, make_stream: Any, tmp_path: Path
) -> None:
    stream = make_stream(1)
    stream.put(20)
    path = build(tmp_path / "headrace_spark.zip")
    job = tmp_path / "job.py"
    job.write_text(JOB)
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": server.endpoint_url,
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("PYTHONPATH", None)
    submit = Path(sys.executable).parent / "spark-submit"
    done = subprocess.run(
        [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false",
         "--conf", "spark.driver.host=127.0.0.1", "--py-files", path, job, stream.name, tmp_path],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert "all there" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_zip_leaves_the_bundled_connectors_name_alone(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build(tmp_path / "a.zip")).namelist()
    assert "pyspark_headrace/__init__.py" in names
    assert not [name for name in names if "aws_kinesis" in name]


def test_the_same_source_gives_the_same_zip(tmp_path: Path) -> None:
    first, second = build(tmp_path / "a.zip"), build(tmp_path / "b.zip")
    assert first.read_bytes() == second.read_bytes()


@needs_spark_4
def test_a_session_of_spark_connect_registers_without_a_jvm() -> None:
    from headrace.spark.registering import register
    from headrace.spark.source import KinesisDataSource

    known: list[Any] = []

    class DataSources:
        def register(self, source: Any) -> None:
            known.append(source)

    class Session:
        """As pyspark.sql.connect.session.SparkSession, which has no JVM's object."""

        version = "4.1.1"
        dataSource = DataSources()

    Session.__module__ = "pyspark.sql.connect.session"
    register(Session())
    assert known == [KinesisDataSource]
