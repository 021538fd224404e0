"""Writes a query's results as Parquet folders, one for each micro-batch, and makes tables of them.

The result of micro-batch N is a folder `batch=N` that writing replaces, so a batch that is repeated after a crash
leaves the same files as without the crash. The output belongs to its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

Sink = Callable[[DataFrame, int], None]


def into(folder: str) -> Sink:
    """Return a sink that writes micro-batch N to `folder` `batch=N/`, and replaces an earlier attempt's files."""

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.coalesce(1).write.mode("overwrite").parquet(f"{folder}batch={batch_id}/")

    return write


def read(spark: SparkSession, folder: str) -> DataFrame | None:
    """Return the rows that `into(folder)` wrote, with the column `batch`; None if there are none yet."""
    try:
        return spark.read.option("basePath", folder).parquet(folder)
    except AnalysisException as error:
        if _condition(error) not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            raise
        return None


def _condition(error: AnalysisException) -> str | None:
    """Return the error's condition; Spark 3.5 calls it the error class."""
    named = getattr(error, "getCondition", None) or error.getErrorClass
    return named()


def latest(updates: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Return each key's row of the highest batch from `updates`, rows with the column `batch`."""
    newest_first = Window.partitionBy(*key).orderBy(F.col("batch").desc())
    return (
        updates.withColumn("_age", F.row_number().over(newest_first))
        .where("_age = 1")
        .drop("_age", "batch")
    )


def publish(spark: SparkSession, updates: str, table: str, key: tuple[str, ...]) -> None:
    """Write the Parquet `table` of each key's latest row from the folder `updates`, if it has any."""
    rows = read(spark, updates)
    if rows is not None:
        latest(rows, key).coalesce(1).sortWithinPartitions(*key).write.mode("overwrite").parquet(
            table
        )
