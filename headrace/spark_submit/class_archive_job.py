"""A job that loads the classes that most jobs load: SQL, files, a Python function, a streaming query with state."""

# Runs in each Spark's own Python, also 3.9.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

WORK = Path(sys.argv[1])

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.port", "0")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", str(WORK / "warehouse"))
    .getOrCreate()
)
rows = spark.createDataFrame([(i, str(i)) for i in range(20)], "number int, text string")
rows.write.partitionBy("number").parquet(str(WORK / "rows"))
rows.write.json(str(WORK / "lines"))
lines = spark.read.schema(rows.schema).json(str(WORK / "lines"))
joined = spark.read.parquet(str(WORK / "rows")).join(lines, "number")
joined.groupBy(F.col("number") % 3).agg(F.count("*"), F.max(lines.text)).collect()
rows.select(F.udf(lambda text: text * 2)("text")).collect()

stream = spark.readStream.schema(rows.schema).json(str(WORK / "lines"))
timed = stream.withColumn("at", F.timestamp_seconds("number")).withWatermark("at", "1 second")
counts = timed.groupBy(F.window("at", "5 seconds")).count()


def show(frame, number):  # pyrefly: ignore[implicit-any-parameter, unannotated-return]
    """Have a batch collected."""
    frame.collect()


query = (
    counts.writeStream.foreachBatch(show)
    .outputMode("update")
    .option("checkpointLocation", str(WORK / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
spark.stop()
