"""Tables that a long-running query adds to: Parquet folders by day, and versions that replace one another at once.

`versions/N.json` names, for each day, the folders with its rows after micro-batch N. A micro-batch writes its own rows,
by day, and then its version, in one request: a reader sees the table before or after a micro-batch, and one that is
repeated after a crash changes nothing twice. A day's last eight folders of one size become one of the next size, so a
day has few dozen folders however many micro-batches it had, a row is written once a size, and no other day is touched.
Folders that no kept version names are deleted. A table belongs to one checkpoint: another one counts from 0 again, and
its micro-batches would be taken for those that the table has. Large tables belong in Iceberg.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_jobs.common.files import Files, query_id

# A reader may hold an old version while newer ones are made.
KEPT_VERSIONS = 10
# Folders of one size that become one of the next size.
MERGED_AT = 8
_DAY = "_day"
# A folder with rows of a day, below the table's, and how many micro-batches it holds.
Part = tuple[str, int]
# The parts of each day, in the order of their micro-batches.
Days = dict[str, list[Part]]


def day_of(time: str | Column) -> Column:
    """Return the UTC date of a timestamp; from whole days, which do not depend on the session's time zone."""
    return F.date_from_unix_date(F.floor(F.unix_seconds(time) / 86_400).cast("int"))


def parts_due(parts: list[Part]) -> int:
    """Return how many of a day's last parts are due to become one; 0 if none are."""
    sizes, due = [size for _, size in parts], 0
    while len(sizes) >= MERGED_AT and len(set(sizes[-MERGED_AT:])) == 1:
        due += MERGED_AT - (due > 0)
        sizes[-MERGED_AT:] = [sizes[-1] * MERGED_AT]
    return due


def days_of(version: dict[str, Any]) -> Days:
    """Return a version's days; one of before parts were merged names a day's only folder."""
    return {
        day: [(parts, 1)] if isinstance(parts, str) else parts
        for day, parts in version["days"].items()
    }


class DayTable:
    """One table under a folder. Only the driver uses it, and only one query writes it.

    Args:
        folder: its URI, with a slash at the end.
        schema: its columns; one is `day`, a date. Without it the files say them.
        merge: returns the rows of some micro-batches as fewer ones, each day's apart; by default all. In any grouping
            it gives the same.
        checkpoint: the URI of the checkpoint of the query that writes it, with a slash; a reader needs none.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        schema: str | StructType | None = None,
        merge: Callable[[DataFrame], DataFrame] = lambda rows: rows,
        checkpoint: str | None = None,
    ) -> None:
        self._spark, self._folder, self._schema, self._merge = spark, folder, schema, merge
        self._files, self._checkpoint = Files(spark), checkpoint

    def read(self) -> DataFrame:
        """Return the table's rows after its newest version; none before the first, a ValueError without a schema."""
        numbers = self._numbers()
        days = self._days(numbers[-1]) if numbers else {}
        return self._merge(self._rows(path for parts in days.values() for path, _ in parts))

    def add(self, rows: DataFrame, batch_id: int) -> None:
        """Add a micro-batch's rows to the table, unless it has them; Spark's errors leave it as it was.

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
        days = days_of(newest)
        for day, path in self._write(rows, f"data/batch={batch_id}/").items():
            days.setdefault(day, []).append((path, 1))
        self._merge_parts(days, f"data/merged={batch_id}/")
        self._become(numbers, batch_id, query, days)

    def replace(self, rows: DataFrame) -> None:
        """Make `rows` the whole table, at once. Raises ValueError when a query keeps it."""
        numbers = self._numbers()
        if numbers and self._version(numbers[-1]).get("query") is not None:
            raise ValueError(f"{self._folder} is the table of a query: give another folder.")
        number = numbers[-1] + 1 if numbers else 0
        parts = self._write(rows, f"data/whole={number}/")
        self._become(numbers, number, None, {day: [(path, 1)] for day, path in parts.items()})

    def _merge_parts(self, days: Days, folder: str) -> None:
        due = {day: parts[-n:] for day, parts in days.items() if (n := parts_due(parts))}
        if not due:
            return
        rows = self._rows(path for path, _ in chain.from_iterable(due.values()))
        merged = self._write(self._merge(rows), folder)
        for day, parts in due.items():
            size = sum(size for _, size in parts)
            # None of a day's rows may be left, where later days correct them.
            days[day][-len(parts) :] = [(merged[day], size)] if day in merged else []

    def _write(self, rows: DataFrame, folder: str) -> dict[str, str]:
        """Write rows to a folder, and return each day's folder below it."""
        by_day = rows.withColumn(_DAY, F.col("day")).coalesce(1).write.mode("overwrite")
        by_day.partitionBy(_DAY).parquet(f"{self._folder}{folder}")
        names = self._files.names(f"{self._folder}{folder}")
        return {
            name.removeprefix(f"{_DAY}="): f"{folder}{name}/"
            for name in sorted(names)
            if name.startswith(_DAY)
        }

    def _become(self, numbers: list[int], number: int, query: str | None, days: Days) -> None:
        version = json.dumps({"batch": number, "query": query, "days": days}).encode()
        self._files.write(f"{self._folder}versions/{number:010}.json", version)
        self._clean([*numbers, number])

    def _clean(self, numbers: list[int]) -> None:
        """Delete old versions, and the folders that only they named."""
        kept = numbers[-KEPT_VERSIONS:]
        named = {path for number in kept for path in self._paths(number)}
        for number in numbers[:-KEPT_VERSIONS]:
            for path in self._paths(number) - named:
                self._files.delete(f"{self._folder}{path}")
            self._files.delete(f"{self._folder}versions/{number:010}.json")
        folders = {path.split("/")[1] for path in named}
        for name in self._files.names(f"{self._folder}data/"):
            if name not in folders:
                self._files.delete(f"{self._folder}data/{name}")

    def _numbers(self) -> list[int]:
        names = self._files.names(f"{self._folder}versions/")
        return sorted(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))

    def _query_id(self) -> str | None:
        return None if self._checkpoint is None else query_id(self._files, self._checkpoint)

    def _days(self, number: int) -> Days:
        return days_of(self._version(number))

    def _paths(self, number: int) -> set[str]:
        return {path for parts in self._days(number).values() for path, _ in parts}

    def _version(self, number: int) -> dict[str, Any]:
        content = self._files.read(f"{self._folder}versions/{number:010}.json")
        return json.loads(content or b'{"days": {}}')

    def _rows(self, paths: Iterable[str]) -> DataFrame:
        folders = [f"{self._folder}{path}" for path in paths]
        reader = self._spark.read if self._schema is None else self._spark.read.schema(self._schema)
        if folders:
            return reader.parquet(*folders)
        if self._schema is None:
            raise ValueError(f"{self._folder} is no table yet: it has had no rows.")
        return self._spark.createDataFrame([], self._schema)
