"""Copies a stream to Parquet files, read by the executors: STREAM FOLDER follow|drain [option=value ...]."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from headrace.spark.streams import kinesis_stream

stream, folder, mode, *more = sys.argv[1:]
options = {
    "kinesis.streamName": stream,
    "kinesis.startingPosition": "TRIM_HORIZON",
    "kinesis.metadataPath": f"{folder}/metadata",
    "kinesis.maxTasks": "4",
    **dict(one.split("=", 1) for one in more),
}
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("WARN")
frame = kinesis_stream(spark, available_now=mode == "drain", **options)
writer = (
    frame.selectExpr("cast(data as string) as data", "partitionKey", "shardId", "sequenceNumber")
    .writeStream.format("parquet")
    .option("path", f"{folder}/rows")
    .option("checkpointLocation", f"{folder}/checkpoint")
)
trigger = {"availableNow": True} if mode == "drain" else {"processingTime": "100 milliseconds"}
query = writer.trigger(**trigger).start()
query.awaitTermination()
