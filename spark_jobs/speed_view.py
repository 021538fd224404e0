"""The speed layer: updates the view of the flights after a cut from a stream; see `spark_jobs/common/views.py`.

Under `--output`: `deltas/batch=N/`, micro-batch N's additions; the view is their sum, `read_view()`. Without `--since`
all flights count, which makes a Kappa architecture: `replay.py`. `common/events.py` defines late flights; the cut does
not make a flight late.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.common import batches, options, views
from spark_jobs.common.job import Job

NEEDS_SPARK = "3.5"


def transform(flights: DataFrame, since: str | None) -> DataFrame:
    """Return the view of `flights` (events.flights' columns, each once) from the cut `since` on; of all with None."""
    return views.view(flights if since is None else flights.where(~views.before(since)))


def read_view(spark: SparkSession, folder: str) -> DataFrame:
    """Return the view under `folder`, the speed layer's output; empty before its first micro-batch."""
    deltas = batches.read(spark, f"{folder}deltas/")
    return spark.createDataFrame([], views.VIEW_SCHEMA) if deltas is None else views.added(deltas)


def write_view(arguments: argparse.Namespace, since: str | None) -> batches.Sink:
    """Return what writes a micro-batch's additions to the view."""
    write = batches.into(f"{arguments.output}deltas/")
    return lambda flights, batch_id: write(transform(flights, since), batch_id)


JOB = Job(
    "speed_view",
    "The speed layer's view.",
    sink=lambda _, arguments: write_view(arguments, arguments.since),
    options={
        "--since": {
            "type": options.moment,
            "help": "the cut, an ISO time; by default all flights count",
        }
    },
)


if __name__ == "__main__":
    sys.exit(JOB.main())
