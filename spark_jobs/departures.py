"""Departures an hour by airport: reads enriched flights from Kinesis until drained, writes Parquet to S3.

    spark-submit --conf spark.sql.shuffle.partitions=2 s3://.../departures.py
        --stream flights-enriched --region us-east-1
        --output s3://bucket/departures/ --checkpoint s3://bucket/checkpoints/departures/

On EMR, the connector that EMR carries is taken with `--source-format aws-kinesis` (and `--jars` its jar); the options
are the same. Each run takes up where the last one stopped. Two tables are under `--output`:

- `updates/batch=N/`: the windows that micro-batch N changed, each as it stood then. Writing replaces the
  folder, so a batch that is done again after a crash leaves what it would have left the first time.
- `windows/`: every window as it stands, made from `updates` at the end of the run: for each window and airport the
  row of the highest batch. It is replaced as a whole; should the job die meanwhile, the next run makes it again.

Why not simply append windows once the watermark has closed them: a run that drains its input and ends would keep
its last windows to itself, since nothing comes to move the watermark past them. Here a window is written as soon
as it has a flight and corrected until it is closed; so the table always accounts for every flight read.

**Lateness.** A flight is dropped if it comes at least *two micro-batches* after flights more than `--watermark`
younger (Spark drops by the watermark that the batch before began with). The shards of a stream drain at their own
pace, and a carrier's flights are all in one shard: cut into many micro-batches, a replayed year is soon weeks further
in one shard than in the other. So a run takes all that is there as one micro-batch, inside which nothing is late, and
waits for Kinesis's allowance of 2 MiB a second and shard. The watermark, two days by default, is for what comes as it
happens; with a small `--max-records-per-shard` or with the connector of EMR give one as wide as the history
(`--watermark "400 days"`): it costs the state of as many windows and event ids. The job prints how many flights it
dropped; nothing is dropped unsaid.

The output belongs to its checkpoint: to begin anew, delete both, or name others.

A flight written twice (see `lambdas/enrich`) is counted once: its `event_id` is remembered as long.
"""

from __future__ import annotations

import argparse
import importlib.util
import operator
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.window import Window

WINDOW = "1 hour"
EVENT_SCHEMA = (
    "event_id STRING, event_time TIMESTAMP, origin STRING, dep_delay INT, cancelled BOOLEAN"
)
REQUIRED = ("event_id", "event_time", "origin", "cancelled")
RESULT_KEY = ("window_start", "origin")
OBSERVATION = "events"


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return the hourly windows of `records`, a Kinesis source's rows with the event in `data` (bytes, JSON).

    Columns: window_start, window_end (timestamps), origin, departures, cancellations (counts),
    mean_delay, p95_delay (minutes; of the flights that departed; null without any). The percentile is exact, with
    linear interpolation between neighbours. Rows that are no flight events are left out; the observation
    `events` counts rows as `read` and these as `unreadable`. Works on a batch too: there the watermark has no effect.
    """
    departed = ~F.col("cancelled")
    delay = F.when(departed, F.col("dep_delay"))
    return (
        events(records)
        .observe(
            OBSERVATION,
            F.count(F.lit(1)).alias("read"),
            F.count_if(~_readable()).alias("unreadable"),
        )
        .where(_readable())
        .withWatermark("event_time", watermark)
        .transform(_once(records.isStreaming))
        .groupBy(F.window("event_time", WINDOW).alias("window"), "origin")
        .agg(
            F.count_if(departed).alias("departures"),
            F.count_if("cancelled").alias("cancellations"),
            F.avg(delay).alias("mean_delay"),
            F.percentile(delay, 0.95).alias("p95_delay"),
        )
        .select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "origin",
            "departures",
            "cancellations",
            "mean_delay",
            "p95_delay",
        )
    )


def events(records: DataFrame) -> DataFrame:
    """Return the events in `records`, one row each; all columns are null where `data` is no event."""
    return records.select(
        F.from_json(F.col("data").cast("string"), EVENT_SCHEMA).alias("event")
    ).select("event.*")


def _readable() -> Column:
    return reduce(operator.and_, (F.col(name).isNotNull() for name in REQUIRED))


def _once(streaming: bool) -> Callable[[DataFrame], DataFrame]:
    if streaming:
        return lambda rows: rows.dropDuplicatesWithinWatermark(["event_id"])
    return lambda rows: rows.dropDuplicates(["event_id"])


def latest(updates: DataFrame) -> DataFrame:
    """Return, of `updates` (windows with the column `batch`), each window's row of the highest batch."""
    newest_first = Window.partitionBy(*RESULT_KEY).orderBy(F.col("batch").desc())
    return (
        updates.withColumn("age", F.row_number().over(newest_first))
        .where("age = 1")
        .drop("age", "batch")
    )


def write_updates(output: str) -> Callable[[DataFrame, int], None]:
    """Return the sink of the query: writes a micro-batch's windows, in place of an earlier attempt's."""

    def write(windows: DataFrame, batch_id: int) -> None:
        windows.coalesce(1).write.mode("overwrite").parquet(f"{output}updates/batch={batch_id}/")

    return write


def publish(spark: SparkSession, output: str) -> None:
    """Make `windows/` from `updates/`; there is nothing to make before the first flight was read."""
    try:
        updates = spark.read.option("basePath", f"{output}updates/").parquet(f"{output}updates/")
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return
    windows = latest(updates).coalesce(1).sortWithinPartitions(*RESULT_KEY)
    windows.write.mode("overwrite").parquet(f"{output}windows/")


def make_known(spark: SparkSession, source_format: str) -> None:
    """Have `spark` know headrace's source where it comes by `--py-files`, as on EMR: Spark does not look there."""
    if source_format == "kinesis" and importlib.util.find_spec("headrace") is not None:
        from headrace.spark.registering import register

        register(spark)


def source(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """Return the stream, read from its oldest record on, or from the checkpoint."""
    options = {
        "kinesis.streamName": arguments.stream,
        "kinesis.region": arguments.region,
        "kinesis.startingposition": "TRIM_HORIZON",
        "kinesis.maxFetchRecordsPerShard": str(arguments.max_records_per_shard),
    }
    if arguments.endpoint_url:
        options["kinesis.endpointUrl"] = arguments.endpoint_url
    make_known(spark, arguments.source_format)
    return spark.readStream.format(arguments.source_format).options(**options).load()


def run(spark: SparkSession, records: DataFrame, arguments: argparse.Namespace) -> dict[str, int]:
    """Run the query until the input is drained, publish, and return what happened, in flights."""
    # Spark would add a micro-batch without input, only to forget old state: the next run does that as well.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", value=False)
    totals = Totals()
    spark.streams.addListener(totals)
    try:
        query = (
            transform(records, arguments.watermark)
            .writeStream.queryName("departures")
            .outputMode("update")
            .option("checkpointLocation", arguments.checkpoint)
            .trigger(availableNow=True)
            .foreachBatch(write_updates(arguments.output))
            .start()
        )
        query.awaitTermination()
        if not totals.ended.wait(60):
            raise TimeoutError("Spark did not report the query's end within 60 s.")
    finally:
        spark.streams.removeListener(totals)
    publish(spark, arguments.output)
    names = ("read", "unreadable", "dropped as late")
    return {name: totals.flights[name] for name in names}


class Totals(StreamingQueryListener):
    """Adds up what the micro-batches report, in flights: the query itself remembers the last hundred only.

    Attributes:
        flights: read, unreadable, dropped as late.
        ended: set when all is counted.
    """

    def __init__(self) -> None:
        self.flights: Counter[str] = Counter()
        self.ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is counted yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Add a micro-batch."""
        observed = event.progress.observedMetrics
        if OBSERVATION in observed:
            self.flights.update(observed[OBSERVATION].asDict())
        for state in event.progress.stateOperators:
            self.flights["dropped as late"] += state.numRowsDroppedByWatermark

    def onQueryIdle(self, event: Any) -> None:
        """A trigger without input counts for nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Spark tells of the end last."""
        self.ended.set()


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the step's arguments; an output or checkpoint without a trailing slash gets one."""
    parser = argparse.ArgumentParser(
        prog="departures.py", description="Departures an hour by airport."
    )
    parser.add_argument("--stream", required=True)
    parser.add_argument("--region", required=True)
    parser.add_argument("--output", required=True, help="s3:// URI of the results")
    parser.add_argument("--checkpoint", required=True, help="s3:// URI of the query's progress")
    parser.add_argument("--endpoint-url", help="of Kinesis; by default AWS's, or the environment's")
    parser.add_argument("--source-format", choices=["kinesis", "aws-kinesis"], default="kinesis")
    parser.add_argument("--watermark", default="2 days", help="how late a flight may come")
    parser.add_argument("--max-records-per-shard", type=int, default=10_000_000)
    arguments = parser.parse_args(argv)
    for name in ("output", "checkpoint"):
        setattr(arguments, name, getattr(arguments, name).rstrip("/") + "/")
    return arguments


def main(argv: list[str]) -> int:
    """Run the job; see the module."""
    arguments = parse_arguments(argv)
    spark = SparkSession.builder.appName("departures").getOrCreate()
    try:
        result = run(spark, source(spark, arguments), arguments)
    finally:
        spark.stop()
    sys.stdout.write(", ".join(f"{name}: {count}" for name, count in result.items()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
