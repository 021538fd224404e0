"""Opens a Kinesis stream as a streaming DataFrame: headrace's source, or the connector that EMR carries."""

from __future__ import annotations

import argparse
import importlib.util

from pyspark.sql import DataFrame, SparkSession


def make_known(spark: SparkSession, source_format: str) -> None:
    """Register headrace's source when it comes by `--py-files`, as on EMR: Spark does not look for sources there."""
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
