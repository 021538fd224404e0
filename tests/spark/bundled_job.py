"""The beginning of a job that is written for the connector that EMR bundles; it names nothing of headrace."""

READS = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
source, target, checkpoint = sys.argv[1:]
def options(name):
    return {
        "kinesis.streamName": name, "kinesis.region": "us-east-1",
        "kinesis.endpointUrl": "https://kinesis.us-east-1.amazonaws.com",
    }
rows = (
    spark.readStream.format("aws-kinesis").options(**options(source))
    .option("kinesis.startingPosition", "TRIM_HORIZON").load()
)
assert rows.columns == ["data", "streamName", "partitionKey", "sequenceNumber", "approximateArrivalTimestamp"]
"""
