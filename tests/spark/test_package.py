"""The zip for `--py-files` holds all that the source needs of headrace, and needs pyspark, pyarrow and boto3 only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.package import build

# Everything but the standard library and what these three bring along is as if it were not installed.
ALONE = """
import importlib.abc, sys
sys.path.insert(0, {path!r})
known = set(sys.stdlib_module_names) | set(
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
assert all(name.startswith("headrace.spark") for name in theirs), theirs
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


def test_the_source_is_found_and_stands_alone_in_the_zip(tmp_path: Path) -> None:
    run(ALONE + IMPORTS, tmp_path)


@pytest.mark.spark
def test_what_is_in_the_zip_reads_and_writes_without_numpy_or_pandas(
    make_stream: Any, tmp_path: Path
) -> None:
    options = make_stream(1).options()
    del options["kinesis.startingposition"]
    run(ALONE + USES, tmp_path, options=json.dumps(options))


def test_the_same_source_gives_the_same_zip(tmp_path: Path) -> None:
    first, second = build(tmp_path / "a.zip"), build(tmp_path / "b.zip")
    assert first.read_bytes() == second.read_bytes()
