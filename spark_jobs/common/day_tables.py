"""Tables that a long-running query corrects: a Parquet file a day, and versions that replace one another at once.

`versions/N.json` names, for each day, the folder with its rows after micro-batch N. A micro-batch writes only the days
that it changes, each from the rows before it and its own, and then its version, in one request: a reader sees the table
before or after a micro-batch, and one that is repeated after a crash changes nothing twice. Folders that no kept
version names are deleted, so there are about as many as days, however many micro-batches there were. A table belongs to
one checkpoint: another one counts from 0 again, and its micro-batches would be taken for those that the table has.
Small days are written as a whole; tables of large ones belong in Iceberg.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common.files import Files, query_id

# A reader may hold an old version while newer ones are made.
KEPT_VERSIONS = 10
_DAY = "_day"


class DayTable:
    """One table under a folder. Only the driver uses it, and only one query writes it.

    Args:
        folder: its URI, with a slash at the end.
        schema: its columns; one is `day`, a date.
        merge: returns a day's rows from those before and the new ones together; by default all.
        checkpoint: the URI of the checkpoint of the query that writes it, with a slash; a reader needs none.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        schema: str,
        merge: Callable[[DataFrame], DataFrame] = lambda rows: rows,
        checkpoint: str | None = None,
    ) -> None:
        self._spark, self._folder, self._schema, self._merge = spark, folder, schema, merge
        self._files, self._checkpoint = Files(spark), checkpoint

    def read(self) -> DataFrame:
        """Return the table's rows after its newest version; none before the first."""
        numbers = self._numbers()
        return self._rows(self._days(numbers[-1]).values() if numbers else ())

    def add(self, rows: DataFrame, batch_id: int) -> None:
        """Merge a micro-batch's rows into the table, unless it has them; Spark's errors leave it as it was.

        Raises ValueError when the table is another checkpoint's, or is ahead of this one.
        """
        numbers, query = self._numbers(), self._query_id()
        newest = self._version(numbers[-1]) if numbers else {"days": {}, "query": query}
        if newest.get("query") != query or (numbers and batch_id < numbers[-1]):
            raise ValueError(
                f"{self._folder} does not belong to the checkpoint {self._checkpoint}, which is at micro-batch"
                f" {batch_id}: give its own, or an empty folder with an empty checkpoint."
            )
        if numbers[-1:] == [batch_id]:
            return
        days = newest["days"]
        changed = sorted(str(row["day"]) for row in rows.select("day").distinct().collect())
        if changed:
            before = self._rows([days[day] for day in changed if day in days])
            folder = f"data/batch={batch_id}/"
            merged = self._merge(rows.unionByName(before)).withColumn(_DAY, F.col("day"))
            merged.coalesce(1).write.mode("overwrite").partitionBy(_DAY).parquet(
                f"{self._folder}{folder}"
            )
            days |= {day: f"{folder}{_DAY}={day}/" for day in changed}
        version = json.dumps({"batch": batch_id, "query": query, "days": days}).encode()
        self._files.write(f"{self._folder}versions/{batch_id:010}.json", version)
        self._clean([*numbers, batch_id])

    def _clean(self, numbers: list[int]) -> None:
        """Delete old versions, and the folders that only they named."""
        kept = numbers[-KEPT_VERSIONS:]
        for number in numbers[:-KEPT_VERSIONS]:
            self._files.delete(f"{self._folder}versions/{number:010}.json")
        named = {path.split("/")[1] for number in kept for path in self._days(number).values()}
        for name in self._files.names(f"{self._folder}data/"):
            if name not in named:
                self._files.delete(f"{self._folder}data/{name}")

    def _numbers(self) -> list[int]:
        names = self._files.names(f"{self._folder}versions/")
        return sorted(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))

    def _query_id(self) -> str | None:
        return None if self._checkpoint is None else query_id(self._files, self._checkpoint)

    def _days(self, number: int) -> dict[str, str]:
        return self._version(number)["days"]

    def _version(self, number: int) -> dict[str, Any]:
        content = self._files.read(f"{self._folder}versions/{number:010}.json")
        return json.loads(content or b'{"days": {}}')

    def _rows(self, paths: Any) -> DataFrame:
        folders = [f"{self._folder}{path}" for path in paths]
        if not folders:
            return self._spark.createDataFrame([], self._schema)
        return self._spark.read.schema(self._schema).parquet(*folders)
