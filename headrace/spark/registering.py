"""Registers `format("kinesis")` in a session where Spark has not found it by itself."""

from __future__ import annotations

from typing import Any

from headrace.spark.source import KinesisDataSource


def register(spark: Any) -> None:
    """Register the source with `spark`, a SparkSession that does not know it yet.

    Spark finds it on the PYTHONPATH that spark-submit was started with, which steps on the local cloud have. A zip that
    is given by `--py-files`, as on EMR, is on the job's own path only. May be called as often as you like.
    """
    if not _knows(spark):
        spark.dataSource.register(KinesisDataSource)


def _knows(spark: Any) -> bool:
    # Spark has no public way to ask, and warns when a source is registered twice.
    manager = spark._jsparkSession.sessionState().dataSourceManager()  # noqa: SLF001
    return bool(manager.dataSourceExists(KinesisDataSource.name()))
