"""What the jobs on the flights share: their arguments, the events and what is none, the sinks, the run.

A job is submitted with this folder as a package:

    (cd <repository> && zip -q spark_jobs.zip spark_jobs/*.py)
    spark-submit --py-files s3://bucket/spark_jobs.zip s3://bucket/rolling_delays.py \
        --stream flights-enriched --region us-east-1 --output s3://... --checkpoint s3://... [--quarantine s3://...]

**Input.** A record's `data` is a JSON object. What is not, lacks a required field, or has a value of another type is
*unreadable*: it is counted and, with `--quarantine`, written there with the reason by a query of its own. When
the producers' schema drifts:

- passed over: a field that no job knows;
- null: a field that is missing, and that the job can do without;
- as its text (`7` is `"7"`): a number, a truth value or an object where a text was;
- quarantined as `missing: carrier`: an event without a field that the job requires, or with null there;
- quarantined as `a value of another type`: an event with a text or a fraction where a whole number was, a number that
  does not fit, a text for a truth value, no time for a time; even where null would do: wrong is worse than none;
- quarantined as `a time ahead of its record's`: an event of more than a day after its record came to the stream, such
  as one in milliseconds where seconds are expected: the watermark would follow it, and drop all others.

**Lateness.** Every streaming job first drops what comes too late and what comes twice, by one rule: an event is dropped
if its time is not after the watermark that the micro-batch *before* began with; that is the greatest event time of the
micro-batches before that one, less `--watermark` (of two streams: the lesser of theirs). The job prints how many. A
run takes what is there as one micro-batch, up to `--max-records-per-shard`, and inside it nothing is late; cut into
smaller ones, shards drain at their own pace: give a watermark as wide as the history then.

**Output.** Whatever micro-batch N gives is a folder `batch=N` that writing replaces, so a batch that is done
again after a crash leaves what it would have left the first time. The output belongs to its checkpoint. Some jobs write
to a stream as well: see `spark_jobs/outputs.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import operator
import sys
from collections.abc import Callable
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.window import Window

from spark_jobs.totals import LATE, Totals

FLIGHT_SCHEMA = (
    "event_id STRING, event_time TIMESTAMP, carrier STRING, flight INT, tailnum STRING, "
    "origin STRING, dest STRING, dep_delay INT, arr_delay INT, distance INT, cancelled BOOLEAN"
)
FLIGHT_REQUIRED = ("event_id", "event_time", "carrier", "origin", "dest", "cancelled")
OBSERVATION = "events"
# Where from_json leaves the text of a record that is not as the schema says, and null for one that is.
_MALFORMED = "_malformed"
# Whether an event's time lies ahead of the time at which its record came to the stream; false where that is not known.
_AHEAD = "_ahead"
ARRIVAL = "approximateArrivalTimestamp"
MOST_AHEAD = "INTERVAL 1 DAY"

Sink = Callable[[DataFrame, int], None]


# --- events -----------------------------------------------------------------------------------


def parsed(records: DataFrame, schema: str) -> DataFrame:
    """Return `records` with the columns of `schema` (one is event_time) read from `data`, `_malformed` and `_ahead`."""
    event = F.from_json(
        F.col("data").cast("string"),
        f"{schema}, {_MALFORMED} STRING",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _MALFORMED},
    )
    rows = records.select("*", event.alias("event")).select(*records.columns, "event.*")
    ahead = F.lit(False)
    if ARRIVAL in records.columns:
        ahead = F.coalesce(F.col("event_time") > F.col(ARRIVAL) + F.expr(MOST_AHEAD), ahead)
    return rows.withColumn(_AHEAD, ahead)


def readable(required: tuple[str, ...]) -> Column:
    """Return whether a parsed row is an event: JSON, of the schema's types, with the `required` fields, of its time."""
    present = [F.col(name).isNotNull() for name in required]
    return reduce(operator.and_, present) & F.col(_MALFORMED).isNull() & ~F.col(_AHEAD)


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
        .drop(*records.columns, _MALFORMED, _AHEAD)
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
        .when(F.col(_AHEAD), F.lit("a time ahead of its record's"))
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


def make_known(spark: SparkSession, source_format: str) -> None:
    """Have `spark` know headrace's source where it comes by `--py-files`, as on EMR: Spark does not look there."""
    if source_format == "kinesis" and importlib.util.find_spec("headrace") is not None:
        from headrace.spark.registering import register

        register(spark)


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
    make_known(spark, arguments.source_format)
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


def drain(
    spark: SparkSession, rows: DataFrame, name: str, mode: str, checkpoint: str, sink: Sink
) -> tuple[Totals, str]:
    """Run a query until its input is drained; return what all its micro-batches counted, and its run's id."""
    totals = Totals()
    spark.streams.addListener(totals)
    try:
        query = start(spark, rows, name, mode, checkpoint, sink)
        query.awaitTermination()
        totals.wait(str(query.runId))
    finally:
        spark.streams.removeListener(totals)
    return totals, str(query.runId)


def run_query(
    spark: SparkSession,
    rows: DataFrame,
    name: str,
    mode: str,
    arguments: argparse.Namespace,
    sink: Sink,
    observations: tuple[str, ...] = (OBSERVATION,),
) -> dict[str, int]:
    """Run a job's query until its input is drained, and return what its micro-batches add up to, in events."""
    totals, run = drain(spark, rows, name, mode, arguments.checkpoint, sink)
    read, unreadable = (
        sum(totals.of(run, observation, what) for observation in observations)
        for what in ("read", "unreadable")
    )
    return {"read": read, "unreadable": unreadable, LATE: totals.late(run)}


def quarantine(
    spark: SparkSession,
    records: DataFrame,
    arguments: argparse.Namespace,
    schema: str = FLIGHT_SCHEMA,
    required: tuple[str, ...] = FLIGHT_REQUIRED,
    part: str = "",
) -> dict[str, int]:
    """Write what is no event in `records` under `--quarantine`, and return how many this run; {} when not asked to.

    A job of several streams gives each a `part` of the folder, such as `weather`.
    """
    if arguments.quarantine is None:
        return {}
    rows = unreadable(records, schema, required).observe(
        "quarantine", F.count(F.lit(1)).alias("rows")
    )
    folder = f"{part}/" if part else ""
    totals, run = drain(
        spark,
        rows,
        "quarantine",
        "append",
        f"{arguments.checkpoint}quarantine/{folder}",
        batches_into(f"{arguments.quarantine}{folder}"),
    )
    return {f"quarantined {part}".rstrip(): totals.of(run, "quarantine", "rows")}


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Return a parser of the arguments that every job takes."""
    result = argparse.ArgumentParser(prog=f"{name}.py", description=description)
    result.add_argument("--stream", required=True)
    result.add_argument("--region", required=True)
    result.add_argument("--output", required=True, help="s3:// URI of the results; see the job")
    result.add_argument("--checkpoint", required=True, help="s3:// URI of the query's progress")
    result.add_argument("--quarantine", help="s3:// URI for records that are no events")
    result.add_argument("--endpoint-url", help="of Kinesis; by default AWS's, or the environment's")
    result.add_argument("--source-format", choices=["kinesis", "aws-kinesis"], default="kinesis")
    result.add_argument("--watermark", default="2 days", help="how late an event may come")
    result.add_argument("--max-records-per-shard", type=int, default=10_000_000)
    return result


def parse(
    the_parser: argparse.ArgumentParser, argv: list[str], *, to_stream: bool = False
) -> argparse.Namespace:
    """Parse a step's arguments; a folder without a trailing slash gets one. `to_stream`: output may be a stream."""
    arguments = the_parser.parse_args(argv)
    for name in ("output", "checkpoint", "quarantine"):
        folder = getattr(arguments, name)
        if folder is not None:
            setattr(arguments, name, folder.rstrip("/") + "/")
    if arguments.output.startswith("kinesis:") and not to_stream:
        the_parser.error("the job's output is a table, which needs a folder, not kinesis://")
    if arguments.output in ("kinesis://", "kinesis:/"):
        the_parser.error("--output kinesis:// lacks the stream's name")
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
