"""Copies a stream to Parquet on any Spark. Names no endpoint, no credentials, and nothing of this machine.

Arguments: the stream, the folder of the output and the checkpoint, and `drain` or `follow`.
"""

import sys
from typing import Any

from pyspark.sql import SparkSession

from headrace.spark.streams import kinesis_stream

stream, folder, mode = sys.argv[1:]
trigger = {"availableNow": True} if mode == "drain" else {"processingTime": "200 milliseconds"}
spark = SparkSession.builder.appName("copy").getOrCreate()
options: "dict[str, Any]" = {
    "kinesis.streamName": stream,
    "kinesis.startingPosition": "TRIM_HORIZON",
    "kinesis.maxRecordsPerTrigger": 400,
}
query = (
    kinesis_stream(spark, available_now=mode == "drain", **options)
    .writeStream.format("parquet")
    .option("checkpointLocation", f"{folder}checkpoint/")
    .trigger(**trigger)
    .start(f"{folder}rows/")
)
query.awaitTermination()
