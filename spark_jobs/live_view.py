"""Keeps the view of the flights up to date in one query that runs on: departures by day and airport, as sums.

    spark-submit --conf spark.sql.shuffle.partitions=2 --py-files s3://.../spark_jobs.zip s3://.../live_view.py
        --stream flights --region us-east-1 --trigger "10 seconds" --metrics Headrace/Spark
        --output s3://bucket/live/ --checkpoint s3://bucket/checkpoints/live/ --quarantine s3://bucket/live-bad/

The job to copy for a stream that never ends; the others drain a stream and end. Start it as a step that is started
again when it fails: it continues from its checkpoint, and a micro-batch that is repeated changes nothing twice.

- **One read.** Readable flights and unreadable records are in the same micro-batch, which is kept while both are
  written: Kinesis is read once. What an unreadable record is, and late flights: `common/events.py`.
- **Tables, not folders a batch.** The view and the quarantine are tables of `common/day_tables.py`: a micro-batch
  writes the days that it changes, and then one small file that makes it the newest. `read_view()` reads the view. Both
  belong to the checkpoint: the job refuses another one's.
- **Metrics.** With `--metrics NAMESPACE` CloudWatch gets, a micro-batch: the lag, rows and rates of the stream, the
  rows in state, those dropped as late, and the counts `events.read` and `events.unreadable`.
- **State.** It has the ids of the flights of the last `--watermark`: a flight that comes twice counts once.

`--trigger available-now` drains the stream and ends, such as to catch up.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.common import events, kinesis, options, views
from spark_jobs.common.day_tables import DayTable

NEEDS_SPARK = "3.5"
NAME = "live_view"
DRAIN = "available-now"
BAD_SCHEMA = "day DATE, reason STRING, data BINARY"


def transform(records: DataFrame, watermark: str) -> DataFrame:
    """Return each flight once, with FLIGHT_SCHEMA's columns, and each unreadable record with its `reason`.

    An unreadable record has no event_time, so the watermark neither follows nor drops it; `data` is its own. The
    observation `events` counts all rows as `read`, and the unreadable ones.
    """
    parsed = events.with_reason(records, events.FLIGHT_SCHEMA, events.FLIGHT_REQUIRED)
    is_bad = F.col("reason").isNotNull()
    arrival = F.col(events.ARRIVAL) if events.ARRIVAL in records.columns else F.current_timestamp()
    rows = (
        parsed.observe(
            events.OBSERVATION,
            F.count(F.lit(1)).alias("read"),
            F.count_if(is_bad).alias("unreadable"),
        )
        .withColumn("arrived", arrival)
        .withColumn("event_time", F.when(~is_bad, F.col("event_time")))
        # Two bad records are never the same one.
        .withColumn("event_id", F.when(is_bad, F.expr("uuid()")).otherwise(F.col("event_id")))
    )
    return events.on_time_once(rows, watermark)


def view_table(spark: SparkSession, folder: str, checkpoint: str | None = None) -> DayTable:
    """Return the table of the view under `folder`; who writes it gives the query's checkpoint."""
    return DayTable(spark, folder, views.VIEW_SCHEMA, views.added, checkpoint)


def read_view(spark: SparkSession, folder: str) -> DataFrame:
    """Return the view under `folder`, the job's output; empty before its first micro-batch."""
    return view_table(spark, folder).read()


def sink(spark: SparkSession, arguments: argparse.Namespace) -> Callable[[DataFrame, int], None]:
    """Return what writes a micro-batch: its unreadable records, then its flights."""
    view = view_table(spark, arguments.output, arguments.checkpoint)
    bad = None
    if arguments.quarantine is not None:
        bad = DayTable(spark, arguments.quarantine, BAD_SCHEMA, checkpoint=arguments.checkpoint)

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.persist()
        try:
            if bad is not None:
                unreadable = rows.where("reason IS NOT NULL")
                bad.add(
                    unreadable.select(F.to_date("arrived").alias("day"), "reason", "data"), batch_id
                )
            # Last: from here on the micro-batch is done.
            view.add(views.view(rows.where("reason IS NULL")), batch_id)
        finally:
            rows.unpersist()

    return write


def start(spark: SparkSession, arguments: argparse.Namespace, records: DataFrame) -> StreamingQuery:
    """Start the query on a source's `records`."""
    trigger = (
        {"availableNow": True}
        if arguments.trigger == DRAIN
        else {"processingTime": arguments.trigger}
    )
    return (
        transform(records, arguments.watermark)
        .writeStream.queryName(NAME)
        .outputMode("append")
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(**trigger)
        .foreachBatch(sink(spark, arguments))
        .start()
    )


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a step's arguments; exits with a sentence for invalid ones."""
    parser = options.parser(NAME, "Keeps a view up to date, in one query that runs on.")
    parser.add_argument(
        "--trigger", default="30 seconds", help=f"between micro-batches, or {DRAIN}"
    )
    parser.add_argument("--metrics", help="CloudWatch's namespace for the query's metrics")
    return options.parse(parser, argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job in a new session until it is stopped, and return the exit status."""
    arguments = parse(sys.argv[1:] if argv is None else argv)
    spark = SparkSession.builder.appName(NAME).getOrCreate()
    try:
        if arguments.metrics:
            from headrace.spark.cloudwatch import publish_progress

            publish_progress(spark, namespace=arguments.metrics, region=arguments.region)
        drains = arguments.trigger == DRAIN
        records = kinesis.source(spark, arguments, arguments.stream, available_now=drains)
        start(spark, arguments, records).awaitTermination()
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
