"""The jobs' shared code: reads events, writes results, runs a query, parses options.

The jobs are the files beside this folder; each is a script, and its `NEEDS_SPARK` names the Spark version that it
needs. To submit one, send all of them as a package, with headrace's source and the packages of `requirements/`; the CDK
app does this (its output SubmitOptions). By hand:

    cd <repository>; zip -qr spark_jobs.zip spark_jobs -i '*.py'; python -m headrace.spark.package headrace_spark.zip
    spark-submit --py-files s3://bucket/spark_jobs.zip,s3://bucket/headrace_spark.zip s3://bucket/rolling_delays.py \
        --stream flights-enriched --region us-east-1 --output s3://... --checkpoint s3://... [--quarantine s3://...]

- `events.py`: reads events from records; handles unreadable, late and repeated ones.
- `kinesis.py`: the streams that jobs read and write. `options.py`: the jobs' command-line options.
- `batches.py`: results as Parquet folders. `outputs.py`: results as such folders or as events in a stream.
- `job.py`: a job as a value, which runs itself. `queries.py`: runs a query. `totals.py`: adds up a query's counts over
  all its micro-batches.
- `views.py`: the views of the batch, the speed and the serving layer. `heavy.py`, `quantiles.py`: frequent names and
  quantiles in bounded memory. `files.py`: small files by Hadoop's file system.
"""
