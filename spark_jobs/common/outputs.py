"""Writes a job's rows to `--output`: as a table (`s3://...`) or as events in a stream (`kinesis://STREAM`).

**Tables.** They are those of `day_tables.py`, by the day of the row's time: `read()` reads one. Rows that correct
earlier ones also have the column `batch`; of a key the row with the highest one counts.

**Events.** Each row is one JSON record: `{"event_id", "job", "batch", "row": {...}}`, with times in UTC with their zone
and explicit nulls; the partition key is one of the row's columns, so that an airport's or an aircraft's rows stay in
order. Kinesis keeps a task's records even when Spark repeats the micro-batch, so an event may come twice: **then its
`event_id` is the same**. A consumer that skips ids which it has seen is idempotent.

The id consists of the job and the row's key. A *final* row (a closed session, a joined flight) is the same event
however the input is divided into micro-batches, also in a replay from an empty checkpoint. A row that *corrects* an
earlier one (a window still open) also has the micro-batch in its id: the event with a key's highest `batch` counts.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common import batches, kinesis
from spark_jobs.common.day_tables import DayTable, day_of

STREAM = "kinesis://"
_TIMES = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "ignoreNullFields": "false",
}


@dataclass(frozen=True)
class Results:
    """The names and the order of a job's rows.

    Attributes:
        job: the job's name.
        folder: the folder of the rows under the output folder.
        key: the columns that identify a row.
        time: the column by whose day a row lies in the table.
        partition_key: the column by which rows keep their order in a stream; never null.
        corrects: whether a row replaces an earlier micro-batch's row with the same key.
    """

    job: str
    folder: str
    key: tuple[str, ...]
    time: str
    partition_key: str
    corrects: bool = False


def stream_of(output: str) -> str | None:
    """Return the stream that `output` names; None for a folder."""
    return output.removeprefix(STREAM).rstrip("/") if output.startswith(STREAM) else None


def sink(spark: SparkSession, arguments: argparse.Namespace, results: Results) -> batches.Sink:
    """Return the sink for `--output`."""
    stream = stream_of(arguments.output)
    if stream is not None:
        return lambda rows, batch_id: kinesis.write(
            events(rows, batch_id, results), arguments, stream
        )
    table = table_of(spark, arguments.output, results, arguments.checkpoint)

    def write(rows: DataFrame, batch_id: int) -> None:
        rows = rows.withColumn("day", day_of(results.time))
        if results.corrects:
            rows = rows.withColumn("batch", F.lit(batch_id).cast("bigint"))
        table.add(rows, batch_id)

    return write


def table_of(
    spark: SparkSession, output: str, results: Results, checkpoint: str | None = None
) -> DayTable:
    """Return the table of a job's rows under its output folder; who writes it gives the query's checkpoint."""
    folder = f"{output}{results.folder}"
    if not results.corrects:
        return DayTable(spark, folder, checkpoint=checkpoint)
    return DayTable(spark, folder, None, lambda rows: batches.latest(rows, results.key), checkpoint)


def read(spark: SparkSession, output: str, results: Results) -> DataFrame:
    """Return a job's rows under its output folder, each key's latest. Raises ValueError when there are none yet."""
    rows = table_of(spark, output, results).read()
    return rows.drop("day", "batch")


def events(rows: DataFrame, batch_id: int, results: Results) -> DataFrame:
    """Return `rows` of micro-batch `batch_id` as records: data (JSON), partitionKey."""
    batch = F.lit(batch_id).alias("batch")
    names: list[Column] = [F.lit(results.job).alias("job"), *(F.col(n) for n in results.key)]
    if results.corrects:
        names.append(batch)
    event = F.struct(
        F.sha2(F.to_json(F.struct(*names), _TIMES), 256).alias("event_id"),
        F.lit(results.job).alias("job"),
        batch,
        F.struct(*rows.columns).alias("row"),
    )
    return rows.select(
        F.to_json(event, _TIMES).alias("data"),
        F.col(results.partition_key).alias("partitionKey"),
    )
