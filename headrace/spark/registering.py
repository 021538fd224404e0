"""Registers `format("kinesis")` in a session where Spark has not found it by itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from headrace.spark.versions import HAS_DATA_SOURCES


def register(spark: Any) -> None:
    """Register the source with `spark`, a SparkSession that does not know it yet.

    Spark finds it on the PYTHONPATH that spark-submit was started with, which steps on the local cloud have. A zip that
    is given by `--py-files`, as on EMR, is on the job's own path only. May be called as often as you like.
    Raises NotImplementedError on Spark 3.5.
    """
    if not HAS_DATA_SOURCES:
        raise NotImplementedError(
            f"Spark {spark.version} has no data sources in Python: "
            "use kinesis_stream of headrace.spark.streams instead of the format kinesis."
        )
    from headrace.spark.source import KinesisDataSource

    if not _knows(spark, KinesisDataSource.name()):
        _show_the_planner_where_this_is(spark.sparkContext.environment)
        spark.dataSource.register(KinesisDataSource)


def _show_the_planner_where_this_is(environment: dict[str, str]) -> None:
    """Put this package's place on the path of the process in which a stream's reader plans.

    Seen on Spark 4.0 to 4.3: `--py-files` are on the path of every Python process of Spark's but this one. It runs on
    the driver's machine, where this package is; elsewhere the path leads nowhere, and harms nothing.
    """
    here = str(Path(__file__).parents[2])
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    if here not in paths:
        environment["PYTHONPATH"] = os.pathsep.join([*paths, here])


def _knows(spark: Any, name: str) -> bool:
    # Spark has no public way to ask, and warns when a source is registered twice.
    manager = spark._jsparkSession.sessionState().dataSourceManager()  # noqa: SLF001
    return bool(manager.dataSourceExists(name))
