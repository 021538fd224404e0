"""What writes a query's micro-batches, and how one micro-batch's rows correct another's."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

Sink = Callable[[DataFrame, int], None]


def latest(updates: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Return each key's row of the highest batch from `updates`, rows with the column `batch`."""
    newest_first = Window.partitionBy(*key).orderBy(F.col("batch").desc())
    return (
        updates.withColumn("_age", F.row_number().over(newest_first)).where("_age = 1").drop("_age")
    )
