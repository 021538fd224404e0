"""One Spark session for all tests of jobs: a JVM takes seconds to start."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

# Of pyspark, about pandas 3, which the jobs do not use.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

# Before the JVM starts: its Python workers must find pandas, and the jobs where they are not installed.
os.environ["PYSPARK_PYTHON"] = sys.executable
_PATH = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PATH))

import pyspark  # noqa: E402 - the warning comes with the import
from pyspark.sql import SparkSession  # noqa: E402

from tests.support.environments import left_out  # noqa: E402
from tests.support.java import FILE_SYSTEM, session_variables  # noqa: E402

collect_ignore = left_out("spark_jobs")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "America/New_York")
    )
    for name, value in FILE_SYSTEM.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        is_spark_4 = int(pyspark.__version__.partition(".")[0]) >= 4
        variables = session_variables(os.environ["PYTHONPATH"], is_spark_4=is_spark_4)
        for name, value in variables.items():
            patch.setenv(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
