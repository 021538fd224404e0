"""A Kinesis source for Spark Structured Streaming, on PySpark 4.3's Python data sources; no jar.

`spark.readStream.format("kinesis")` in a job. It needs pyspark, pyarrow and boto3 and nothing else of headrace, so
that it runs on EMR as one zip (`headrace.spark.package`). Which file does what:

- `source`: the data source and its two readers, as Spark calls them;
- `options`: the options, in the spelling of the connector that EMR bundles;
- `offsets`, `planning`: where a query stands, and what a micro-batch takes: pure functions;
- `planner`: plans micro-batches in the driver, reading every shard once;
- `spool`: what the planner has read and Spark has not yet: Arrow files;
- `reading`: a task's part: from the spool, or again from Kinesis, exactly the same records;
- `client`, `pages`: the four calls to Kinesis, and GetRecords as Arrow.
"""
