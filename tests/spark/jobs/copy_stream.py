"""Copies a stream to Parquet. Names no endpoint, no credentials, and nothing of this machine.

Arguments: the stream, the folder of the output and the checkpoint, and `drain` or `follow`.
"""

import sys

from pyspark.sql import SparkSession

stream, folder, mode = sys.argv[1:]
trigger = {"availableNow": True} if mode == "drain" else {"processingTime": "200 milliseconds"}
spark = SparkSession.builder.appName("copy").getOrCreate()
writer = (
    spark.readStream.format("kinesis")
    .option("kinesis.streamName", stream)
    .option("kinesis.startingposition", "TRIM_HORIZON")
    .option("kinesis.maxRecordsPerTrigger", "400")
    .option("kinesis.availableNow", str(mode == "drain"))
    .load()
    .writeStream.format("parquet")
    .option("checkpointLocation", f"{folder}checkpoint/")
    .trigger(**trigger)
)
# On Spark 4.0 and 4.1 a run that begins with a batch that was interrupted has no other.
for _ in range(2 if mode == "drain" else 1):
    writer.start(f"{folder}rows/").awaitTermination()
