"""Keeps the view of the flights up to date in one query that runs on: departures by day and airport, as sums.

    spark-submit --conf spark.sql.shuffle.partitions=2 --py-files s3://.../spark_jobs.zip s3://.../live_view.py
        --stream flights --region us-east-1 --trigger "10 seconds" --metrics Headrace/Spark
        --output s3://bucket/live/ --checkpoint s3://bucket/checkpoints/live/ --quarantine s3://bucket/live-bad/

It is the speed layer's view (`speed_view.py`) of all flights, and the other jobs run on in the same way; see
`common/job.py` for the trigger and the metrics, `common/day_tables.py` for its table, and `common/events.py` for what
an unreadable record is. Start it as a step that is started again when it fails: it continues from its checkpoint, and a
micro-batch that is repeated changes nothing twice.

Its state has the ids of the flights of the last `--watermark`: a flight that comes twice counts once.
`--trigger available-now` drains the stream and ends, such as to catch up.
"""

from __future__ import annotations

import sys

from spark_jobs import speed_view
from spark_jobs.common.job import Job

NEEDS_SPARK = "3.5"
JOB = Job(
    "live_view",
    "Keeps a view up to date, in one query that runs on.",
    sink=speed_view.write_view,
    trigger="30 seconds",
)


if __name__ == "__main__":
    sys.exit(JOB.main())
