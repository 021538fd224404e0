"""The Spark benchmark's comparison: a source and a sink over boto3, as users write them by hand."""

# ruff: noqa: B905 - zip has no `strict` on Python 3.9, which Spark 3.5 has

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3

from headrace.spark.reading import COLUMNS
from headrace.spark.sink import MOST_RECORDS

REGION = "us-east-1"


def row_by_row(stream: str, endpoint_url: str) -> Any:
    """Return a reader as documentation suggests: it reads a page of each shard with boto3 and makes tuples of it."""

    def read(start: dict[str, str]) -> tuple[list[tuple[Any, ...]], dict[str, str]]:
        kinesis: Any = boto3.client("kinesis", region_name=REGION, endpoint_url=endpoint_url)
        rows: list[tuple[Any, ...]] = []
        end = dict(start)
        for shard in kinesis.list_shards(StreamName=stream)["Shards"]:
            name = shard["ShardId"]
            where: dict[str, str] = {"ShardIteratorType": "TRIM_HORIZON"}
            if name in end:
                where = {
                    "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                    "StartingSequenceNumber": end[name],
                }
            iterator = kinesis.get_shard_iterator(StreamName=stream, ShardId=name, **where)
            page = kinesis.get_records(ShardIterator=iterator["ShardIterator"])
            for record in page["Records"]:
                rows.append((
                    record["Data"], stream, record["PartitionKey"], record["SequenceNumber"],
                    record["ApproximateArrivalTimestamp"], name,
                ))  # fmt: skip
                end[name] = record["SequenceNumber"]
        return rows, end

    return read


def row_by_row_source() -> Any:
    """Return the data source `format("rowbyrow")`. Not on Spark 3.5, which has no sources in Python."""
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class RowByRow(SimpleDataSourceStreamReader):
        """Reads row tuples."""

        def __init__(self, options: Any) -> None:
            self._read = row_by_row(options["stream"], options["endpointUrl"])

        def initialOffset(self) -> dict[str, str]:
            """Return an offset without shards: all begin at the oldest record."""
            return {}

        def read(self, start: dict[str, str]) -> tuple[Iterator[tuple[Any, ...]], dict[str, str]]:
            """Return the next rows of every shard."""
            rows, end = self._read(start)
            return iter(rows), end

        def readBetweenOffsets(
            self, start: dict[str, str], end: dict[str, str]
        ) -> Iterator[tuple[Any, ...]]:
            """Return the rows of a repeated batch; the benchmark repeats none."""
            return self.read(start)[0]

    class RowByRowSource(DataSource):
        """`format("rowbyrow")`."""

        @classmethod
        def name(cls) -> str:
            """Return the format's name."""
            return "rowbyrow"

        def schema(self) -> str:
            """Return the columns of the other source."""
            return COLUMNS

        def simpleStreamReader(self, schema: Any) -> RowByRow:
            """Return the reader."""
            return RowByRow(self.options)

    return RowByRowSource


def over_boto3(stream: str, endpoint_url: str) -> Any:
    """Return a foreachBatch function as in many tutorials: it puts a partition's rows with boto3, 500 at a time."""

    def put(rows: Any) -> None:
        kinesis: Any = boto3.client("kinesis", region_name=REGION, endpoint_url=endpoint_url)
        waiting: list[dict[str, Any]] = []

        def send() -> None:
            while waiting:
                answer = kinesis.put_records(StreamName=stream, Records=waiting)
                pairs = zip(waiting, answer["Records"])
                waiting[:] = [record for record, found in pairs if found.get("ErrorCode")]

        for row in rows:
            waiting.append({"Data": row.data, "PartitionKey": row.partitionKey})
            if len(waiting) == MOST_RECORDS:
                send()
        send()

    def put_batch(rows: Any, batch_id: int) -> None:
        rows.foreachPartition(put)

    return put_batch
