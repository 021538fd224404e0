"""Registers `format("kinesis")` in a session in which Spark has not found it by itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from headrace.spark.planning import MASTER_VARIABLE
from headrace.spark.versions import HAS_DATA_SOURCES


def register(spark: Any) -> None:
    """Register the source with the SparkSession `spark`, if it does not know it.

    Spark finds the source on the PYTHONPATH of spark-submit, as in steps on the local cloud. A zip in `--py-files`, as
    on EMR, is only on the job's own path. Repeated calls have no effect.
    Raises NotImplementedError on Spark 3.5.
    """
    if not HAS_DATA_SOURCES:
        raise NotImplementedError(
            f"Spark {spark.version} has no data sources in Python: "
            "use kinesis_stream of headrace.spark.streams instead of the format kinesis."
        )
    from headrace.spark.source import KinesisDataSource

    if _is_connect(spark):
        # Its server has the JVM and the path; to register again replaces.
        spark.dataSource.register(KinesisDataSource)
        return
    environment = spark.sparkContext.environment
    environment[MASTER_VARIABLE] = spark.sparkContext.master
    if not _knows(spark, KinesisDataSource.name()):
        _show_the_planner_where_this_is(environment)
        spark.dataSource.register(KinesisDataSource)


def _show_the_planner_where_this_is(environment: dict[str, str]) -> None:
    """Add this package's folder to the path of the process in which a stream's reader plans.

    Observed on Spark 4.0 to 4.3: `--py-files` are on the path of all Python processes of Spark except this one. It runs
    on the driver's machine, where this package is; on other machines the path does not exist, which is harmless.
    """
    here = str(Path(__file__).parents[2])
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    if here not in paths:
        environment["PYTHONPATH"] = os.pathsep.join([*paths, here])


def _is_connect(spark: Any) -> bool:
    """Return whether a session is one of Spark Connect, which has no JVM in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _knows(spark: Any, name: str) -> bool:
    # Spark has no public API to check this, and warns when a source is registered twice.
    manager = spark._jsparkSession.sessionState().dataSourceManager()  # noqa: SLF001
    return bool(manager.dataSourceExists(name))
