"""A Kinesis source and sink for Spark Structured Streaming, on the Python data sources of Spark 4; no jar.

`spark.readStream.format("kinesis")` and `df.writeStream.format("kinesis")` in a job. They need pyspark,
pyarrow and boto3 and nothing else of headrace, so that they run on EMR as one zip
(`headrace.spark.package`). Which file does what:

- `source`: the data source and its readers, as Spark calls them;
- `versions`: what the running Spark can do, and what stands in for the rest;
- `options`: the options, in the spelling of the connector that EMR bundles;
- `offsets`, `spans`: where a query stands, and what a micro-batch takes: pure functions;
- `planner`: plans micro-batches in the driver, reading every shard once;
- `spool`: files with what the planner has read and Spark has not yet;
- `reading`: a task's part: from the spool, or again from Kinesis, exactly the same records;
- `client`, `get_records`, `pace`: the calls to Kinesis, GetRecords' answers as Arrow, and how often it may be called;
- `kpl`: user records out of aggregated ones;
- `sink`, `puts`: the writers, and how their records are sent;
- `streams`: functions in the place of the format, for jobs that run on Spark 3.5 too;
- `callbacks`, `arrow_tasks`: the source on Spark 3.5, called by the JVM, and what its tasks do;
- `autoload/`: what Spark finds by itself on its path; `connector/`, `connector35/`: the same for the bundled connector;
- `bundled`: what `format("aws-kinesis")` takes, for local steps;
- `registering`: makes the format known where Spark has not found it;
- `progress`: lag and rates out of a query's progress.
"""
