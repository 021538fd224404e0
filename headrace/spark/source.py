"""The Spark data source `format("kinesis")`, streaming and batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from headrace.spark.offsets import Latest, Offset
from headrace.spark.options import (
    InvalidOption,
    Options,
    as_batch,
    as_one_batch,
    parse_options,
    parse_sink_options,
)
from headrace.spark.planning import Planning, Work, master_of_the_session, read_work, with_mode
from headrace.spark.progress import BEHIND
from headrace.spark.reading import COLUMNS, read_shard
from headrace.spark.sink import KinesisBatchWriter, KinesisStreamWriter, check_schema
from headrace.spark.untyped import Records
from headrace.spark.versions import (
    HAS_READ_LIMITS,
    AvailableNow,
    InferredStart,
    most_rows,
    read_limit,
    spark_version,
)

if TYPE_CHECKING:
    from headrace.spark.client import KinesisClient

log = logging.getLogger(__name__)


def connect(options: Options) -> KinesisClient:
    """Return a client. boto3 takes long to import, so it is imported only here."""
    from headrace.spark.client import KinesisClient

    return KinesisClient(options)


class WorkPartition(InputPartition):
    """The partition of one task of a micro-batch."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.work = work


class ShardPartition(InputPartition):
    """The partition of one task of a batch read: a shard from the starting position to `until_ms`."""

    def __init__(self, shard_id: str, until_ms: int) -> None:
        super().__init__((shard_id, until_ms))
        self.shard_id = shard_id
        self.until_ms = until_ms


class KinesisDataSource(DataSource):
    """Reads a Kinesis stream, or writes to one (see `headrace.spark.sink`).

    Columns: data, streamName, partitionKey, sequenceNumber, approximateArrivalTimestamp, shardId. See
    `headrace.spark.options` for the options. A query with a checkpoint gets every record once, and a repeated batch has
    the same records; within a partition (a shard) records are in order.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kinesis"

    def schema(self) -> str:
        """Return the columns, which are the same for every stream. Spark calls this first, so it checks the options."""
        parse_options(self.options)
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        options = parse_options(self.options)
        if not HAS_READ_LIMITS:
            options = as_one_batch(options, self.options)
        return KinesisStreamReader(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return KinesisBatchReader(parse_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of `df.write`, which only appends."""
        if overwrite:
            raise InvalidOption('A Kinesis stream can only be appended to: use mode("append").')
        check_schema(schema)
        return KinesisBatchWriter(parse_sink_options(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """Return the writer of a streaming query in append or update mode."""
        if overwrite:
            raise InvalidOption("A Kinesis stream can only be appended to: not in complete mode.")
        check_schema(schema)
        return KinesisStreamWriter(parse_sink_options(self.options))


class KinesisStreamReader(DataSourceStreamReader, AvailableNow):
    """Plans in one process of the driver; `read` runs in tasks, on a copy that never plans.

    Spark 4.0 and 4.1 pass neither the batch's start nor a limit to `latestOffset`; see `headrace.spark.versions`.
    """

    def __init__(self, options: Options) -> None:
        self._options = with_mode(options, master_of_the_session())
        self._planning: Planning | None = None
        self._place = InferredStart(options.stream, self.initialOffset())
        self._has_warned = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_planning": None}

    def _plan(self) -> Planning:
        if self._planning is None:
            self._planning = Planning(self._options, one_batch=not HAS_READ_LIMITS)
            # Spark ends this process with a signal when the query is over; it calls `stop` only when the driver died.
            self._planning.close_at_sigterm()
        return self._planning

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset where a query begins, the same at every start: Spark asks again to repeat batch 0."""
        return Offset(self._options.stream, self._options.init or Latest()).to_json()

    def getDefaultReadLimit(self) -> Any:
        """Return the options' limit for a micro-batch."""
        return read_limit(self._options.max_records_per_trigger)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the shards' known lag, for the query's progress (`headrace.spark.progress`)."""
        if self._planning is None:
            return None
        return {BEHIND: self._planning.behind_ms()}

    def prepareForTriggerAvailableNow(self) -> None:
        """End at the stream's present end."""
        self._plan().stop_at_now()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:
        """Return the end of the batch that begins at `start`, which on Spark 4.0 and 4.1 is inferred."""
        if not HAS_READ_LIMITS:
            return self._own_latest_offset()
        return self._plan().plan(start, most_rows(limit))

    def _own_latest_offset(self) -> dict[str, Any]:
        start = self._place.next_start()
        after = self._plan().plan(start, self._options.max_records_per_trigger)
        if after is start:
            # The same text, because Spark compares texts to detect new data.
            return start
        self._warn_of_what_is_left()
        # Spark does not call for the lag anywhere else.
        end = after | {BEHIND: self._plan().behind_ms()}
        self._place.planned(end)
        return end

    def _warn_of_what_is_left(self) -> None:
        if self._has_warned or not self._plan().has_left:
            return
        self._has_warned = True
        log.warning(
            "A limit (kinesis.maxFetchRecordsPerShard, kinesis.maxRecordsPerTrigger, bytes or time) has cut a batch of "
            "stream %s: records are left for the next one. On Spark %d.%d a run with the trigger AvailableNow has one "
            "batch only. If this is one, they stay unread until the query is started again; set kinesis.availableNow "
            "to true, or no limit, to have them all in one batch.",
            self._options.stream, *spark_version(),
        )  # fmt: skip

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of the batch between two offsets."""
        if not HAS_READ_LIMITS and self._place.is_repeated(start, end):
            log.warning(
                "A batch of stream %s that was interrupted is done again. On Spark %d.%d a run with the trigger "
                "AvailableNow has one batch only: if this is one, start the query once more for what came since.",
                self._options.stream, *spark_version(),
            )  # fmt: skip
        return [WorkPartition(work) for work in self._plan().work(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Records]:
        """Yield a partition's records."""
        assert isinstance(partition, WorkPartition)
        yield from read_work(self._options, partition.work)

    def commit(self, end: dict[str, Any]) -> None:
        """Release the records that Spark has finished."""
        if self._planning is not None:
            self._planning.release(end)

    def stop(self) -> None:
        """End the reading and remove the spool."""
        if self._planning is not None:
            self._planning.close()
            self._planning = None


class KinesisBatchReader(DataSourceReader):
    """Reads from the starting position to the stream's end at the time of planning."""

    def __init__(self, options: Options) -> None:
        self._options = as_batch(options)

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
        client = connect(self._options)
        try:
            yield from read_shard(client, self._options, partition.shard_id, partition.until_ms)
        finally:
            client.close()
