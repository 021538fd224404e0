"""What the jobs on the flights share: their arguments, the events and what is none, the sinks, the run.

A job is submitted with this folder as a package:

    (cd <repository> && zip -q spark_jobs.zip spark_jobs/*.py)
    spark-submit --py-files s3://bucket/spark_jobs.zip s3://bucket/rolling_delays.py \
        --stream flights-enriched --region us-east-1 --output s3://... --checkpoint s3://... [--quarantine s3://...]

**Input.** A record's `data` is a JSON object. Fields that no job knows are passed over; a missing or null field that a
job can do without is null. What is not JSON, lacks a required field, or has a value of another type in a known field
is *unreadable*: it is counted and, with `--quarantine`, written there with the reason by a query of its own.

**Lateness.** Every streaming job first drops what comes too late and what comes twice, by one rule: an event is dropped
if its time is not after the watermark that the micro-batch *before* began with; that is the greatest event time of the
micro-batches before that one, less `--watermark` (of two streams: the lesser of theirs). The job prints how many.

**Output.** Whatever micro-batch N gives is a folder `batch=N` that writing replaces, so a batch that is done
again after a crash leaves what it would have left the first time. The output belongs to its checkpoint.
"""

from __future__ import annotations

import argparse
import operator
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.window import Window

FLIGHT_SCHEMA = (
    "event_id STRING, event_time TIMESTAMP, carrier STRING, flight INT, tailnum STRING, "
    "origin STRING, dest STRING, dep_delay INT, arr_delay INT, distance INT, cancelled BOOLEAN"
)
FLIGHT_REQUIRED = ("event_id", "event_time", "carrier", "origin", "dest", "cancelled")
OBSERVATION = "events"
# Where from_json leaves the text of a record that is not as the schema says, and null for one that is.
_MALFORMED = "_malformed"

Sink = Callable[[DataFrame, int], None]


# --- events -----------------------------------------------------------------------------------


def parsed(records: DataFrame, schema: str) -> DataFrame:
    """Return `records` with the columns of `schema` read from `data`, and `_malformed`."""
    event = F.from_json(
        F.col("data").cast("string"),
        f"{schema}, {_MALFORMED} STRING",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _MALFORMED},
    )
    return records.select("*", event.alias("event")).select(*records.columns, "event.*")


def readable(required: tuple[str, ...]) -> Column:
    """Return whether a parsed row is an event: JSON, of the schema's types, with the `required` fields."""
    present = [F.col(name).isNotNull() for name in required]
    return reduce(operator.and_, present) & F.col(_MALFORMED).isNull()


def flights(records: DataFrame) -> DataFrame:
    """Return the flights in `records`, with FLIGHT_SCHEMA's columns; see `events`."""
    return events(records, FLIGHT_SCHEMA, FLIGHT_REQUIRED, OBSERVATION)


def events(
    records: DataFrame, schema: str, required: tuple[str, ...], observation: str
) -> DataFrame:
    """Return the readable events in `records`; `observation` counts rows as `read` and the others as `unreadable`."""
    rows = parsed(records, schema)
    return (
        rows.observe(
            observation,
            F.count(F.lit(1)).alias("read"),
            F.count_if(~readable(required)).alias("unreadable"),
        )
        .where(readable(required))
        .drop(*records.columns, _MALFORMED)
    )


def unreadable(records: DataFrame, schema: str, required: tuple[str, ...]) -> DataFrame:
    """Return the records that are no events: `reason`, and the source's columns with `data` untouched."""
    missing = F.array_compact(
        F.array(*(F.when(F.col(name).isNull(), F.lit(name)) for name in required))
    )
    text = F.col("data").cast("string")
    # from_json takes an empty text for no record at all: neither an object nor malformed.
    nothing = F.col("data").isNull() | (F.trim(text) == "")
    is_object = F.is_valid_utf8(F.col("data")) & F.startswith(F.ltrim(text), F.lit("{"))
    json = F.try_parse_json(text).isNotNull() & is_object
    reason = (
        F.when(nothing, F.lit("empty"))
        .when(~json, F.lit("no JSON object"))
        .when(F.col(_MALFORMED).isNotNull(), F.lit("a value of another type"))
        .otherwise(F.concat(F.lit("missing: "), F.concat_ws(", ", missing)))
    )
    return (
        parsed(records, schema)
        .where(~readable(required))
        .select(reason.alias("reason"), *records.columns)
    )


def on_time_once(
    rows: DataFrame, watermark: str, key: tuple[str, ...] = ("event_id",)
) -> DataFrame:
    """Return `rows` without those later than `watermark` and without repetitions; a batch has no late rows."""
    if rows.isStreaming:
        return rows.withWatermark("event_time", watermark).dropDuplicatesWithinWatermark(list(key))
    return rows.dropDuplicates(list(key))


# --- sources and sinks ------------------------------------------------------------------------


def source(spark: SparkSession, arguments: argparse.Namespace, stream: str) -> DataFrame:
    """Return `stream`, read from its oldest record on, or from the checkpoint."""
    options = {
        "kinesis.streamName": stream,
        "kinesis.region": arguments.region,
        "kinesis.startingposition": "TRIM_HORIZON",
        "kinesis.maxFetchRecordsPerShard": str(arguments.max_records_per_shard),
    }
    if arguments.endpoint_url:
        options["kinesis.endpointUrl"] = arguments.endpoint_url
    return spark.readStream.format(arguments.source_format).options(**options).load()


def batches_into(folder: str) -> Sink:
    """Return a sink that writes micro-batch N to `folder` `batch=N/`, in place of an earlier attempt's."""

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.coalesce(1).write.mode("overwrite").parquet(f"{folder}batch={batch_id}/")

    return write


def read_batches(spark: SparkSession, folder: str) -> DataFrame | None:
    """Return what `batches_into(folder)` wrote, with the column `batch`; None when it wrote nothing yet."""
    try:
        return spark.read.option("basePath", folder).parquet(folder)
    except AnalysisException as error:
        if error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            raise
        return None


def latest(updates: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Return, of `updates` (rows with the column `batch`), each key's row of the highest batch."""
    newest_first = Window.partitionBy(*key).orderBy(F.col("batch").desc())
    return (
        updates.withColumn("_age", F.row_number().over(newest_first))
        .where("_age = 1")
        .drop("_age", "batch")
    )


def publish(spark: SparkSession, updates: str, table: str, key: tuple[str, ...]) -> None:
    """Make the Parquet `table` of each key's latest row from the folder `updates`, if there is any."""
    rows = read_batches(spark, updates)
    if rows is not None:
        latest(rows, key).coalesce(1).sortWithinPartitions(*key).write.mode("overwrite").parquet(
            table
        )


# --- the run ----------------------------------------------------------------------------------


def start(
    spark: SparkSession, rows: DataFrame, name: str, mode: str, checkpoint: str, sink: Sink
) -> StreamingQuery:
    """Start a query that ends when its input is drained."""
    # Spark would add a micro-batch without input, only to move state on: the next run does that as well.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", value=False)
    return (
        rows.writeStream.queryName(name)
        .outputMode(mode)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )


def quarantine(
    spark: SparkSession,
    records: DataFrame,
    arguments: argparse.Namespace,
    schema: str = FLIGHT_SCHEMA,
    required: tuple[str, ...] = FLIGHT_REQUIRED,
) -> int | None:
    """Write what is no event in `records` under `--quarantine`; return how many this run; None when not asked to."""
    if arguments.quarantine is None:
        return None
    rows = unreadable(records, schema, required).observe(
        "quarantine", F.count(F.lit(1)).alias("rows")
    )
    folder = arguments.quarantine
    query = start(
        spark,
        rows,
        "quarantine",
        "append",
        f"{arguments.checkpoint}quarantine/",
        batches_into(folder),
    )
    query.awaitTermination()
    return sum(
        batch["observedMetrics"]["quarantine"]["rows"]
        for batch in query.recentProgress
        if "quarantine" in batch["observedMetrics"]
    )


def summary(progress: list[Any], observations: tuple[str, ...] = (OBSERVATION,)) -> dict[str, int]:
    """Add up what the micro-batches report, in events."""
    observed = [
        batch["observedMetrics"][name]
        for batch in progress
        for name in observations
        if name in batch["observedMetrics"]
    ]
    return {
        "read": sum(row["read"] for row in observed),
        "unreadable": sum(row["unreadable"] for row in observed),
        "dropped as late": sum(
            state["numRowsDroppedByWatermark"]
            for batch in progress
            for state in batch["stateOperators"]
        ),
    }


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Return a parser of the arguments that every job takes."""
    result = argparse.ArgumentParser(prog=f"{name}.py", description=description)
    result.add_argument("--stream", required=True)
    result.add_argument("--region", required=True)
    result.add_argument("--output", required=True, help="s3:// URI of the results")
    result.add_argument("--checkpoint", required=True, help="s3:// URI of the query's progress")
    result.add_argument("--quarantine", help="s3:// URI for records that are no events")
    result.add_argument("--endpoint-url", help="of Kinesis; by default AWS's, or the environment's")
    result.add_argument("--source-format", choices=["kinesis", "aws-kinesis"], default="kinesis")
    result.add_argument("--watermark", default="2 days", help="how late an event may come")
    result.add_argument("--max-records-per-shard", type=int, default=10_000_000)
    return result


def parse(the_parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Parse a step's arguments; a folder without a trailing slash gets one."""
    arguments = the_parser.parse_args(argv)
    for name in ("output", "checkpoint", "quarantine"):
        folder = getattr(arguments, name)
        if folder is not None:
            setattr(arguments, name, folder.rstrip("/") + "/")
    return arguments


def run_job(name: str, job: Callable[[SparkSession], dict[str, int]]) -> int:
    """Run `job` in a session of its own, print what it counted, and return the exit status."""
    spark = SparkSession.builder.appName(name).getOrCreate()
    try:
        result = job(spark)
    finally:
        spark.stop()
    sys.stdout.write(", ".join(f"{what}: {count}" for what, count in result.items()) + "\n")
    return 0


def with_quarantine(result: dict[str, int], quarantined: int | None) -> dict[str, int]:
    """Return `result` with the count of `quarantine`, if there is one."""
    return result if quarantined is None else {**result, "quarantined": quarantined}
