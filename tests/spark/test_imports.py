"""Every module of the package can be imported on the Spark that is there, whatever that has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headrace.spark
from headrace.spark.versions import HAS_DATA_SOURCES

MODULES = sorted(file.stem for file in Path(headrace.spark.__file__).parent.glob("*.py"))
OF_DATA_SOURCES = {"source"}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_imported(module: str) -> None:
    if module in OF_DATA_SOURCES and not HAS_DATA_SOURCES:
        pytest.skip("this Spark has no data sources in Python")
    __import__(f"headrace.spark.{module}")


def test_a_spark_without_data_sources_is_told_what_to_use() -> None:
    program = """
import sys
sys.modules["pyspark.sql.datasource"] = None
from headrace.spark import sink, progress, planner, reading, versions
from headrace.spark.registering import register
assert not versions.HAS_DATA_SOURCES
class Session:
    version = "3.5.6"
try:
    register(Session())
except NotImplementedError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "use kinesis_stream of headrace.spark.streams" in done.stdout, done.stderr
