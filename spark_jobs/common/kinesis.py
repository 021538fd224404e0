"""Opens Kinesis streams for jobs, with headrace's source and sink or with EMR's bundled connector."""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.common.options import DRAIN


def source(
    spark: SparkSession,
    arguments: argparse.Namespace,
    stream: str,
) -> DataFrame:
    """Return a frame of `stream` from its oldest record, or from the checkpoint; `--trigger` says how far it goes."""
    options = {
        **_place(arguments, stream),
        "kinesis.startingposition": "TRIM_HORIZON",
        "kinesis.maxFetchRecordsPerShard": str(arguments.max_records_per_shard),
    }
    if arguments.source_format != "kinesis":
        return spark.readStream.format(arguments.source_format).options(**options).load()
    from headrace.spark.streams import kinesis_stream

    drains = arguments.trigger == DRAIN
    return kinesis_stream(spark, available_now=drains, **options)


def write(records: DataFrame, arguments: argparse.Namespace, stream: str) -> None:
    """Append `records`, rows with data and partitionKey, to `stream`; return when all are stored."""
    options = _place(arguments, stream)
    if arguments.source_format != "kinesis":
        records.write.format(arguments.source_format).options(**options).mode("append").save()
        return
    from headrace.spark.streams import write_to_kinesis

    write_to_kinesis(records, **options)


def _place(arguments: argparse.Namespace, stream: str) -> dict[str, str]:
    options = {"kinesis.streamName": stream, "kinesis.region": arguments.region}
    if arguments.endpoint_url:
        options["kinesis.endpointUrl"] = arguments.endpoint_url
    return options
