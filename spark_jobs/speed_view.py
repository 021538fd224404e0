"""The speed layer: updates the view of the flights after a cut from a stream; see `spark_jobs/common/views.py`.

Under `--output` is the view, a table of `common/day_tables.py`: `read_view()` reads it. Without `--since`
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
    return views.table_of(spark, folder).read()


def write_view(
    spark: SparkSession, arguments: argparse.Namespace, since: str | None = None
) -> batches.Sink:
    """Return what adds a micro-batch's flights to the view."""
    view = views.table_of(spark, arguments.output, arguments.checkpoint)
    return lambda flights, batch_id: view.add(transform(flights, since), batch_id)


JOB = Job(
    "speed_view",
    "The speed layer's view.",
    sink=lambda spark, arguments: write_view(spark, arguments, arguments.since),
    options={
        "--since": {
            "type": options.moment,
            "help": "the cut, an ISO time; by default all flights count",
        }
    },
)


if __name__ == "__main__":
    sys.exit(JOB.main())
