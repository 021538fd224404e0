"""The zip for `--py-files` holds all that the source needs of headrace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headrace.spark.package import build

PROGRAM = """
import sys
sys.path.insert(0, {path!r})
from pyspark.sql.worker.lookup_data_sources import iter_modules
assert "pyspark_headrace" in {{module.name for module in iter_modules()}}
from pyspark_headrace import DefaultSource
assert DefaultSource.name() == "kinesis"
import headrace.spark.client, headrace.spark.source
assert headrace.spark.source.__file__.startswith({path!r}), headrace.spark.source.__file__
theirs = [name for name in sys.modules if name.startswith("headrace.")]
assert all(name.startswith("headrace.spark") for name in theirs), theirs
"""


def test_the_source_is_found_and_stands_alone_in_the_zip(tmp_path: Path) -> None:
    path = str(build(tmp_path / "headrace_spark.zip"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.format(path=path)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_same_source_gives_the_same_zip(tmp_path: Path) -> None:
    first, second = build(tmp_path / "a.zip"), build(tmp_path / "b.zip")
    assert first.read_bytes() == second.read_bytes()
