"""The data source as Spark sees it: `format("kinesis")`, streaming and batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.spark.offsets import Init, Latest, Offset, TrimHorizon, has_latest
from headrace.spark.options import InvalidOption, Options, parse_options, parse_sink_options
from headrace.spark.planner import Planner, as_offset
from headrace.spark.progress import BEHIND
from headrace.spark.reading import COLUMNS, pages, read_span, with_constants
from headrace.spark.sink import KinesisBatchWriter, KinesisStreamWriter, check_schema
from headrace.spark.spans import Span
from headrace.spark.spool import Slice
from headrace.spark.untyped import Records, pa

if TYPE_CHECKING:
    from headrace.spark.client import KinesisClient


def connect(options: Options) -> KinesisClient:
    """Return a client; boto3, which takes long to import, is loaded only where one is needed."""
    from headrace.spark.client import KinesisClient

    return KinesisClient(options)


class SpanPartition(InputPartition):
    """What one task of a micro-batch reads."""

    def __init__(self, init: Init, span: Span, slices: list[Slice]) -> None:
        super().__init__((init, span, slices))
        self.init = init
        self.span = span
        self.slices = slices


class ShardPartition(InputPartition):
    """What one task of a batch read reads: a shard from the starting position to `until_ms`."""

    def __init__(self, shard_id: str, until_ms: int) -> None:
        super().__init__((shard_id, until_ms))
        self.shard_id = shard_id
        self.until_ms = until_ms


class KinesisDataSource(DataSource):
    """Reads a Kinesis stream, or writes to one (see `headrace.spark.sink`).

    Columns: data, streamName, partitionKey, sequenceNumber, approximateArrivalTimestamp, shardId. See
    `headrace.spark.options` for the options. A checkpointed query sees every record once, and a batch that is done
    again has the records it had; within a partition (a shard) records come in their order.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kinesis"

    def schema(self) -> str:
        """Return the columns, which are the same for every stream. Spark asks first: wrong options end here."""
        parse_options(self.options)
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        return KinesisStreamReader(parse_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return KinesisBatchReader(parse_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of `df.write`; a stream is appended to."""
        if overwrite:
            raise InvalidOption('A Kinesis stream can only be appended to: use mode("append").')
        check_schema(schema)
        return KinesisBatchWriter(parse_sink_options(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return the writer of a streaming query in append or update mode."""
        if overwrite:
            raise InvalidOption("A Kinesis stream can only be appended to: not in complete mode.")
        check_schema(schema)
        return KinesisStreamWriter(parse_sink_options(self.options))


class KinesisStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in one process of the driver's; `read` runs in tasks, on a copy that has never planned."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_planner": None}

    def _plan(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(connect(self._options), self._options)
            # How Spark ends this process when the query is over; it calls `stop` only when the driver has died.
            self._planner.folder.close_at_sigterm()
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Return where a query begins. The same at every start: Spark asks again when it repeats batch 0."""
        return Offset(self._options.stream, self._options.init or Latest()).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set on a micro-batch."""
        most = self._options.max_records_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return how far the shards are known to be behind, for the query's progress (`headrace.spark.progress`)."""
        if self._planner is None:
            return None
        return {BEHIND: self._planner.behind_ms()}

    def prepareForTriggerAvailableNow(self) -> None:
        """End at what the stream holds now."""
        self._plan().stop_at_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the batch that begins at `start`."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._plan().plan(as_offset(start, self._options.stream), most).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a partition for each shard that has records between two offsets."""
        stream = self._options.stream
        first, last = as_offset(start, stream), as_offset(end, stream)
        return [
            SpanPartition(first.init, span, slices)
            for span, slices in self._plan().slices(first, last)
        ]

    def read(self, partition: InputPartition) -> Iterator[Records]:
        """Yield a partition's records."""
        assert isinstance(partition, SpanPartition)
        return read_span(self._options, partition.init, partition.span, partition.slices)

    def commit(self, end: dict[str, Any]) -> None:
        """Let go of what Spark has finished with."""
        if self._planner is not None:
            self._planner.release(as_offset(end, self._options.stream))

    def stop(self) -> None:
        """End the reading and remove the spool."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None


class KinesisBatchReader(DataSourceReader):
    """Reads from the starting position to what the stream holds when the query is planned."""

    def __init__(self, options: Options) -> None:
        if options.init is not None and has_latest(options.init):
            raise InvalidOption("A batch read cannot start at LATEST: there is nothing after it.")
        self._options = replace(options, init=options.init or TrimHorizon())

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each shard."""
        client = connect(self._options)
        try:
            until_ms = client.now_ms()[1]
            return [ShardPartition(shard.shard_id, until_ms) for shard in client.shards()]
        finally:
            client.close()

    def read(self, partition: InputPartition) -> Iterator[Records]:
        """Yield a shard's records."""
        assert isinstance(partition, ShardPartition)
        init = self._options.init or TrimHorizon()
        client = connect(self._options)
        try:
            for page in pages(client, self._options, partition.shard_id, None, init):
                arrivals = page.records.column("approximateArrivalTimestamp").cast(pa.int64())
                early = [us for us in arrivals.to_pylist() if us <= partition.until_ms * 1000]
                if early:
                    kept = page.records.slice(0, len(early))
                    yield with_constants(kept, self._options.stream, partition.shard_id)
                if len(early) < page.records.num_rows or page.millis_behind_latest == 0:
                    return
        finally:
            client.close()
