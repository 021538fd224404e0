"""Writes a job's rows where `--output` says: folders of Parquet (`s3://...`) or events in a stream (`kinesis://STREAM`).

**Events.** Each row is one record, of JSON: `{"event_id", "job", "batch", "row": {...}}`, times in UTC with their zone,
nulls written out; the partition key is one of the row's columns, so that an airport's or an aircraft's rows stay in
their order. Kinesis keeps what a task has put even when Spark does the micro-batch again, so an event may come
twice: **then its `event_id` is the same**. A consumer is idempotent that passes over an id it has seen.

The id is made of the job and the row's key. A *final* row (a closed session, a joined flight) is the same event however
the input was cut into micro-batches, in a replay from an empty checkpoint too. A row that *corrects* an earlier one (a
window still open) has the micro-batch in its id as well: of a key's events, the one of the highest `batch` counts.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.common import batches, kinesis

STREAM = "kinesis://"
_TIMES = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "ignoreNullFields": "false",
}


@dataclass(frozen=True)
class Results:
    """How a job's rows are named and ordered.

    Attributes:
        job: its name.
        folder: where its rows lie under the output folder.
        key: the columns that name a row.
        partition_key: the column whose rows keep their order in a stream; never null.
        corrects: whether a row takes the place of an earlier micro-batch's row of the same key.
    """

    job: str
    folder: str
    key: tuple[str, ...]
    partition_key: str
    corrects: bool = False


def stream_of(output: str) -> str | None:
    """Return the stream that `output` names; None for a folder."""
    return output.removeprefix(STREAM).rstrip("/") if output.startswith(STREAM) else None


def sink(arguments: argparse.Namespace, results: Results) -> batches.Sink:
    """Return the sink that `--output` asks for."""
    stream = stream_of(arguments.output)
    if stream is None:
        return batches.into(f"{arguments.output}{results.folder}")
    return lambda rows, batch_id: kinesis.write(events(rows, batch_id, results), arguments, stream)


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
