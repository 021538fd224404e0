"""Copies a stream to Parquet. Names no endpoint, no credentials, and nothing of this machine.

Arguments: the stream, the folder of the output and the checkpoint, and `drain` or `follow`.
"""

import sys

from pyspark.sql import SparkSession

stream, folder, mode = sys.argv[1:]
trigger = {"availableNow": True} if mode == "drain" else {"processingTime": "200 milliseconds"}
spark = SparkSession.builder.appName("copy").getOrCreate()
query = (
    spark.readStream.format("kinesis")
    .option("kinesis.streamName", stream)
    .option("kinesis.startingposition", "TRIM_HORIZON")
    .option("kinesis.maxRecordsPerTrigger", "400")
    .load()
    .writeStream.format("parquet")
    .option("checkpointLocation", f"{folder}checkpoint/")
    .trigger(**trigger)
    .start(f"{folder}rows/")
)
query.awaitTermination()
