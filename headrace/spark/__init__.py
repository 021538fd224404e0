"""A Kinesis source and sink for Spark Structured Streaming, on the Python data sources of Spark 4; no jar.

Jobs use `spark.readStream.format("kinesis")` and `df.writeStream.format("kinesis")`. This package needs pyspark,
pyarrow and boto3 and no other package of headrace, so that it runs on EMR as one zip (`headrace.spark.package`). The
modules:

- `source`: the data source and its readers, as Spark calls them;
- `versions`: the features of the running Spark, and replacements for missing ones;
- `options`: the options, with the names of the connector that EMR bundles;
- `offsets`, `spans`: a query's offset, and the records of a micro-batch: pure functions;
- `planning`: the planning of a run in either mode;
- `planner`: plans micro-batches in the driver, reading every shard once (driver mode);
- `plans`, `plan_maker`, `task_reading`: plans that executors carry out by themselves (distributed mode);
- `metadata`, `connections`, `signing`: the files that they share with the driver: in a folder, S3 or HDFS;
- `retention`: whether records can have expired unread;
- `spool`: files with records that the planner has read and Spark has not yet;
- `reading`: reads a task's records from the spool, or exactly the same ones again from Kinesis;
- `client`, `get_records`, `pace`: the calls to Kinesis, GetRecords' answers as Arrow, and GetRecords' rate limits;
- `arrays`: Arrow arrays without the import of pandas;
- `kpl`: deaggregates user records;
- `sink`, `puts`: the writers, and the sending of their records;
- `streams`: functions instead of the format, for jobs that also run on Spark 3.5;
- `callbacks`, `arrow_tasks`: the source on Spark 3.5, which the JVM calls, and its tasks;
- `autoload/`: the module that Spark loads by itself; `connector/`, `connector35/`: the same for the bundled connector;
- `bundled`: the options of `format("aws-kinesis")`, for local steps;
- `registering`: registers the format if Spark has not found it;
- `progress`: lag and rates from a query's progress.
"""
