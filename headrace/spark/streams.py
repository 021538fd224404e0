"""Functions to read and write Kinesis in jobs for every Spark from 3.5 on, instead of `format("kinesis")`.

    from headrace.spark.streams import kinesis_stream

    flights = kinesis_stream(spark, **{"kinesis.streamName": "flights"})

From Spark 4.0 on they use `format("kinesis")`, and register it if necessary. Spark 3.5 has no Python data sources:
there they use `callbacks` and `arrow_tasks`, with the same options, columns and guarantees.
Options are named as in `headrace.spark.option_table`; a value may be a bool or a number.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.spark.options import (
    Options,
    SinkOptions,
    as_batch,
    parse_options,
    parse_sink_options,
)
from headrace.spark.untyped import untyped
from headrace.spark.versions import HAS_DATA_SOURCES, spark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

_FORMAT = "kinesis"
_AVAILABLE_NOW = "kinesis.availableNow"
_WRITTEN_COLUMNS = ("data", "partitionKey", "explicitHashKey")


def kinesis_stream(
    spark: SparkSession, *, available_now: bool = False, **options: object
) -> DataFrame:
    """Return a streaming frame of a stream, with the source's columns.

    With a checkpoint, a query gets every record once, and a shard's records in order. Several queries may use one
    frame; each reads separately.

    Args:
        spark: a session of Spark 3.5 or later; on 3.5 not one of Spark Connect.
        available_now: set it to true for the trigger AvailableNow. Spark 4.0 and 4.1 do not tell the source about the
            trigger and run one batch, which then takes all records. On other Sparks, also 3.5, it has no effect.
        options: the source's options, as in `spark.readStream.format("kinesis").options(...)`.

    Raises:
        InvalidOption: an option is unknown, missing, or has an invalid value.
        UnsupportedSession: (Spark 3.5) the session lacks something that the source needs.
    """
    texts = _as_text(options)
    if available_now:
        texts[_AVAILABLE_NOW] = "true"
    parsed = parse_options(texts)
    if HAS_DATA_SOURCES:
        from headrace.spark.registering import register

        register(spark)
        return spark.readStream.format(_FORMAT).options(**texts).load()
    _check(spark)
    from headrace.spark.callbacks import stream_frame

    return stream_frame(spark, parsed)


def kinesis_batch(spark: SparkSession, **options: object) -> DataFrame:
    """Return a frame of a stream's present records, from `kinesis.startingPosition` on (default TRIM_HORIZON).

    Every action reads the stream again: on Spark 3.5 up to the time of this call, on others up to the action's time.

    Raises:
        InvalidOption: an option is unknown, missing, or has an invalid value.
        KinesisError: (Spark 3.5) the stream does not exist or cannot be read.
    """
    texts = _as_text(options)
    parsed = as_batch(parse_options(texts))
    if HAS_DATA_SOURCES:
        from headrace.spark.registering import register

        register(spark)
        return spark.read.format(_FORMAT).options(**texts).load()
    _check(spark)
    return _shards_frame(spark, parsed)


def write_to_kinesis(frame: DataFrame, **options: object) -> None:
    """Append a frame's rows to a stream, and return when all are stored. At least once (see `headrace.spark.sink`).

    Can also be the body of a `foreachBatch`: `foreachBatch(lambda batch, _: write_to_kinesis(batch, **options))`.

    Args:
        frame: has `data`, `partitionKey` and optionally `explicitHashKey`; the source's other columns are ignored.
        options: the sink's options.

    Raises:
        InvalidOption: an option is unknown, missing, or has an invalid value.
        InvalidSchema: the frame lacks the columns of a record.
    """
    texts = _as_text(options)
    sink = _parse_sink(frame, texts)
    if HAS_DATA_SOURCES:
        from headrace.spark.registering import register

        register(frame.sparkSession)
        frame.write.format(_FORMAT).options(**texts).mode("append").save()
        return
    append(frame, sink)


def stream_to_kinesis(frame: DataFrame, **options: object) -> DataStreamWriter:
    """Return the writer of a query that appends a streaming frame's rows to a stream: set a checkpoint, and start it.

    In append or update mode. Arguments and errors are those of `write_to_kinesis`. On Spark 3.5 it is a `foreachBatch`.
    """
    texts = _as_text(options)
    sink = _parse_sink(frame, texts)
    if HAS_DATA_SOURCES:
        from headrace.spark.registering import register

        register(frame.sparkSession)
        return frame.writeStream.format(_FORMAT).options(**texts)

    def write(batch: DataFrame, _: int) -> None:
        append(batch, sink)

    return frame.writeStream.foreachBatch(write)


# --- Spark 3.5 ------------------------------------------------------------------------------------


def _check(spark: SparkSession) -> None:
    """Raise UnsupportedSession when Spark is too old or the session's JVM is not accessible."""
    import pyspark
    from pyspark.sql import SparkSession

    from headrace.spark.callbacks import UnsupportedSession

    if spark_version() < (3, 5):
        raise UnsupportedSession(
            f"The kinesis source needs Spark 3.5 or later; this is {pyspark.__version__}."
        )
    if not isinstance(untyped(spark), SparkSession):
        raise UnsupportedSession(
            "On Spark 3.5 the kinesis source needs a session with a JVM of its own: not Spark Connect."
        )


def _shards_frame(spark: SparkSession, options: Options) -> DataFrame:
    from pyspark.sql import DataFrame

    from headrace.spark.arrow_tasks import ShardReader, read_in_tasks
    from headrace.spark.client import KinesisClient

    client = KinesisClient(options)
    try:
        until_ms = client.now_ms()[1]
        shards = [shard.shard_id for shard in client.shards()]
    finally:
        client.close()
    reader = ShardReader(options, shards, until_ms)
    return DataFrame(read_in_tasks(spark, reader, len(shards)), spark)


def _parse_sink(frame: DataFrame, texts: Mapping[str, str]) -> SinkOptions:
    from headrace.spark.sink import check_schema

    options = parse_sink_options(texts)
    check_schema(frame.schema)
    return options


def append(frame: DataFrame, options: SinkOptions) -> None:
    """Put a frame's rows in Arrow tasks, with only the columns of a record."""
    from headrace.spark.arrow_tasks import write_in_tasks

    columns = [name for name in _WRITTEN_COLUMNS if name in frame.columns]
    tasks = write_in_tasks(frame.select(*columns), options).collect()
    log.info(
        "Wrote %d records to stream %s, %d of them sent again.",
        sum(task.records for task in tasks), options.stream, sum(task.retried for task in tasks),
    )  # fmt: skip


# --- options --------------------------------------------------------------------------------------


def _as_text(options: Mapping[str, object]) -> dict[str, str]:
    """Return options as Spark passes them on; leave out those with the value None."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }
