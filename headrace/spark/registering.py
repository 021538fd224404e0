"""Makes `format("kinesis")` known to a session where Spark has not found it by itself."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

from headrace.spark.source import KinesisDataSource

_ANNOUNCER = "pyspark_headrace"


def register(spark: Any) -> None:
    """Register the source with `spark`, a SparkSession; does nothing where Spark looks for sources and has found it.

    Spark looks on the PYTHONPATH that spark-submit was started with, which steps on the local cloud have; a zip that is
    given by `--py-files`, as on EMR, is not on it. May be called as often as you like.
    """
    if not is_announced(os.environ.get("PYTHONPATH", "")):
        spark.dataSource.register(KinesisDataSource)


def is_announced(python_path: str) -> bool:
    """Whether a PYTHONPATH has the module by which Spark finds the source, in a folder or in a zip."""
    return any(_has_announcer(Path(entry)) for entry in python_path.split(os.pathsep) if entry)


def _has_announcer(entry: Path) -> bool:
    if entry.is_dir():
        return (entry / _ANNOUNCER / "__init__.py").is_file()
    if not zipfile.is_zipfile(entry):
        return False
    with zipfile.ZipFile(entry) as archive:
        return f"{_ANNOUNCER}/__init__.py" in archive.namelist()
