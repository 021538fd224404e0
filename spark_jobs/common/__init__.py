"""What the jobs share: how they read events, write results, run a query and take their options.

The jobs are the files beside this folder, each a script of its own, which says which Spark it needs: `NEEDS_SPARK`. To
submit one, send all of them along as a package, with headrace's source and the packages of `requirements/`; the CDK app
does (its output SubmitOptions). By hand:

    cd <repository>; zip -qr spark_jobs.zip spark_jobs -i '*.py'; python -m headrace.spark.package headrace_spark.zip
    spark-submit --py-files s3://bucket/spark_jobs.zip,s3://bucket/headrace_spark.zip s3://bucket/rolling_delays.py \
        --stream flights-enriched --region us-east-1 --output s3://... --checkpoint s3://... [--quarantine s3://...]

- `events.py`: which records are events; what happens to unreadable, late and repeated ones.
- `kinesis.py`: the streams that jobs read and write. `options.py`: the options that jobs take.
- `batches.py`: results as Parquet folders. `outputs.py`: results as such folders or as events in a stream.
- `queries.py`: the run of a query and of a job. `totals.py`: what a query counts over all its micro-batches.
- `views.py`: the views of the batch, the speed and the serving layer. `heavy.py`, `quantiles.py`: frequent names and
  quantiles in bounded room.
"""
