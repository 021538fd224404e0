"""Writes a query's results as Parquet folders, one a micro-batch, and makes tables of them.

Whatever micro-batch N gives is a folder `batch=N` that writing replaces, so a batch that is done again after a crash
leaves what it would have left the first time. The output belongs to its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

Sink = Callable[[DataFrame, int], None]


def into(folder: str) -> Sink:
    """Return a sink that writes micro-batch N to `folder` `batch=N/`, in place of an earlier attempt's."""

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.coalesce(1).write.mode("overwrite").parquet(f"{folder}batch={batch_id}/")

    return write


def read(spark: SparkSession, folder: str) -> DataFrame | None:
    """Return what `into(folder)` wrote, with the column `batch`; None when it wrote nothing yet."""
    try:
        return spark.read.option("basePath", folder).parquet(folder)
    except AnalysisException as error:
        if _condition(error) not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            raise
        return None


def _condition(error: AnalysisException) -> str | None:
    """Return the name of the error, which Spark 3.5 calls its class."""
    named = getattr(error, "getCondition", None) or error.getErrorClass
    return named()


def latest(updates: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Return, of `updates` (rows with the column `batch`), each key's row of the highest batch."""
    newest_first = Window.partitionBy(*key).orderBy(F.col("batch").desc())
    return (
        updates.withColumn("_age", F.row_number().over(newest_first))
        .where("_age = 1")
        .drop("_age", "batch")
    )


def publish(spark: SparkSession, updates: str, table: str, key: tuple[str, ...]) -> None:
    """Make the Parquet `table` of each key's latest row from the folder `updates`, if there is any."""
    rows = read(spark, updates)
    if rows is not None:
        latest(rows, key).coalesce(1).sortWithinPartitions(*key).write.mode("overwrite").parquet(
            table
        )
