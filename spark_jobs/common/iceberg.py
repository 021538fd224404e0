"""The latest rows as an Iceberg table of Glue's catalogue: Spark writes its files, and pyiceberg commits them.

A commit replaces all files by a micro-batch's and has the manifest in its snapshot's summary: a kill leaves the table
before it or after it, and of two writers one is refused. Needs pyiceberg, which the packages for Spark 4 have; EMR's
own Iceberg runtime is not needed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from pyspark.sql import DataFrame, SparkSession

from headrace.cdc.events import CaptureError
from headrace.cdc.iceberg_table import STATE, RowsTable, glue_catalog, schema
from spark_jobs.common.files import Files

# A compaction's lines, in Parquet files and in tables.
LINES = "table STRING, key STRING, row STRING, is_deleted BOOLEAN, lsn BIGINT, place BIGINT, time_ms BIGINT"


def read_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the lines of Parquet files."""
    if not paths:
        return spark.createDataFrame([], LINES)
    return spark.read.schema(LINES).parquet(*paths)


def open_catalog(region: str) -> Any:
    """Return Glue's catalogue of a region. Raises ValueError without pyiceberg."""
    import boto3

    try:
        import pyiceberg  # noqa: F401
    except ImportError as error:
        raise ValueError(
            "iceberg:// needs pyiceberg, which spark_jobs/requirements has for Spark 4 and newer: take such a release,"
            " a folder as --output, or headrace compact."
        ) from error
    session: Any = boto3.Session(region_name=region)
    return glue_catalog(session.client("glue"), session.client("s3"))


class IcebergOutput:
    """The output as a table, which is made in its database's location when it is not there. Only the driver uses it.

    Raises CaptureError with a sentence.
    """

    empty = "a new table"

    def __init__(self, spark: SparkSession, database: str, name: str, region: str) -> None:
        self._spark, self._files = spark, Files(spark)
        self.place = f"iceberg://{database}/{name}"
        # Spark's files have lines of several captured tables.
        self._rows = RowsTable(open_catalog(region), database, name, is_partitioned=False)

    def manifest(self) -> Optional[dict[str, Any]]:  # noqa: UP045 - Python 3.9 evaluates it
        """Return what the newest snapshot says, or None of a new table."""
        return self._rows.load()[1] or None

    def rows(self, manifest: Mapping[str, Any]) -> DataFrame:
        """Return the table's rows, which are those of its newest manifest."""
        del manifest
        table, _ = self._rows.load()
        tasks = list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise ValueError(
                f"{self.place} has rows that another program has deleted by position: compact it, as any Iceberg table."
            )
        return read_lines(self._spark, [task.file.file_path for task in tasks])

    def put(self, rows: DataFrame, manifest: dict[str, Any]) -> None:
        """Replace the table's files by a micro-batch's, unless another process has stored a micro-batch meanwhile."""
        table, state = self._rows.load()
        if state.get("batch", -1) != manifest["batch"] - 1:
            raise CaptureError(
                f"Another process has stored rows in {self.place} meanwhile; that counts."
            )
        data, batch = f"{table.location()}/data/", f"{manifest['checkpoint']}-{manifest['batch']}-"
        # Of this attempt alone: another process may write the same micro-batch, and be the one that commits it.
        attempt = f"{batch}{uuid.uuid4().hex}"
        folder = f"{data}{attempt}/"
        rows.write.mode("overwrite").parquet(folder)
        names = self._files.names(folder)
        paths = sorted(f"{folder}{name}" for name in names if name.endswith(".parquet"))
        properties = {STATE: json.dumps(manifest)}
        with self._rows.commits(), table.transaction() as transaction:
            if table.current_snapshot() is not None:
                transaction.delete(snapshot_properties=properties, delete_filter="true")
            transaction.add_files(paths, snapshot_properties=properties)
        for name in self._files.names(data):
            if name.startswith(batch) and name != attempt:
                self._files.delete(f"{data}{name}")

    def note(self, manifest: dict[str, Any]) -> None:
        """Commit a manifest alone."""
        table, _ = self._rows.load()
        nothing = schema().as_arrow().empty_table()
        with self._rows.commits(), table.transaction() as transaction:
            transaction.append(nothing, snapshot_properties={STATE: json.dumps(manifest)})
